"""A candidate becomes an artifact here. This file knows all steps, and no other does.

    1. schedule   the template of the candidate's family makes loop nests from its config: one for
                  wasm and javascript, for webgpu one for each dispatch     schedules/registry.py
    2. optimise   passes rewrite the nests for the target    passes/pipeline.py
    3. generate   WebAssembly, WGSL or JavaScript            codegen/{wasm,wgsl,javascript}
    4. describe   the manifest: tensors, scratch memory, range or dispatches, layouts of weights

The SHA-256 of the bytes is the artifact's name. Only kernels that pack weights are remembered: many
candidates of a workload want the same one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

from kernelzoo.domain.artifact import ABI_VERSION, Artifact, ArtifactManifest, Layout, PackKernel
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Role, Tensor, Workload
from kernelzoo.errors import UnsupportedProgram
from services.tuner.codegen.javascript.module import print_module as print_javascript
from services.tuner.codegen.wasm.function import WasmFunction
from services.tuner.codegen.wasm.module import assemble, lower
from services.tuner.codegen.wgsl.module import Module as WgslModule
from services.tuner.codegen.wgsl.module import print_module
from services.tuner.ir.nodes import Program
from services.tuner.passes.pipeline import (
    ALL_PASSES,
    PassOptions,
    PassSwitches,
    run_gpu_passes,
    run_javascript_passes,
    run_passes,
)
from services.tuner.passes.vectorise import CHUNK, slice_outer_loop
from services.tuner.schedules.base.f16_storage import f16_storage_of
from services.tuner.schedules.base.settings import BASE
from services.tuner.schedules.registry import scheduled
from services.tuner.schedules.weight_layouts import weights_layout
from services.tuner.tir.lowering import plain_program
from services.tuner.tir.tvm import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """The steps of one compilation made these, for tests and the ablation."""

    scheduled: Program
    optimised: Program
    function: WasmFunction
    artifact: Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCompilation:
    """The steps of one compilation for WebGPU made these: a program for each dispatch."""

    scheduled: tuple[Program, ...]
    optimised: tuple[Program, ...]
    artifact: Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """A module of ABI 1 from any program; pointers are those of `program.parameters`, in order."""

    program: Program
    body: bytes
    scratch_bytes: int

    @property
    def range_extent(self) -> int:
        return self.program.body.extent


def compile_candidate(candidate: Candidate) -> Artifact:
    """Compiles a candidate, to the same bytes in every process.

    Raises InvalidSchedule for a config that does not fit its workload, UnsupportedProgram for a
    program that the compiler cannot lower.
    """
    match candidate.target:
        case TargetKind.WASM:
            return compilation(candidate, ALL_PASSES).artifact
        case TargetKind.WEBGPU:
            return gpu_compilation(candidate).artifact
        case TargetKind.JAVASCRIPT:
            return _javascript_artifact(candidate)


def compilation(candidate: Candidate, switches: PassSwitches) -> Compilation:
    """Compiles as `compile_candidate` does for wasm, under the given switches, and keeps what the
    steps made."""
    workload = candidate.workload
    with _naming(workload.key):
        # 1. Schedule.
        schedule = scheduled(candidate)
        (nest,) = schedule.nests
        # 2. Optimise.
        optimised = run_passes(nest, switches, schedule.options)
        # 3. Generate.
        module = lower(optimised, switches)
    # 4. Describe. The outermost loop is the range that a caller may slice.
    manifest = ArtifactManifest(
        abi=ABI_VERSION,
        target=candidate.target,
        requires=candidate.requires,
        tensors=_tensors(workload, schedule.layout),
        scratch_bytes=module.scratch_bytes,
        range_extent=nest.body.extent,
        layouts=_layouts(workload, schedule.layout),
    )
    return Compilation(
        scheduled=nest,
        optimised=optimised,
        function=module.function,
        artifact=Artifact.of(assemble(module.function), manifest),
    )


def gpu_compilation(candidate: Candidate) -> GpuCompilation:
    """Compiles as `compile_candidate` does for webgpu, and keeps what the steps made."""
    workload = candidate.workload
    with _naming(workload.key):
        # 1. Schedule.
        nests = scheduled(candidate).nests
        # 2. Optimise.
        optimised = tuple(map(run_gpu_passes, nests))
        # 3. Generate. Bindings are called like the tensors.
        names = tuple(tensor.name for tensor in workload.tensors)
        states = tuple(each.name for each in workload.tensors if each.role is Role.STATE)
        module = print_module(optimised, names, f16_storage_of(candidate), states)
    # 4. Describe.
    artifact = webgpu_artifact(module, workload.tensors, candidate.requires)
    return GpuCompilation(scheduled=nests, optimised=optimised, artifact=artifact)


def _javascript_artifact(candidate: Candidate) -> Artifact:
    workload = candidate.workload
    with _naming(workload.key):
        # 1. Schedule, as for wasm.
        (nest,) = scheduled(candidate).nests
        # 2. Optimise. 3. Generate.
        module = print_javascript(run_javascript_passes(nest))
    # 4. Describe.
    manifest = ArtifactManifest(
        abi=ABI_VERSION,
        target=candidate.target,
        requires=candidate.requires,
        tensors=workload.tensors,
        scratch_bytes=module.scratch_bytes,
        range_extent=nest.body.extent,
    )
    return Artifact.of(module.text.encode(), manifest)


def webgpu_artifact(
    module: WgslModule, tensors: tuple[Tensor, ...], requires: tuple[str, ...] = ()
) -> Artifact:
    """The module's bindings are called like `tensors`. The range counts workgroups of all
    dispatches.
    """
    manifest = ArtifactManifest(
        abi=ABI_VERSION,
        target=TargetKind.WEBGPU,
        requires=requires,
        tensors=tensors,
        scratch_bytes=module.scratch_bytes,
        range_extent=sum(dispatch.workgroups for dispatch in module.dispatches),
        dispatches=module.dispatches,
    )
    return Artifact.of(module.text.encode(), manifest)


def compile_program(function: Node, name: str, *, fma: bool = False) -> CompiledProgram:
    """Any TIR PrimFunc, scheduled or not, for wasm; `name` is what errors call it.

    Innermost loops over consecutive memory are vectorised, and the outermost loop becomes the
    caller's range where its iterations are independent. Raises UnsupportedProgram for a node that
    is not lowered.
    """
    with _naming(name):
        program = slice_outer_loop(plain_program(function), CHUNK)
        optimised = run_passes(program, ALL_PASSES, PassOptions(fma=fma, vectors=1))
        module = lower(optimised, ALL_PASSES)
    return CompiledProgram(
        program=optimised, body=assemble(module.function), scratch_bytes=module.scratch_bytes
    )


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Says of what program it is that the compiler cannot lower it."""
    try:
        yield
    except UnsupportedProgram as error:
        raise UnsupportedProgram(f"{name}: {error}") from error


# Weights that stay the same may be packed once, before the kernel runs: its manifest names a layout
# of b, and the kernel that copies b into it.


def pack_kernels(candidate: Candidate, manifest: ArtifactManifest) -> tuple[Artifact, ...]:
    """The artifacts that the layouts in the manifest of a compiled candidate name."""
    return tuple(compile_packing(candidate.workload, each.layout) for each in manifest.layouts)


@lru_cache(maxsize=64)
def compile_packing(workload: Workload, layout: str) -> Artifact:
    """From input b of a workload to b in the layout of that id.

    Raises InvalidInput for an id that is no layout.
    """
    workload = workload.whole
    program = slice_outer_loop(weights_layout(layout).program(workload), CHUNK)
    module = lower(run_passes(program, ALL_PASSES, PassOptions(vectors=1)), ALL_PASSES)
    plain, packed = workload.tensors[1], _tensors(workload, layout)[1]
    manifest = ArtifactManifest(
        abi=ABI_VERSION,
        target=TargetKind.WASM,
        requires=BASE,
        tensors=(plain, replace(packed, name="packed", role=Role.OUTPUT)),
        scratch_bytes=module.scratch_bytes,
        range_extent=program.body.extent,
    )
    return Artifact.of(assemble(module.function), manifest)


def _layouts(workload: Workload, layout: str) -> tuple[Layout, ...]:
    if not layout:
        return ()
    made = compile_packing(workload, layout)
    pack = PackKernel(sha256=made.sha256, size_bytes=len(made.body), manifest=made.manifest)
    return (Layout(tensor="b", layout=layout, pack=pack),)


def _tensors(workload: Workload, layout: str) -> tuple[Tensor, ...]:
    """Returns the tensors of the workload, b in the layout that the kernel wants."""
    if not layout:
        return workload.tensors
    a, b, *rest = workload.tensors
    return a, replace(b, shape=weights_layout(layout).shape(workload.whole)), *rest

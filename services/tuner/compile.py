"""A candidate to its artifact: schedule, loop IR, passes, WebAssembly. Nothing is remembered."""

from dataclasses import dataclass

from kernelzoo.domain.artifact import ABI_VERSION, Artifact, ArtifactManifest
from kernelzoo.domain.candidate import Candidate
from kernelzoo.errors import UnsupportedProgram
from services.tuner.families import planned
from services.tuner.frontend.expressions import Node
from services.tuner.frontend.lowering import plain_program
from services.tuner.ir.nodes import Program
from services.tuner.passes.pipeline import Freedom, run_passes
from services.tuner.passes.switches import ALL_PASSES, PassSwitches
from services.tuner.passes.vectorise import CHUNK, sliceable
from services.tuner.wasm.assembler import Function, assemble
from services.tuner.wasm.lowering import lower


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """What the steps of one compilation made, for tests and the ablation."""

    scheduled: Program
    optimised: Program
    function: Function
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
    """The same candidate gives the same bytes in every process.

    Raises InvalidSchedule for a config that does not fit its workload, UnsupportedProgram for a
    program that the compiler cannot lower.
    """
    return compilation(candidate, ALL_PASSES).artifact


def compile_program(function: Node, name: str, *, fma: bool = False) -> CompiledProgram:
    """Any TIR PrimFunc, scheduled or not; `name` is what errors call it.

    Innermost loops over consecutive memory are vectorised, and the outermost loop becomes the
    caller's range where its iterations are independent. Raises UnsupportedProgram for a node that
    is not lowered.
    """
    try:
        program = sliceable(plain_program(function), CHUNK)
        optimised = run_passes(program, ALL_PASSES, Freedom(fma=fma, vectors=1))
        lowered = lower(optimised, ALL_PASSES)
    except UnsupportedProgram as error:
        raise UnsupportedProgram(f"{name}: {error}") from error
    return CompiledProgram(
        program=optimised, body=assemble(lowered.function), scratch_bytes=lowered.scratch_bytes
    )


def compilation(candidate: Candidate, switches: PassSwitches) -> Compilation:
    """As `compile_candidate`, with what the steps made, under the given switches."""
    try:
        plan = planned(candidate)
        optimised = run_passes(plan.program, switches, plan.freedom)
        lowered = lower(optimised, switches)
    except UnsupportedProgram as error:
        raise UnsupportedProgram(f"{candidate.workload.key}: {error}") from error
    manifest = ArtifactManifest(
        abi=ABI_VERSION,
        kind=candidate.kind,
        requires=candidate.requires,
        tensors=candidate.workload.tensors,
        scratch_bytes=lowered.scratch_bytes,
        range_extent=plan.program.body.extent,
    )
    return Compilation(
        scheduled=plan.program,
        optimised=optimised,
        function=lowered.function,
        artifact=Artifact.of(assemble(lowered.function), manifest),
    )

"""A candidate to its artifact: schedule, loop IR, passes, WebAssembly. Nothing is remembered."""

from dataclasses import dataclass

from kernelzoo.domain.artifact import ABI_VERSION, Artifact, ArtifactManifest
from kernelzoo.domain.candidate import Candidate
from services.tuner.config import ContractionConfig
from services.tuner.extents import Extents
from services.tuner.frontend.contraction import contraction_program
from services.tuner.ir.nodes import Program
from services.tuner.passes.pipeline import run_passes
from services.tuner.passes.switches import ALL_PASSES, PassSwitches
from services.tuner.wasm.assembler import Function, assemble
from services.tuner.wasm.lowering import lower


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """What the steps of one compilation made, for tests and the ablation."""

    scheduled: Program
    optimised: Program
    function: Function
    artifact: Artifact


def compile_candidate(candidate: Candidate) -> Artifact:
    """The same candidate gives the same bytes in every process.

    Raises InvalidSchedule for a config that does not fit its workload, UnsupportedProgram for a
    program that the compiler cannot lower.
    """
    return compilation(candidate, ALL_PASSES).artifact


def compilation(candidate: Candidate, switches: PassSwitches) -> Compilation:
    """As `compile_candidate`, with what the steps made, under the given switches."""
    config = ContractionConfig.of(candidate)
    extents = Extents.of(candidate.workload)
    scheduled = contraction_program(extents, config)
    optimised = run_passes(scheduled, switches, fma=config.fma)
    lowered = lower(optimised, switches)
    manifest = ArtifactManifest(
        abi=ABI_VERSION,
        kind=candidate.kind,
        requires=candidate.requires,
        tensors=candidate.workload.tensors,
        scratch_bytes=lowered.scratch_bytes,
        range_extent=config.range_extent(extents),
    )
    return Compilation(
        scheduled=scheduled,
        optimised=optimised,
        function=lowered.function,
        artifact=Artifact.of(assemble(lowered.function), manifest),
    )

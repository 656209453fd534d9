"""Answers what a replay asks of one commit: the space of a workload, and a kernel as bytes and as
text.

`hashing.py` runs at the newer of two commits and imports this file of the commit that it is about.
So the names of its functions stay, and it names as little of the code as it can.
"""

from collections.abc import Iterable
from dataclasses import astuple

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import GPU_MODELS
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload, Workload
from kernelzoo.errors import KernelZooError
from services.tuner.codegen.wasm.function import disassembly
from services.tuner.compile import compilation, compile_candidate
from services.tuner.passes.pipeline import ALL_PASSES
from services.tuner.schedules.registry import lite_space

__all__ = ["GPU_MODELS", "WASM", "compile_candidate", "learn", "space_of", "text"]

WASM = "wasm"
"""The place of a space that belongs to no model of GPU; others are called like their model."""


_PROGRAMS: dict[str, ProgramWorkload] = {}


def learn(texts: Iterable[str]) -> None:
    """Makes programs known, so that their keys name workloads."""
    for each in texts:
        workload = Workload.of_program("replay", parsed(each))
        _PROGRAMS[workload.key] = workload


def space_of(key: str, place: str) -> tuple[Candidate, ...]:
    """Empty where the target has no kernels for the workload."""
    try:
        workload = _PROGRAMS.get(key) or Workload.parse(key)
        if place == WASM:
            return lite_space(workload, TargetKind.WASM)
        return lite_space(workload, TargetKind.WEBGPU, GPU_MODELS[place])
    except KernelZooError:
        return ()


def text(key: str, place: str, candidate_id: str) -> str:
    """WGSL, or the instructions of a wasm module; with the values that go with it."""
    for candidate in space_of(key, place):
        if candidate.candidate_id == candidate_id:
            try:
                artifact = compile_candidate(candidate)
            except KernelZooError as error:
                return f"refused: {error}\n"
            head = f"config {candidate.config}\nmanifest {astuple(artifact.manifest)}\n"
            if place != WASM:
                return head + artifact.body.decode()
            return head + disassembly(compilation(candidate, ALL_PASSES).function)
    return "not in the space\n"

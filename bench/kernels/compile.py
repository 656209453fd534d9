"""Measures how long a candidate takes from its config to its bytes, in a warm process, and where it
goes.

Every round compiles every candidate of the lite spaces twice: whole, and step by step; those of
WebGPU are of NVIDIA's GPUs. A compilation waits for nothing, so its processor time is what it takes
on a free core.
"""

from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns, thread_time_ns
from typing import Self

from bench.kernels.stages import GPU_STAGES, STAGES, gpu_stage_times_ns, stage_times_ns
from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from bench.samples import percentile
from bench.workloads import PAPER, BenchCase
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import GPU_MODELS
from kernelzoo.domain.target import MEASURED, TargetKind
from services.tuner.compile import compile_candidate
from services.tuner.schedules.matmul.space import naive_space_size
from services.tuner.schedules.registry import lite_space

ROUNDS = 7
MOST_MS = {TargetKind.WASM: 6.0, TargetKind.WEBGPU: 10.0}
MOST_POINTS = {TargetKind.WASM: 60, TargetKind.WEBGPU: 80}
GPU = GPU_MODELS["nvidia"]

Times = dict[Candidate, list["CompileTime"]]
Stages = dict[Candidate, list[tuple[int, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTime:
    wall_ms: float
    cpu_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperSpace:
    """The lite space of one of the paper's workloads for one target."""

    case: BenchCase
    target: TargetKind
    candidates: tuple[Candidate, ...]

    @classmethod
    def of(cls, case: BenchCase, target: TargetKind) -> Self:
        return cls(case=case, target=target, candidates=lite_space(case.workload, target, GPU))


def main() -> None:
    options = parser("Compile time of candidates, and its stages.")
    names = [case.name for case in PAPER]
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--only", nargs="+", choices=names, default=names)
    run(options, measure, tiny=("--rounds", "1", "--only", "K3"))


def measure(options: Namespace) -> Report:
    cases = [case for case in PAPER if case.name in options.only]
    spaces = [PaperSpace.of(case, target) for target in MEASURED for case in cases]
    candidates = [candidate for space in spaces for candidate in space.candidates]
    times, stages = _rounds(candidates, options.rounds)
    return Report(
        name="compile",
        machine=machine(),
        rows=[_row(space, times, stages) for space in spaces],
        claims=[
            claim
            for target in MEASURED
            for claim in _claims(target, [s for s in spaces if s.target is target], times)
        ],
    )


def _rounds(candidates: list[Candidate], rounds: int) -> tuple[Times, Stages]:
    """A round before the first fills caches and does not count."""
    times: Times = defaultdict(list)
    stages: Stages = defaultdict(list)
    for candidate in candidates:
        compile_candidate(candidate)
    for _ in range(rounds):
        for candidate in candidates:
            times[candidate].append(_compile_time(candidate))
            stages[candidate].append(_TIMED[candidate.target](candidate))
    return times, stages


_TIMED = {TargetKind.WASM: stage_times_ns, TargetKind.WEBGPU: gpu_stage_times_ns}
_STAGES = {TargetKind.WASM: STAGES, TargetKind.WEBGPU: GPU_STAGES}


def _compile_time(candidate: Candidate) -> CompileTime:
    wall_ns, cpu_ns = perf_counter_ns(), thread_time_ns()
    compile_candidate(candidate)
    cpu_ms, wall_ms = (thread_time_ns() - cpu_ns) / 1e6, (perf_counter_ns() - wall_ns) / 1e6
    return CompileTime(wall_ms=wall_ms, cpu_ms=cpu_ms)


def _row(space: PaperSpace, times: Times, stages: Stages) -> dict[str, Cell]:
    candidates = space.candidates
    own = [each for candidate in candidates for each in times[candidate]]
    wall_ms, cpu_ms = [each.wall_ms for each in own], [each.cpu_ms for each in own]
    own_stages = [each for candidate in candidates for each in stages[candidate]]
    found = dict(zip(_STAGES[space.target], zip(*own_stages, strict=True), strict=True))
    sizes = [len(compile_candidate(candidate).body) for candidate in candidates]
    naive = naive_space_size(space.case.workload) if space.target is TargetKind.WASM else None
    return {
        "target": space.target,
        "workload": space.case.name,
        "naive_points": naive,
        "points": len(candidates),
        "median_ms": median(wall_ms),
        "p90_ms": percentile(wall_ms, 90),
        "median_cpu_ms": median(cpu_ms),
        "p90_cpu_ms": percentile(cpu_ms, 90),
        "per_cpu_second": 1e3 * len(cpu_ms) / sum(cpu_ms),
        "median_bytes": int(median(sizes)),
        **{
            f"{stage}_ms": median(found[stage]) / 1e6 if stage in found else None
            for stage in dict.fromkeys((*STAGES, *GPU_STAGES))
        },
    }


def _claims(target: TargetKind, spaces: list[PaperSpace], times: Times) -> Iterator[Claim]:
    own = [each for space in spaces for one in space.candidates for each in times[one]]
    wall_ms, cpu_ms = median(each.wall_ms for each in own), median(each.cpu_ms for each in own)
    points = max(len(space.candidates) for space in spaces)
    yield Claim.at_most(f"{target}: compile one candidate, median", wall_ms, "ms", MOST_MS[target])
    yield Claim.at_most(f"{target}: the same in processor time", cpu_ms, "ms", MOST_MS[target])
    yield Claim.at_most(f"{target}: points of a lite space", points, "points", MOST_POINTS[target])


if __name__ == "__main__":
    main()

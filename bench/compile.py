"""How long a candidate takes from its config to its bytes, in a warm process, and where it goes.

Every round compiles every candidate of the four lite spaces twice: whole, and step by step. A
compilation waits for nothing, so its processor time is what it takes on a free core.
"""

from argparse import Namespace
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns, thread_time_ns

from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from bench.samples import percentile
from bench.stages import STAGES, stage_times_ns
from bench.workloads import PAPER, Case
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from services.tuner.compile import compile_candidate
from services.tuner.space import lite_space, naive_space_size

ROUNDS = 7
MOST_MS = 6.0
MOST_POINTS = 60

Times = dict[Candidate, list["CompileTime"]]
Stages = dict[Candidate, list[tuple[int, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTime:
    wall_ms: float
    cpu_ms: float


def main() -> None:
    options = parser("Compile time of wasm candidates, and its stages.")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    run(options, measure)


def measure(options: Namespace) -> Report:
    spaces = {case: lite_space(case.workload, TargetKind.WASM) for case in PAPER}
    candidates = [candidate for space in spaces.values() for candidate in space]
    times, stages = _rounds(candidates, options.rounds)
    return Report(
        name="compile",
        machine=machine(),
        rows=[_row(case, space, times, stages) for case, space in spaces.items()],
        claims=_claims(spaces, times),
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
            stages[candidate].append(stage_times_ns(candidate))
    return times, stages


def _compile_time(candidate: Candidate) -> CompileTime:
    wall_ns, cpu_ns = perf_counter_ns(), thread_time_ns()
    compile_candidate(candidate)
    cpu_ms, wall_ms = (thread_time_ns() - cpu_ns) / 1e6, (perf_counter_ns() - wall_ns) / 1e6
    return CompileTime(wall_ms=wall_ms, cpu_ms=cpu_ms)


def _row(case: Case, space: tuple[Candidate, ...], times: Times, stages: Stages) -> dict[str, Cell]:
    own = [each for candidate in space for each in times[candidate]]
    wall_ms, cpu_ms = [each.wall_ms for each in own], [each.cpu_ms for each in own]
    own_stages = [each for candidate in space for each in stages[candidate]]
    columns = zip(STAGES, zip(*own_stages, strict=True), strict=True)
    sizes = [len(compile_candidate(candidate).body) for candidate in space]
    return {
        "workload": case.name,
        "naive_points": naive_space_size(case.workload),
        "points": len(space),
        "median_ms": median(wall_ms),
        "p90_ms": percentile(wall_ms, 90),
        "median_cpu_ms": median(cpu_ms),
        "p90_cpu_ms": percentile(cpu_ms, 90),
        "per_cpu_second": 1e3 * len(cpu_ms) / sum(cpu_ms),
        "median_bytes": int(median(sizes)),
        **{f"{stage}_ms": median(column) / 1e6 for stage, column in columns},
    }


def _claims(spaces: dict[Case, tuple[Candidate, ...]], times: Times) -> list[Claim]:
    own = [each for samples in times.values() for each in samples]
    points = max(len(space) for space in spaces.values())
    wall_ms, cpu_ms = median(each.wall_ms for each in own), median(each.cpu_ms for each in own)
    return [
        Claim.at_most("compile one candidate, median", wall_ms, "ms", MOST_MS),
        Claim.at_most("the same in processor time", cpu_ms, "ms", MOST_MS),
        Claim.at_most("points of a lite space", points, "points", MOST_POINTS),
    ]


if __name__ == "__main__":
    main()

"""A WebGPU contest in figures: medians of the rounds, by who took part."""

from dataclasses import dataclass
from statistics import median

from bench.gpu.answer import GpuContest, GpuResult, GpuScreened

PEERS = ("tfjs", "ort")
LIMIT = "limit-"
READING = "reading"
COPYING = "copying"
OURS = "ours"
FIRST = 40
"""Candidates after which the best found should be near the best of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStanding:
    """`kernel_ns` is the GPU's time for the dispatches of a call, `call_ns` the page's for a call
    among many, `batched_ns` that where calls are handed over several at once; None for what is
    not called so. `kernel_spread` is the worst round over the best.
    """

    result: GpuResult
    kernel_ns: float
    kernel_spread: float
    call_ns: float | None
    batched_ns: float | None
    config: str

    @property
    def gflops(self) -> float:
        return self.result.flops / self.kernel_ns

    @property
    def least_call_ns(self) -> float | None:
        """A page may choose how it hands calls over."""
        ways = [each for each in (self.call_ns, self.batched_ns) if each is not None]
        return min(ways, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpaceFigures:
    """Figures of the candidates that the adapter may run, in the order of the space.

    `default_share` is the speed of the default kernel, which times are relative to, over that of
    the best; 0 where it failed as a candidate. It is not taken from its own time: what is measured
    first appeared 5 to 17 times slower in some runs on an H200, whose clock dips now and then.
    `median_share` that of the median one, `first_share` that of the best of the first 40.
    """

    tried: int
    failed: int
    default_share: float
    median_share: float
    first_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStandings:
    """`found`, by name: OURS, PEERS, limits, READING. Whose output was wrong stands in `wrong`."""

    contest: GpuContest
    found: dict[str, GpuStanding]
    wrong: tuple[str, ...]

    @property
    def ours(self) -> GpuStanding | None:
        return self.found.get(OURS)

    @property
    def peers(self) -> tuple[GpuStanding, ...]:
        return tuple(self.found[name] for name in PEERS if name in self.found)

    @property
    def limit_gflops(self) -> float:
        """Limit of the best round: what the adapter can do, whatever its clock did in the
        others."""
        limits = [s.result for name, s in self.found.items() if name.startswith(LIMIT)]
        return max((each.flops / min(each.kernel_ns) for each in limits), default=0.0)

    @property
    def memory(self) -> GpuStanding | None:
        """The loop that memory limits, where that is the limit of the case."""
        return self.found.get(READING) or self.found.get(COPYING)

    @property
    def space(self) -> GpuSpaceFigures | None:
        return space_figures(self.contest.screened)


def gpu_standings(contest: GpuContest) -> GpuStandings:
    """Ours is the finalist whose kernel is fastest."""
    right = [each for each in contest.results if not _is_wrong(each, contest)]
    configs = {each.candidate: each.config for each in contest.screened}
    own = [_standing(each, configs[each.name]) for each in right if each.name in configs]
    found = {OURS: min(own, key=lambda each: each.kernel_ns)} if own else {}
    found |= {each.name: _standing(each, "") for each in right if each.name not in configs}
    wrong = tuple(each.name for each in contest.results if _is_wrong(each, contest))
    return GpuStandings(contest=contest, found=found, wrong=wrong)


def space_figures(screened: tuple[GpuScreened, ...]) -> GpuSpaceFigures | None:
    """None when no candidate runs."""
    times = [each.relative_time for each in screened]
    timed = [time for time in times if time is not None]
    first = [time for time in times[:FIRST] if time is not None]
    if not timed or not first:
        return None
    return GpuSpaceFigures(
        tried=len(times),
        failed=len(times) - len(timed),
        default_share=0.0 if times[0] is None else min(timed),
        median_share=min(timed) / median(timed),
        first_share=min(timed) / min(first),
    )


def _is_wrong(result: GpuResult, contest: GpuContest) -> bool:
    return result.difference is not None and not result.difference <= contest.tolerance


def _standing(result: GpuResult, config: str) -> GpuStanding:
    return GpuStanding(
        result=result,
        kernel_ns=median(result.kernel_ns),
        kernel_spread=max(result.kernel_ns) / min(result.kernel_ns),
        call_ns=median(result.call_ns) if result.call_ns else None,
        batched_ns=median(result.batched_ns) if result.batched_ns else None,
        config=config,
    )

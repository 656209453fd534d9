"""Describes what a crowd found of a workload on one class of devices, as `kernelzoo tune` tells it;
pure."""

from collections.abc import Sequence
from statistics import median, quantiles

from pydantic import BaseModel

from cli.figures import number, share
from services.aggregator.challenge import MARGIN
from services.gateway.wire.results import Trial
from services.gateway.wire.zoo import ZooEntry


class Speedup(BaseModel):
    """Over the default kernel, of `agents`: the median, and what the middle half of them found;
    null where it is not told, or one alone has measured it.
    """

    median: float
    low: float | None
    high: float | None
    agents: int


class FoundKernel(BaseModel):
    candidate: str
    gflops: float | None
    speedup: Speedup | None


class KernelFinding(BaseModel):
    """`served` is told as it was decided: `rank` among all that were measured, `spread` between
    the middle half of the voters as a share; both null of entries of before, which are told by
    first measurements. `fastest`: by the median of first measurements; null where the gateway tells
    nobody of them. `why`: the served kernel is another; '' where it is the same.
    """

    workload: str
    device_class: str
    state: str
    final: bool
    votes: str
    served: FoundKernel
    rank: int | None
    spread: float | None
    fastest: FoundKernel | None
    why: str


def finding(entry: ZooEntry, trials: Sequence[Trial], flops: int) -> KernelFinding:
    """`trials`: of the class; none where they are not told."""
    by_id = {trial.candidate: trial for trial in trials if trial.relative_times}
    served = by_id.get(entry.candidate)
    fastest = min(by_id.values(), key=lambda trial: median(trial.relative_times), default=None)
    return KernelFinding(
        workload=entry.workload,
        device_class=entry.device_class,
        state=entry.state,
        final=entry.final,
        votes=share(entry),
        served=FoundKernel(
            candidate=entry.candidate,
            gflops=entry.gflops,
            speedup=_told(entry)
            if entry.evidence.rank is not None or not served
            else _speedup(served.relative_times),
        ),
        rank=entry.evidence.rank,
        spread=entry.evidence.spread,
        fastest=_kernel(fastest, flops) if fastest else None,
        why=_why(entry, served, fastest) if served and fastest else "",
    )


def sentences(found: KernelFinding) -> tuple[str, ...]:
    """For people."""
    served = f"{_standing(found)} for {found.device_class}: {_kernel_words(found.served)}"
    if found.rank is not None:
        half = "" if found.spread is None else f", half of the voters within {found.spread:.1%}"
        served += f", rank {found.rank} of what was measured{half}"
    if found.fastest is None or not found.why:
        return (f"{served}, {found.votes}",)
    fastest = f"measured faster at first: {_kernel_words(found.fastest)}"
    return f"{served}, {found.votes}", f"{fastest}; it is not served, since {found.why}"


def _kernel_words(kernel: FoundKernel) -> str:
    rate = number(kernel.gflops, "GFLOP/s")
    return f"{kernel.candidate[:12]}, {rate}, {_times(kernel.speedup)}"


def _standing(found: KernelFinding) -> str:
    return "final" if found.final else found.state


def _times(speedup: Speedup | None) -> str:
    if speedup is None:
        return "speed-up unknown"
    of = "1 agent" if speedup.agents == 1 else f"{speedup.agents} agents"
    spread = "" if speedup.low is None else f"{speedup.low:.2f} to {speedup.high:.2f}, "
    return f"{speedup.median:.2f}× the default ({spread}{of})"


def _kernel(trial: Trial, flops: int) -> FoundKernel:
    return FoundKernel(
        candidate=trial.candidate,
        gflops=flops / median(trial.times_ns),
        speedup=_speedup(trial.relative_times),
    )


def _speedup(relative_times: Sequence[float]) -> Speedup:
    found = sorted(1 / time for time in relative_times)
    if len(found) == 1:
        return Speedup(median=found[0], low=None, high=None, agents=1)
    low, middle, high = quantiles(found, n=4, method="inclusive")
    return Speedup(median=middle, low=low, high=high, agents=len(found))


def _told(entry: ZooEntry) -> Speedup | None:
    """By the ballots alone, which have no spread; of the default it is 1."""
    time = entry.evidence.relative_time
    ballots = entry.evidence.ballots
    return Speedup(median=1 / time, low=None, high=None, agents=ballots) if time else None


def _why(entry: ZooEntry, served: Trial, fastest: Trial) -> str:
    if fastest.candidate == entry.candidate:
        return ""
    ahead = 1 - median(fastest.relative_times) / median(served.relative_times)
    if ahead < MARGIN:
        return f"it is ahead by less than the noise of {MARGIN:.0%}"
    if fastest.candidate in entry.contenders:
        return f"{len(fastest.relative_times)} measured it so far; agents are asked for more"
    if not entry.final:
        return "the vote goes on"
    return "the more careful last rounds of the agents, or the others', do not bear it out"

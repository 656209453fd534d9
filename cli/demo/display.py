"""Draws what the demo shows: progress while it runs, and the summary at its end."""

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cli.demo.page import FrameworkResult, NetworkResult, PageResult
from cli.demo.watch import Sight, outstanding
from cli.figures import ABSENT, gflops, number, progress
from kernelzoo.domain.lease import LEADERS
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import HitLevel
from services.gateway.wire.jobs import Job
from workers.fleet.status import FleetStatus

HEADING_WIDTH = 20
FIRST_TIMED_REACH_MS = {TargetKind.WASM: 1500.0}
"""There is no limit for webgpu: the probe of a software adapter alone takes longer."""


def plain(sight: Sight) -> str:
    return f"{sight.job.workload}, {sight.elapsed_s:5.1f} s · {progress(sight.job)}"


def panel(sight: Sight) -> RenderableType:
    job = sight.job
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=10)
    table.add_column(width=32)
    table.add_column()
    table.add_row(
        "compiled",
        _bar(job.compiled, job.candidates),
        f"{job.compiled}/{job.candidates}, {number(job.compile_ms_median, 'ms')} each",
    )
    wanted = shared_work(job.candidates, _agents(sight.fleet))
    table.add_row(
        "measured", _bar(job.measurements, wanted), f"{job.measurements} of about {wanted}"
    )
    best = number(gflops(job.flops, job.best_ns), "GFLOP/s")
    table.add_row("votes", _bar(job.ballots, _agents(sight.fleet)), f"{job.ballots}, best {best}")
    return Group(
        table, Text(f"{sight.job.workload}, {sight.elapsed_s:.1f} s · {_now(sight)}", style="dim")
    )


def shared_work(candidates: int, agents: int) -> int:
    """Measurements of agents that share a space: each candidate once, and the leaders by all. Where
    times vary, and with them who leads, there are a few more.
    """
    return candidates + min(LEADERS, candidates) * max(agents - 1, 0)


def _bar(done: int, wanted: int) -> ProgressBar:
    return ProgressBar(total=max(wanted, 1), completed=done, width=32)


def _agents(fleet: FleetStatus | None) -> int:
    return len(fleet.agents) if fleet is not None else 0


def _now(sight: Sight) -> str:
    if sight.winners:
        return "winner confirmed; the agents finish"
    step = outstanding(sight.job)
    return f"step {step.number}: {step.what}"


def first_timed_ms(fleet: FleetStatus | None) -> float | None:
    """Milliseconds to the first timing of the agent whose page opened first."""
    agents = fleet.agents if fleet is not None else ()
    return agents[0].first_timed_ms if agents else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The demo has this to show: of each workload its tuning and what the page says, and what the
    page says of a whole network.
    """

    sights: Sequence[Sight]
    results: Sequence[PageResult]
    network: NetworkResult | None


def summary(shown: Shown, elapsed_s: float) -> Group:
    """A column for each workload, then what is said of the visit as a whole and of the network. The
    demo has taken `elapsed_s`, with its start and its end."""
    sights, results = shown.sights, shown.results
    target, fleet = sights[0].job.target, sights[-1].fleet
    table = Table(title="kernelzoo demo", title_justify="left", box=SIMPLE_HEAD)
    table.add_column()
    for sight in sights:
        table.add_column(_heading(sight.job), justify="right")
    for what, figures in _figures(sights, results):
        table.add_row(what, *figures)
    for name, figures in _frameworks(results):
        table.add_row(name, *figures)
    table.add_row(_LIMIT[target], *(f"{result.share_of_limit:.0%}" for result in results))
    visit = Table.grid(padding=(0, 2))
    visit.add_row("first candidate timed", _first_timed(fleet, target))
    visit.add_row("same, median of agents", number(_median_first_timed(fleet), "ms", 0))
    visit.add_row("manifest at page load", number(results[0].manifest_ms, "ms"))
    visit.add_row("the whole demo", number(elapsed_s, "s", 0))
    parts: list[RenderableType] = [table, Padding(visit, (0, 0, 0, 1))]
    if shown.network is not None:
        parts.append(_of_network(shown.network))
    return Group(*parts)


def _of_network(result: NetworkResult) -> Table:
    """Draws a table of the network: what it is, then a run in each engine."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("text encoder, 6 layers,\n128 words, random weights")
    table.add_column("one run, on\none thread", justify="right")
    table.add_row("kernels from the zoo", number(result.zoo_ms, "ms"))
    if result.peer is not None and result.peer_ms is not None:
        table.add_row(result.peer, number(result.peer_ms, "ms"))
        table.add_row("  zoo over it", f"{result.peer_ms / result.zoo_ms:.2f}×")
        table.add_row("largest difference", f"{result.difference:.1e}")
    table.add_row("calls of kernels", str(result.calls))
    for level, calls in result.calls_by_level.items():
        table.add_row(f"  {_OF_LEVEL[level]}", str(calls))
    return table


_OF_LEVEL = {
    HitLevel.EXACT: "voted for by devices like this",
    HitLevel.DEVICE: "voted for in another browser",
    HitLevel.ARCHITECTURE: "best on this architecture",
    HitLevel.VENDOR: "best on this vendor's GPUs",
    HitLevel.COMMON: "best on all devices",
    HitLevel.MODEL: "foretold by the cost model",
    HitLevel.SHAPE: "voted for at a similar shape",
    HitLevel.DEFAULT: "default, not voted on yet",
}


def _heading(job: Job) -> str:
    """`conv2d:f32:b1h7w7c512o512kh3kw3stride1pad1` over lines that leave room for two columns."""
    operator, dtype, extents, *rest = job.workload.split(":")
    axes = re.sub(r"(?<=[0-9])(?=[a-z])", " ", extents)
    lines = [line.replace(" ", "") for line in textwrap.wrap(axes, HEADING_WIDTH)]
    return "\n".join((f"{operator} {dtype}, {job.target}", *lines, *rest))


def _figures(
    sights: Sequence[Sight], results: Sequence[PageResult]
) -> Iterator[tuple[str, list[str]]]:
    jobs = [sight.job for sight in sights]
    yield "candidates compiled", [f"{job.compiled} of {job.candidates}" for job in jobs]
    yield "measurements", [f"{job.measurements} by {job.agents} agents" for job in jobs]
    yield "compile, median", [number(job.compile_ms_median, "ms") for job in jobs]
    yield "votes", [ABSENT if each.votes is None else str(each.votes) for each in results]
    yield "largest error", [f"{each.max_error:.1e}" for each in results]
    yield "kernel from the zoo", [number(each.zoo_gflops, "GFLOP/s") for each in results]
    yield "default kernel", [number(each.default_gflops, "GFLOP/s") for each in results]
    yield "  zoo over default", [_speed_up(each) for each in results]


def _frameworks(results: Sequence[PageResult]) -> Iterator[tuple[str, list[str]]]:
    """Yields what each framework reaches, and what the zoo's kernel gains over it."""
    names = dict.fromkeys(each.name for result in results for each in result.frameworks)
    for name in names:
        found = [_of_name(name, result) for result in results]
        rates = [None if each is None else each.gflops for each in found]
        gains = [None if each is None else each.speedup for each in found]
        yield name, [number(rate, "GFLOP/s") for rate in rates]
        yield "  zoo over it", [ABSENT if gain is None else f"{gain:.2f}×" for gain in gains]


def _of_name(name: str, result: PageResult) -> FrameworkResult | None:
    return next((each for each in result.frameworks if each.name == name), None)


_LIMIT = {
    TargetKind.WASM: "of the core's limit",
    TargetKind.WEBGPU: "of the GPU's limit",
}


def _speed_up(result: PageResult) -> str:
    return "same kernel" if result.same_kernel else f"{result.speedup:.2f}×"


def _first_timed(fleet: FleetStatus | None, target: TargetKind) -> str:
    elapsed_ms = first_timed_ms(fleet)
    if elapsed_ms is None:
        return ABSENT
    reach_ms = FIRST_TIMED_REACH_MS.get(target, math.inf)
    met = "" if elapsed_ms <= reach_ms else f", missed {reach_ms:.0f} ms"
    return f"{elapsed_ms:.0f} ms after its page opened{met}"


def _median_first_timed(fleet: FleetStatus | None) -> float | None:
    agents = fleet.agents if fleet is not None else ()
    known = [agent.first_timed_ms for agent in agents if agent.first_timed_ms is not None]
    return median(known) if known else None

"""What the demo shows: progress while it runs, and the summary at its end."""

import math
from statistics import median

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kernelzoo.cli.demo.page import PageResult
from kernelzoo.cli.demo.steps import outstanding
from kernelzoo.cli.demo.watch import Sight
from kernelzoo.cli.figures import ABSENT, gflops, number, progress
from kernelzoo.domain.lease import LEADERS
from kernelzoo.domain.target import TargetKind
from workers.fleet.status import FleetStatus

FIRST_TIMED_REACH_MS = {TargetKind.WASM: 1500.0}
"""Of webgpu there is none: the probe of a software adapter alone takes longer."""


def plain(sight: Sight) -> str:
    return f"{sight.elapsed_s:5.1f} s · {progress(sight.job)}"


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
    return Group(table, Text(f"{sight.elapsed_s:.1f} s · {_now(sight)}", style="dim"))


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
    """Of the agent whose page opened first."""
    agents = fleet.agents if fleet is not None else ()
    return agents[0].first_timed_ms if agents else None


def summary(sight: Sight, result: PageResult) -> Table:
    job = sight.job
    table = Table(title="kernelzoo demo", show_header=False, title_justify="left")
    for what, figure in (
        ("workload", f"{job.workload} ({job.kind})"),
        ("candidates", f"{job.compiled} compiled, {job.failed} failed"),
        ("measurements", f"{job.measurements} by {job.agents} agents"),
        ("compile, median", number(job.compile_ms_median, "ms")),
        ("best kernel, from the zoo", number(result.zoo_gflops, "GFLOP/s")),
        ("default kernel", number(result.default_gflops, "GFLOP/s")),
        ("speed-up", _speed_up(result)),
        (_LIMIT[job.kind], f"{result.share_of_limit:.0%}"),
        ("largest error", f"{result.max_error:.1e}"),
        ("votes", ABSENT if result.votes is None else str(result.votes)),
        ("first candidate timed", _first_timed(sight.fleet, job.kind)),
        ("same, median of agents", number(_median_first_timed(sight.fleet), "ms", 0)),
        ("manifest at page load", number(result.manifest_ms, "ms")),
    ):
        table.add_row(what, figure)
    return table


_LIMIT = {
    TargetKind.WASM: "share of one core's limit",
    TargetKind.WEBGPU: "share of the GPU's limit",
}


def _speed_up(result: PageResult) -> str:
    """Both kernels are timed even where the vote chose the default itself."""
    note = ", noise: the default is the winner" if result.same_kernel else ""
    return f"{result.speedup:.2f}×{note}"


def _first_timed(fleet: FleetStatus | None, kind: TargetKind) -> str:
    elapsed_ms = first_timed_ms(fleet)
    if elapsed_ms is None:
        return ABSENT
    reach_ms = FIRST_TIMED_REACH_MS.get(kind, math.inf)
    met = "" if elapsed_ms <= reach_ms else f", missed {reach_ms:.0f} ms"
    return f"{elapsed_ms:.0f} ms after its page opened{met}"


def _median_first_timed(fleet: FleetStatus | None) -> float | None:
    agents = fleet.agents if fleet is not None else ()
    known = [agent.first_timed_ms for agent in agents if agent.first_timed_ms is not None]
    return median(known) if known else None

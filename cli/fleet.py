"""`kernelzoo fleet`: browser agents on this machine for a gateway that runs already."""

import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cli.gateway_client import OPERATOR_KEY, reach
from cli.listing import Column, Listing
from cli.options import (
    STATE,
    BrowserOption,
    GpuOption,
    StateOption,
    TargetsOption,
    UrlOption,
    parse_targets,
)
from cli.stack.place import Keys, Place
from cli.stack.plan import FleetPlan, plan_fleet
from cli.stack.processes import (
    Child,
    adopt_orphans,
    ask_to_end,
    await_end,
    descendants,
    ending,
    kill_all,
    spawn,
)
from cli.stack.signals import interruptible, uninterrupted
from cli.terminal import live_display, note, out
from kernelzoo.errors import StackError
from workers.fleet.browsers import BrowserKind, Share, parse_shares
from workers.fleet.gpu import GpuChoice
from workers.fleet.installed import insist_on, installed_browsers
from workers.fleet.quorum import quorum_of, shortage
from workers.fleet.run import is_taken
from workers.fleet.status import AgentStatus, FleetStatus, read_status

WATCH_S = 0.5


AGENTS = "Agents in Chromium, or of each --browser without a number."


def fleet(
    browser: BrowserOption = None,
    agents: Annotated[int | None, typer.Option(min=1, max=64, help=AGENTS)] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Come as new identities, and keep none of them.")
    ] = False,
    target: TargetsOption = None,
    gpu: GpuOption = GpuChoice.AUTO,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Run browser agents until Ctrl-C, beside those of `up --agents`: one in each installed
    browser, or those of --agents and --browser. Their identities are kept for the next time.
    """
    shares = shares_of(browser, agents)
    insist_on(shares)
    plan = FleetPlan(shares=shares, targets=parse_targets(target), gpu=gpu, fresh=fresh)
    place = Place.at(state)
    gateway = reach(state, url)
    place.make()
    keys = Keys(operator=gateway.operator_key, token_secret="", signing="")
    if not keys.operator:
        raise StackError(f"set {OPERATOR_KEY} to the operator's key of {gateway.url}")
    note(f"agents of {gateway.url}: {', '.join(map(str, shares))}; Ctrl-C stops them")
    if sentence := shortage(shares, quorum_of(gateway.url)):
        note(sentence)
    number = _free_number(place)
    with interruptible():
        adopt_orphans()
        child = spawn(plan_fleet(place, keys, gateway.url, plan, number))
        try:
            _watch(child, place.fleet_of(number))
        except KeyboardInterrupt:
            note("closing the browsers")
        finally:
            with uninterrupted():
                ask_to_end(child)
                await_end(child)
                kill_all(descendants())


def shares_of(browsers: Sequence[str] | None, agents: int | None) -> tuple[Share, ...]:
    """Without `browsers` a number is of Chromium, as with `up`, and none is one of each installed
    browser. Raises InvalidInput."""
    if browsers or agents is None:
        return parse_shares(browsers or installed_browsers(), agents or 1)
    return parse_shares((BrowserKind.CHROMIUM,), agents)


def _free_number(place: Place) -> int:
    """The number of the first directory of profiles that no fleet runs on."""
    return next(number for number in count(1) if not is_taken(place.fleet_of(number)))


def _watch(child: Child, directory: Path) -> None:
    with live_display() as show:
        while child.alive:
            status = read_status(directory)
            if status is not None:
                show(fleet_lines(status), fleet_table(status, out.width))
            time.sleep(WATCH_S)
    raise StackError(f"{_last_words(child)}; read {child.spec.log}")


def _last_words(child: Child) -> str:
    """Returns what a child last said to people: events of its agents are lines of JSON."""
    lines = child.said().splitlines()
    words = [line for line in lines if line and not line.startswith("{")]
    return words[-1] if words else f"the fleet {ending(child)}"


_STYLES = {"measuring": "green", "restarting": "red", "no gateway": "yellow", "refused": "red"}


def fleet_lines(status: FleetStatus) -> str:
    return "\n".join(" · ".join(filter(None, _words(agent))) for agent in status.agents)


def _peak(status: FleetStatus) -> str:
    mib = status.peak_memory_bytes >> 20
    return f", {mib:,} MiB at most" if mib else ""


def _words(agent: AgentStatus) -> tuple[str, ...]:
    return (
        agent.agent,
        agent.engine,
        agent.state,
        agent.workload,
        counts(agent),
        agent.trouble,
    )


def counts(agent: AgentStatus) -> str:
    """Candidates and ballots; what went wrong only where something did."""
    numbers = ((agent.measured, "measured"), (agent.ballots, "ballots"))
    rare = ((agent.failed, "failed"), (agent.restarts, "restarts"))
    told = (*numbers, *(pair for pair in rare if pair[0]))
    return ", ".join(f"{number} {what}" for number, what in told)


COLUMNS = (
    Column(heading="agent"),
    Column(heading="state"),
    Column(heading="how many"),
    Column(heading="browser", rank=1),
    Column(heading="measures", rank=2),
    Column(heading="class", rank=3),
)


def fleet_table(status: FleetStatus, width: int) -> Table:
    """Lays the agents of a fleet out for a terminal of this width."""
    rows = tuple(
        (
            agent.agent,
            f"{agent.state}: {agent.trouble}" if agent.trouble else agent.state,
            counts(agent),
            agent.engine or agent.browser,
            agent.workload or "…",
            agent.device_class or "…",
        )
        for agent in status.agents
    )
    table = Listing(columns=COLUMNS, rows=rows).fitting(width).table()
    table.title, table.title_justify = f"agents of {status.url}{_peak(status)}", "left"
    for agent, row in zip(status.agents, table.rows, strict=True):
        row.style = _STYLES.get(agent.state, "")
    return table

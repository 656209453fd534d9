"""`kernelzoo fleet`: browser agents on this machine for a gateway that runs already."""

import time
from typing import Annotated

import typer

from kernelzoo.cli.fleet_view import fleet_lines, fleet_table
from kernelzoo.cli.gateway_client import OPERATOR_KEY
from kernelzoo.cli.live import live_display
from kernelzoo.cli.options import (
    STATE,
    GpuOption,
    StateOption,
    TargetsOption,
    UrlOption,
    parse_targets,
)
from kernelzoo.cli.reach import reach
from kernelzoo.cli.stack.child import Child, ask_to_end, await_end, spawn
from kernelzoo.cli.stack.descendants import adopt_orphans, descendants, kill_all
from kernelzoo.cli.stack.keys import Keys
from kernelzoo.cli.stack.place import Place
from kernelzoo.cli.stack.plan import FleetPlan, plan_fleet
from kernelzoo.cli.stack.signals import interruptible, uninterrupted
from kernelzoo.cli.terminal import note
from kernelzoo.errors import StackError
from workers.fleet.browsers import parse_shares
from workers.fleet.gpu import Gpu
from workers.fleet.installed import insist_on, installed_browsers
from workers.fleet.status import read_status

WATCH_S = 0.5

BrowserOption = Annotated[
    list[str] | None,
    typer.Option(
        "--browser",
        help="chromium, firefox or webkit, as in firefox=2; may be repeated. "
        "Without any: each that is installed.",
    ),
]


def fleet(
    browser: BrowserOption = None,
    agents: Annotated[
        int, typer.Option(min=1, max=64, help="Agents of each browser without a number.")
    ] = 1,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Come as new identities, and keep none of them.")
    ] = False,
    target: TargetsOption = None,
    gpu: GpuOption = Gpu.AUTO,
    state: StateOption = STATE,
    url: UrlOption = None,
) -> None:
    """Run browser agents until Ctrl-C. Their identities are kept for the next time."""
    shares = parse_shares(browser or installed_browsers(), agents)
    insist_on(shares)
    plan = FleetPlan(shares=shares, targets=parse_targets(target), gpu=gpu, fresh=fresh)
    place = Place.at(state)
    gateway = reach(state, url)
    place.make()
    keys = Keys(operator=gateway.operator_key, token_secret="", signing="")
    if not keys.operator:
        raise StackError(f"set {OPERATOR_KEY} to the operator's key of {gateway.url}")
    note(f"agents of {gateway.url}: {', '.join(map(str, shares))}; Ctrl-C stops them")
    with interruptible():
        adopt_orphans()
        child = spawn(plan_fleet(place, keys, gateway.url, plan))
        try:
            _watch(child, place)
        except KeyboardInterrupt:
            note("closing the browsers")
        finally:
            with uninterrupted():
                ask_to_end(child)
                await_end(child)
                kill_all(descendants())


def _watch(child: Child, place: Place) -> None:
    with live_display() as show:
        while child.alive:
            status = read_status(place.fleet)
            if status is not None:
                show(fleet_lines(status), fleet_table(status))
            time.sleep(WATCH_S)
    raise StackError(f"{_last_line(child)}; read {child.spec.log}")


def _last_line(child: Child) -> str:
    lines = child.spec.log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "the fleet ended"

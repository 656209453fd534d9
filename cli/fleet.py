"""`kernelzoo fleet`: browser agents on this machine for a gateway that runs already."""

import time
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from cli.fleet_view import fleet_lines, fleet_table
from cli.gateway_client import OPERATOR_KEY
from cli.live import live_display
from cli.options import (
    STATE,
    BrowserOption,
    GpuOption,
    StateOption,
    TargetsOption,
    UrlOption,
    parse_targets,
)
from cli.reach import reach
from cli.stack.child import Child, ask_to_end, await_end, ending, spawn
from cli.stack.descendants import adopt_orphans, descendants, kill_all
from cli.stack.keys import Keys
from cli.stack.place import Place
from cli.stack.plan import FleetPlan, plan_fleet
from cli.stack.signals import interruptible, uninterrupted
from cli.terminal import note, out
from kernelzoo.errors import StackError
from workers.fleet.browsers import parse_shares
from workers.fleet.gpu import Gpu
from workers.fleet.installed import insist_on, installed_browsers
from workers.fleet.run import is_taken
from workers.fleet.status import read_status

WATCH_S = 0.5


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
    """Run browser agents until Ctrl-C, beside those of `up --agents` where there are any; without
    --browser, in each that is installed. Their identities are kept for the next time.
    """
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


def _free_number(place: Place) -> int:
    """Of the first directory of profiles that no fleet runs on."""
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
    """What it said to people: events of its agents are lines of JSON."""
    lines = child.said().splitlines()
    words = [line for line in lines if line and not line.startswith("{")]
    return words[-1] if words else f"the fleet {ending(child)}"

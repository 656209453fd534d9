"""`kernelzoo up`: the whole stack on this machine, until Ctrl-C."""

import os
import time
from collections.abc import Mapping
from typing import Annotated

import typer

from cli.options import (
    STATE,
    BrowserOption,
    GpuOption,
    StateOption,
    TargetsOption,
    parse_targets,
)
from cli.stack.monitoring import DASHBOARDS, MonitoringPlan, find_monitoring
from cli.stack.place import Place
from cli.stack.plan import OWN_AGENTS, FleetPlan, StackOptions
from cli.stack.ports import ANY_ADDRESS, LOOPBACK, free_port, lan_address, listening_port
from cli.stack.processes import Environment
from cli.stack.signals import interruptible
from cli.stack.supervisor import Stack, end_leftovers, running
from cli.terminal import note, out
from kernelzoo.domain.trust import Trust
from kernelzoo.settings import WorkerSettings
from workers.fleet.browsers import BrowserKind, parse_shares
from workers.fleet.gpu import GpuChoice
from workers.fleet.installed import insist_on
from workers.fleet.quorum import quorum_of, shortage

AGENTS = "Agents to run here, in Chromium or of each --browser without a number."
DEFAULT_PORT = 8787
TEND_S = 0.2
PROXIES = "KERNELZOO_TRUSTED_PROXIES"


def up(
    agents: Annotated[int, typer.Option(min=0, max=64, help=AGENTS)] = 0,
    browser: BrowserOption = None,
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other devices in.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = DEFAULT_PORT,
    target: TargetsOption = None,
    gpu: GpuOption = GpuChoice.AUTO,
    with_monitoring: Annotated[
        bool,
        typer.Option("--with-monitoring", help="Prometheus too, and Grafana where installed."),
    ] = False,
    trust: Annotated[
        Trust,
        typer.Option(
            envvar="KERNELZOO_TRUST",
            help="Who may measure besides the agents of --agents: nobody, visitors of registered "
            "applications, or whoever reaches this address.",
        ),
    ] = Trust.CROWD,
    state: StateOption = STATE,
) -> None:
    """Run the stack and stay. Ctrl-C stops every process; the data stays for the next time."""
    shares = parse_shares(browser or (BrowserKind.CHROMIUM,), agents or 1)
    fleet = FleetPlan(shares=shares, targets=parse_targets(target), gpu=gpu)
    wanted = bool(agents or browser)
    if wanted:
        insist_on(shares)
    place = Place.at(state)
    if ended := end_leftovers(place):
        note(f"ended {ended} processes that a killed kernelzoo had left on {place.root}")
    options = StackOptions(
        host=host,
        port=listening_port(host, port),
        redis_port=free_port(),
        fleet=fleet if wanted else None,
        monitoring=find_monitoring() if with_monitoring else None,
        trust=trust,
        overrides=own_agents(host, trust, os.environ),
    )
    with interruptible():
        try:
            note(f"starting the stack on {place.root}")
            with running(place, options) as stack:
                out.print("kernelzoo is up")
                for what, where in _addresses(stack, options):
                    out.print(f"  {what:22}  {where}", soft_wrap=True)
                if wanted and (sentence := shortage(shares, quorum_of(stack.url))):
                    note(sentence)
                note("Ctrl-C stops it; the data stays")
                _stay(stack)
        except KeyboardInterrupt:
            note(f"stopped; the data stays in {place.root}")


def own_agents(host: str, trust: Trust, environment: Mapping[str, str]) -> Environment:
    """The setting of a stack that counts its owner's agents alone: those with the operator's key,
    or whoever reaches an address of this machine that no proxy of it hands on. The environment may
    say otherwise.
    """
    alone = host == LOOPBACK and trust is Trust.CROWD and not environment.get(PROXIES)
    counted = trust is Trust.OPERATOR or alone
    return (OWN_AGENTS,) if counted and OWN_AGENTS[0] not in environment else ()


def whom_it_counts(options: StackOptions, environment: Mapping[str, str]) -> str:
    """Says whose reports decide what is served, and how many of them may lie."""
    name, default = OWN_AGENTS[0], WorkerSettings.model_fields["max_malicious_share"].default
    share = float({name: default, **environment, **dict(options.overrides)}[name])
    lying = f"up to {share:.0%} of them may lie" if share else "none of them is taken to lie"
    return f"{_who(options)}; {lying}"


def _who(options: StackOptions) -> str:
    match options.trust:
        case Trust.OPERATOR:
            return "agents with the operator's key"
        case Trust.APPLICATIONS:
            return "agents with the operator's key and visitors of registered applications"
        case Trust.CROWD:
            return f"whoever reaches {options.host}"


def _stay(stack: Stack) -> None:
    while True:
        for sentence in stack.tend():
            note(sentence)
        time.sleep(TEND_S)


def _addresses(stack: Stack, options: StackOptions) -> tuple[tuple[str, str], ...]:
    pages = (("agent page", "/agent"), ("console", "/console"), ("API docs", "/docs"))
    address = lan_address() if options.host == ANY_ADDRESS else None
    lan = f"http://{address}:{options.port}/agent"
    return (
        *((what, f"{stack.url}{path}") for what, path in pages),
        *((("agents on this network", lan),) if address is not None else ()),
        *(_watching(options.monitoring) if options.monitoring else ()),
        ("logs", str(stack.place.logs)),
        ("agents", _agents(options.fleet)),
        ("counted", whom_it_counts(options, os.environ)),
    )


def _agents(fleet: FleetPlan | None) -> str:
    if fleet is None:
        return "none; open the agent page, or run `kernelzoo fleet --agents 5` beside this"
    return ", ".join(map(str, fleet.shares))


def _watching(plan: MonitoringPlan) -> tuple[tuple[str, str], ...]:
    if plan.grafana is not None:
        return ("Prometheus", plan.url), ("Grafana", f"http://{LOOPBACK}:{plan.grafana.port}")
    return (
        ("Prometheus", plan.url),
        ("alerts", f"{plan.url}/alerts"),
        (
            "Grafana",
            f"is not installed; import {DASHBOARDS / 'grafana'}/*.json into one of yours",
        ),
    )

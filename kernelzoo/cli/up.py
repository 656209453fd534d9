"""`kernelzoo up`: the whole stack on this machine, until Ctrl-C."""

import time
from typing import Annotated

import typer
from rich.table import Table

from kernelzoo.cli.options import (
    STATE,
    GpuOption,
    StateOption,
    TargetsOption,
    parse_targets,
)
from kernelzoo.cli.stack.monitoring import DASHBOARDS, MonitoringPlan, find_monitoring
from kernelzoo.cli.stack.place import Place
from kernelzoo.cli.stack.plan import FleetPlan, StackOptions
from kernelzoo.cli.stack.ports import ANY_ADDRESS, LOOPBACK, free_port, lan_address, listening_port
from kernelzoo.cli.stack.record import refuse_running
from kernelzoo.cli.stack.signals import interruptible
from kernelzoo.cli.stack.supervisor import Stack, running
from kernelzoo.cli.terminal import note, out
from workers.fleet.gpu import Gpu

DEFAULT_PORT = 8787
TEND_S = 0.2


def up(
    agents: Annotated[int, typer.Option(min=0, max=64, help="Agents in Chromium to run here.")] = 0,
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other devices in.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = DEFAULT_PORT,
    target: TargetsOption = None,
    gpu: GpuOption = Gpu.AUTO,
    with_monitoring: Annotated[
        bool,
        typer.Option("--with-monitoring", help="Prometheus too, and Grafana where installed."),
    ] = False,
    state: StateOption = STATE,
) -> None:
    """Run the stack and stay. Ctrl-C stops every process; the data stays for the next time."""
    fleet = FleetPlan.chromium(agents, parse_targets(target), gpu)
    place = Place.at(state)
    refuse_running(place)
    options = StackOptions(
        host=host,
        port=listening_port(host, port),
        redis_port=free_port(),
        fleet=fleet if agents else None,
        monitoring=find_monitoring() if with_monitoring else None,
    )
    with interruptible():
        try:
            note(f"starting the stack on {place.root}")
            with running(place, options) as stack:
                out.print(_addresses(stack, options))
                _stay(stack)
        except KeyboardInterrupt:
            note(f"stopped; the data stays in {place.root}")


def _stay(stack: Stack) -> None:
    while True:
        for sentence in stack.tend():
            note(sentence)
        time.sleep(TEND_S)


def _addresses(stack: Stack, options: StackOptions) -> Table:
    table = Table(title="kernelzoo is up", show_header=False, title_justify="left")
    for what, path in (("agent page", "/agent"), ("console", "/console"), ("API docs", "/docs")):
        table.add_row(what, f"{stack.url}{path}")
    if options.host == ANY_ADDRESS and (address := lan_address()) is not None:
        table.add_row("agents on this network", f"http://{address}:{options.port}/agent")
    for what, where in _watching(options.monitoring) if options.monitoring else ():
        table.add_row(what, where)
    table.add_row("logs", str(stack.place.logs))
    return table


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

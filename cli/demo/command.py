"""The demo as a command: five steps, each of which happens in its time or ends it."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from cli.demo.display import panel, plain, summary
from cli.demo.examples import FRAMEWORKS, frameworks_are_built, served_examples
from cli.demo.page import PageFailed, PageResult, PageVisit, visit
from cli.demo.watch import (
    PAGE,
    START,
    STEPS,
    DemoFailed,
    Registered,
    Sight,
    Step,
    outstanding,
    watch,
)
from cli.gateway_client import GatewayClient
from cli.options import GpuOption, TargetOption
from cli.stack.place import Place
from cli.stack.plan import OWN_AGENTS, FleetPlan, StackOptions, plan_fleet
from cli.stack.ports import LOOPBACK, free_port, listening_port
from cli.stack.processes import Environment
from cli.stack.signals import interruptible
from cli.stack.supervisor import Stack, empty, running
from cli.terminal import Show, live_display, note, out
from kernelzoo.domain.target import TargetKind, parse_kind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import StackError
from workers.fleet.gpu import Gpu

# K0 of nnJIT, Table 3: m, k, n.
K0 = Workload.of("matmul", (384, 768, 768))
# The last stage of ResNet: 7x7 outputs fill no tile of the default kernel, so the vote matters.
LAST_STAGE = Workload.parse("conv2d:f32:b1h7w7c512o512kh3kw3stride1pad1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The settings, but for what `overrides` say."""

    agents: int
    overrides: Environment
    workloads: tuple[Workload, ...]

    def of_target(self, kind: TargetKind) -> tuple[Workload, ...]:
        """A software adapter takes minutes for more than the first."""
        return self.workloads if kind is TargetKind.WASM else self.workloads[:1]


FULL = Scale(agents=5, overrides=(OWN_AGENTS,), workloads=(K0, LAST_STAGE))
SHORT = Scale(agents=2, overrides=(OWN_AGENTS, ("KERNELZOO_QUORUM", "2")), workloads=(K0,))


def demo(
    short: Annotated[bool, typer.Option("--short", help="One kernel, two agents.")] = False,
    screenshot: Annotated[
        Path | None, typer.Option(help="Picture of the page; the console's goes beside it.")
    ] = None,
    target: TargetOption = "wasm",
    gpu: GpuOption = Gpu.AUTO,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 0,
    state: Annotated[
        Path, typer.Option(help="A directory of the demo's own; emptied at the start.")
    ] = Path(".kernelzoo/demo"),
) -> None:
    """Tune two kernels from an empty zoo and serve them to a page, in about a minute."""
    scale = SHORT if short else FULL
    fleet = FleetPlan.chromium(scale.agents, (parse_kind(target),), gpu)
    place = Place.at(state)
    empty(place, "demo")
    options = StackOptions(
        host=LOOPBACK,
        port=listening_port(LOOPBACK, port),
        redis_port=free_port(),
        overrides=scale.overrides,
    )
    try:
        with interruptible():
            workloads = scale.of_target(parse_kind(target))
            sights, results = _steps(place, options, fleet, workloads, screenshot)
    except KeyboardInterrupt:
        note("demo interrupted; every process has been stopped")
        raise typer.Exit(130) from None
    out.print(summary(sights, results))


def _steps(
    place: Place,
    options: StackOptions,
    fleet: FleetPlan,
    workloads: tuple[Workload, ...],
    screenshot: Path | None,
) -> tuple[tuple[Sight, ...], tuple[PageResult, ...]]:
    _announce(START)
    with ExitStack() as exits:
        try:
            stack = exits.enter_context(running(place, options))
        except StackError as error:
            raise DemoFailed.at(START, str(error), place.logs) from error
        sights = _tune(stack, fleet, workloads)
        return sights, _open_page(stack, fleet, workloads, screenshot)


def _tune(stack: Stack, fleet: FleetPlan, workloads: tuple[Workload, ...]) -> tuple[Sight, ...]:
    """What was seen of each workload, one after another, as the agents take them."""
    (kind,) = fleet.targets
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        jobs = [
            Registered(job=gateway.register(workload, kind), at_s=time.monotonic())
            for workload in workloads
        ]
        stack.launch(plan_fleet(stack.place, stack.keys, stack.url, fleet))
        with live_display() as show:
            tell = _telling(show)
            sights = tuple(watch(stack, gateway, job, tell) for job in jobs)
    # The page is timed on a quiet machine.
    stack.end("fleet")
    return sights


def _telling(show: Show) -> Callable[[Sight], None]:
    """Shows each sight, and says each step once: when the ones before it have happened."""
    said: set[int] = set()

    def tell(now: Sight) -> None:
        for step in STEPS[1 : outstanding(now.job).number]:
            if step.number not in said:
                said.add(step.number)
                _announce(step)
        show(plain(now), panel(now))

    return tell


def _open_page(
    stack: Stack, fleet: FleetPlan, workloads: tuple[Workload, ...], screenshot: Path | None
) -> tuple[PageResult, ...]:
    """In a browser with the flags of the fleet's: another adapter is another device."""
    _announce(PAGE)
    (kind,) = fleet.targets
    asked = [("zoo", stack.url), ("target", kind)]
    asked += [("workload", workload.key) for workload in workloads]
    if frameworks_are_built():
        asked.append(("frameworks", FRAMEWORKS))
    with served_examples() as origin:
        plan = PageVisit(
            address=f"{origin}/kernels/index.html?{urlencode(asked)}",
            gpu=fleet.gpu if kind is TargetKind.WEBGPU else None,
            console=f"{stack.url}/console",
            profile=stack.place.root / "visitor",
            log=stack.log(PAGE.log),
            screenshot=screenshot,
        )
        try:
            return visit(plan)
        except PageFailed as error:
            raise DemoFailed.at(PAGE, str(error), stack.log(PAGE.log)) from error


def _announce(step: Step) -> None:
    out.print(f"step {step.number}: {step.what}")

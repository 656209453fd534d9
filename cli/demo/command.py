"""The demo as a command: seven steps, each of which happens in its time or ends it."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlencode

import typer

from cli.demo.display import Shown, panel, plain, summary
from cli.demo.examples import FRAMEWORKS, PEER, frameworks_are_built, served_examples
from cli.demo.network import NAME, tune_network
from cli.demo.page import (
    PageFailed,
    Visitor,
    kernels_of,
    network_of,
    picture_beside,
    picture_of,
    picture_of_console,
    visiting,
)
from cli.demo.watch import (
    NETWORK,
    PAGE,
    START,
    STEPS,
    TUNE,
    DemoFailed,
    DemoStep,
    RegisteredJob,
    Sight,
    busy_remark,
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
from kernelzoo.domain.target import TargetKind, parse_measured
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import StackError
from workers.fleet.gpu import GpuChoice

# K0 of nnJIT, Table 3: m, k, n.
K0 = Workload.of("matmul", (384, 768, 768))
# The last stage of ResNet: 7x7 outputs fill no tile of the default kernel, so the vote matters.
LAST_STAGE = Workload.parse("conv2d:f32:b1h7w7c512o512kh3kw3stride1pad1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The settings, but for what `overrides` say. A whole network is tuned until the demo has taken
    `tuned_by_s`, so that a slow machine tunes less of it and keeps the time; None leaves it out.
    """

    agents: int
    overrides: Environment
    workloads: tuple[Workload, ...]
    tuned_by_s: float | None

    def of_target(self, target: TargetKind) -> Self:
        """A software adapter takes minutes for more than the first. Whole networks run on
        WebAssembly.
        """
        if target is TargetKind.WASM:
            return self
        return replace(self, workloads=self.workloads[:1], tuned_by_s=None)


FULL = Scale(agents=5, overrides=(OWN_AGENTS,), workloads=(K0, LAST_STAGE), tuned_by_s=85)
SHORT = Scale(
    agents=2,
    overrides=(OWN_AGENTS, ("KERNELZOO_QUORUM", "2")),
    workloads=(K0,),
    tuned_by_s=0,
)


def demo(
    short: Annotated[
        bool, typer.Option("--short", help="One kernel, two agents, a network untuned.")
    ] = False,
    screenshot: Annotated[
        Path | None, typer.Option(help="Picture of the page; the console's goes beside it.")
    ] = None,
    target: TargetOption = "wasm",
    gpu: GpuOption = GpuChoice.AUTO,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 0,
    state: Annotated[
        Path, typer.Option(help="A directory of the demo's own; emptied at the start.")
    ] = Path(".kernelzoo/demo"),
) -> None:
    """Tune two kernels and a network from an empty zoo, and serve them to pages."""
    scale = (SHORT if short else FULL).of_target(parse_measured(target))
    fleet = FleetPlan.chromium(scale.agents, (parse_measured(target),), gpu)
    place = Place.at(state)
    empty(place, "demo")
    options = StackOptions(
        host=LOOPBACK,
        port=listening_port(LOOPBACK, port),
        redis_port=free_port(),
        overrides=scale.overrides,
    )
    began_s = time.monotonic()
    try:
        with interruptible():
            shown = _steps(place, options, fleet, scale, screenshot, began_s)
    except KeyboardInterrupt:
        note("demo interrupted; every process has been stopped")
        raise typer.Exit(130) from None
    except DemoFailed as failure:
        load, *_ = os.getloadavg()
        raise DemoFailed(f"{failure}{busy_remark(load, os.cpu_count() or 1)}") from failure
    out.print(summary(shown, elapsed_s=time.monotonic() - began_s))


def _steps(
    place: Place,
    options: StackOptions,
    fleet: FleetPlan,
    scale: Scale,
    screenshot: Path | None,
    began_s: float,
) -> Shown:
    _announce(START)
    with ExitStack() as exits:
        try:
            stack = exits.enter_context(running(place, options))
        except StackError as error:
            raise DemoFailed.at(START, str(error), place.logs) from error
        sights, network = _tune(stack, fleet, scale, began_s)
        return _open_pages(stack, fleet, sights, network, screenshot)


def _tune(
    stack: Stack, fleet: FleetPlan, scale: Scale, began_s: float
) -> tuple[tuple[Sight, ...], Path | None]:
    """Returns what was seen of each workload, one after another, as the agents take them, and the
    file of the network.
    """
    (target,) = fleet.targets
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        jobs = [
            RegisteredJob(job=gateway.register(workload, target), at_s=time.monotonic())
            for workload in scale.workloads
        ]
        stack.launch(plan_fleet(stack.place, stack.keys, stack.url, fleet))
        with live_display() as show:
            tell = _telling(show)
            sights = tuple(watch(stack, gateway, job, tell) for job in jobs)
        network = None
        if scale.tuned_by_s is not None:
            _announce(TUNE)
            with live_display() as show:
                until_s = began_s + scale.tuned_by_s
                network = tune_network(stack, gateway, until_s, lambda line: show(line, None))
    # The pages are timed on a quiet machine.
    stack.end("fleet")
    return sights, network


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


def _open_pages(
    stack: Stack,
    fleet: FleetPlan,
    sights: tuple[Sight, ...],
    network: Path | None,
    screenshot: Path | None,
) -> Shown:
    """Shows everything in a browser with the fleet's flags, as another adapter is another
    device."""
    _announce(PAGE)
    (target,) = fleet.targets
    visitor = Visitor(
        gpu=fleet.gpu if target is TargetKind.WEBGPU else None,
        profile=stack.place.root / "visitor",
        log=stack.log(PAGE.log),
    )
    folders = {} if network is None else {_NETWORK_FILES: network.parent}
    step = PAGE
    try:
        with served_examples(folders=folders) as origin, visiting(visitor) as page:
            results = kernels_of(page, _kernels_page(origin, stack.url, sights))
            if screenshot is not None:
                picture_of(page, screenshot)
                console = picture_beside(screenshot, "console")
                picture_of_console(page, f"{stack.url}/console", console)
            if network is None:
                return Shown(sights=sights, results=results, network=None)
            step = NETWORK
            _announce(step)
            ran = network_of(page, _network_page(origin, stack.url, network))
            if screenshot is not None:
                picture_of(page, picture_beside(screenshot, "network"))
            return Shown(sights=sights, results=results, network=ran)
    except PageFailed as error:
        raise DemoFailed.at(step, str(error), stack.log(step.log)) from error


_NETWORK_FILES = "/files/"


def _kernels_page(origin: str, zoo: str, sights: Sequence[Sight]) -> str:
    asked = [("zoo", zoo), ("target", sights[0].job.target)]
    asked += [("workload", sight.job.workload) for sight in sights]
    if frameworks_are_built():
        asked.append(("frameworks", FRAMEWORKS))
    return f"{origin}/kernels/index.html?{urlencode(asked)}"


def _network_page(origin: str, zoo: str, network: Path) -> str:
    asked = [("zoo", zoo), ("model", NAME)]
    if frameworks_are_built():
        asked += [("onnx", f"{_NETWORK_FILES}{network.name}"), ("peer", PEER)]
    return f"{origin}/network/index.html?{urlencode(asked)}"


def _announce(step: DemoStep) -> None:
    out.print(f"step {step.number}: {step.what}")

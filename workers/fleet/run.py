"""A fleet: N agents started one after another, so that the first is at work early."""

import asyncio
import fcntl
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from playwright.async_api import BrowserType, async_playwright

from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import StackError
from workers.fleet.agent import AgentSpec, run_agent
from workers.fleet.chromium import find_chromium
from workers.fleet.gpu import Gpu
from workers.fleet.status import AgentStatus, FleetStatus, write_status
from workers.fleet.turn import TimingTurn

log = structlog.get_logger(__name__)

OPENING_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """`directory` holds the browser profiles and the status file."""

    url: str
    agents: int
    targets: tuple[TargetKind, ...]
    gpu: Gpu
    directory: Path
    operator_key: str = field(repr=False)
    sandbox: bool


def plan_agents(options: FleetOptions) -> tuple[AgentSpec, ...]:
    on_gpu = TargetKind.WEBGPU in options.targets
    names = (f"agent-{number}" for number in range(1, options.agents + 1))
    return tuple(
        AgentSpec(
            name=name,
            profile=options.directory / name,
            url=options.url,
            targets=options.targets,
            gpu=options.gpu if on_gpu else None,
            operator_key=options.operator_key,
            sandbox=options.sandbox,
        )
        for name in names
    )


async def run_fleet(options: FleetOptions) -> None:
    """Returns after SIGTERM or SIGINT, when every browser has been closed."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with _only_fleet(options.directory):
        async with async_playwright() as playwright:
            await _run_until(stop, options, playwright.chromium)


async def _run_until(stop: asyncio.Event, options: FleetOptions, browser: BrowserType) -> None:
    log.info("browser found", path=str(find_chromium(Path(browser.executable_path))))
    agents = asyncio.create_task(_run_agents(options, browser))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((agents, stopping), return_when=asyncio.FIRST_COMPLETED)
    log.info("closing browsers")
    stopping.cancel()
    agents.cancel()
    await asyncio.gather(agents, stopping, return_exceptions=True)
    if not agents.cancelled() and (error := agents.exception()) is not None:
        raise error


async def _run_agents(options: FleetOptions, browser: BrowserType) -> None:
    """Never returns by itself; cancelling it closes the browsers."""
    turn = TimingTurn()
    statuses: dict[str, AgentStatus] = {}

    def report(status: AgentStatus) -> None:
        statuses[status.agent] = status
        write_status(
            options.directory, FleetStatus(url=options.url, agents=tuple(statuses.values()))
        )

    async with asyncio.TaskGroup() as group:
        for spec in plan_agents(options):
            opened = asyncio.Event()
            group.create_task(run_agent(spec, browser, turn, report, opened), name=spec.name)
            await _soon(opened)


async def _soon(opened: asyncio.Event) -> None:
    """A browser that takes long to start does not hold up the next for ever."""
    try:
        async with asyncio.timeout(OPENING_S):
            await opened.wait()
    except TimeoutError:
        log.warning("a browser takes long to start", waited_s=OPENING_S)


@contextmanager
def _only_fleet(directory: Path) -> Iterator[None]:
    """Two fleets on one directory would share profiles and time one another."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "fleet.lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StackError(
                f"a fleet runs already on {directory}; stop it first, "
                "or start it with more agents instead"
            ) from error
        (directory / "status.json").unlink(missing_ok=True)
        yield

"""A fleet: agents started one after another, so that the first is at work early."""

import asyncio
import fcntl
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, field
from functools import partial
from io import TextIOWrapper
from pathlib import Path

import structlog
from playwright.async_api import async_playwright

from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import StackError
from workers.fleet.agent import AgentSpec, run_agent
from workers.fleet.authorities import trust
from workers.fleet.browsers import BrowserKind, Launch, Opener, Share
from workers.fleet.chromium import chromium_tab
from workers.fleet.firefox import start_firefox
from workers.fleet.gpu import GpuChoice
from workers.fleet.memory import FleetMemory
from workers.fleet.process import threaded_tab
from workers.fleet.quorum import quorum_of, shortage
from workers.fleet.status import AgentStatus, FleetStatus, write_status
from workers.fleet.turns import TimingTurn, Turnstile
from workers.fleet.webkit import start_webkit

log = structlog.get_logger(__name__)

OPENING_S = 20
LOOK_S = 0.5
"""A fleet looks so often whether its parent is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """`directory` holds the browser profiles and the status file, `turns` the locks by which fleets
    of this host take turns. With `fresh`, profiles of this run alone take the place of those that
    are kept. It ends when process number `parent` does, which has started it, however that ended.
    All browsers together may take `memory_mib`; None is half of the machine's memory. Chromium
    trusts the authorities of a file, too.
    """

    url: str
    shares: tuple[Share, ...]
    targets: tuple[TargetKind, ...]
    gpu: GpuChoice
    directory: Path
    turns: Path
    operator_key: str = field(repr=False)
    sandbox: bool
    fresh: bool = False
    parent: int | None = None
    memory_mib: int | None = None
    authorities: Path | None = None


def plan_agents(options: FleetOptions, profiles: Path) -> tuple[AgentSpec, ...]:
    """The first of each browser come before the second."""
    gpu = options.gpu if TargetKind.WEBGPU in options.targets else None
    most = max((share.agents for share in options.shares), default=0)
    return tuple(
        AgentSpec(
            name=f"{share.browser}-{number}",
            browser=share.browser,
            launch=Launch(
                profile=profiles / f"{share.browser}-{number}", gpu=gpu, sandbox=options.sandbox
            ),
            url=options.url,
            targets=options.targets,
            operator_key=options.operator_key,
        )
        for number in range(1, most + 1)
        for share in options.shares
        if number <= share.agents
    )


async def run_fleet(options: FleetOptions) -> None:
    """Returns after SIGTERM or SIGINT, when every browser has been closed."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.parent is not None:
        watching = asyncio.create_task(_until_orphaned(options.parent))
        watching.add_done_callback(lambda _: stop.set())
    with _only_fleet(options.directory), _profiles(options) as profiles:
        if options.authorities is not None:
            trust(options.authorities, options.directory / "authorities")
        quorum = await asyncio.to_thread(quorum_of, options.url)
        if sentence := shortage(options.shares, quorum):
            log.warning(sentence, quorum=quorum)
        plan = plan_agents(options, profiles)
        async with _openers(options.shares) as openers:
            await _run_until(stop, options, plan, openers)


async def _until_orphaned(parent: int) -> None:
    """A process whose parent has ended gets another one, be that ended by SIGKILL."""
    while os.getppid() == parent:  # noqa: ASYNC110 - the system tells nobody
        await asyncio.sleep(LOOK_S)
    log.warning("whoever started this fleet has ended, and so does it", parent=parent)


@asynccontextmanager
async def _openers(shares: tuple[Share, ...]) -> AsyncIterator[Mapping[BrowserKind, Opener]]:
    """Provides for each browser what starts it; Playwright's driver runs where there is Chromium to
    drive."""
    openers: dict[BrowserKind, Opener] = {
        BrowserKind.FIREFOX: partial(threaded_tab, start_firefox),
        BrowserKind.WEBKIT: partial(threaded_tab, start_webkit),
    }
    if all(share.browser is not BrowserKind.CHROMIUM for share in shares):
        yield openers
        return
    async with async_playwright() as playwright:
        yield {**openers, BrowserKind.CHROMIUM: partial(chromium_tab, playwright.chromium)}


async def _run_until(
    stop: asyncio.Event,
    options: FleetOptions,
    plan: tuple[AgentSpec, ...],
    openers: Mapping[BrowserKind, Opener],
) -> None:
    agents = asyncio.create_task(_run_agents(options, plan, openers))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((agents, stopping), return_when=asyncio.FIRST_COMPLETED)
    log.info("closing browsers")
    stopping.cancel()
    agents.cancel()
    await asyncio.gather(agents, stopping, return_exceptions=True)
    if not agents.cancelled() and (error := agents.exception()) is not None:
        raise error


async def _run_agents(
    options: FleetOptions, plan: tuple[AgentSpec, ...], openers: Mapping[BrowserKind, Opener]
) -> None:
    """Never returns by itself; cancelling it closes the browsers."""
    with ExitStack() as exits:
        turn = TimingTurn(others=Turnstile.open(options.turns, exits))
        await _run_all(options, plan, openers, turn)


async def _run_all(
    options: FleetOptions,
    plan: tuple[AgentSpec, ...],
    openers: Mapping[BrowserKind, Opener],
    turn: TimingTurn,
) -> None:
    statuses: dict[str, AgentStatus] = {}
    memory = FleetMemory.of(options.memory_mib)

    def report(status: AgentStatus) -> None:
        statuses[status.agent] = status
        write_status(
            options.directory,
            FleetStatus(
                url=options.url,
                agents=tuple(statuses.values()),
                peak_memory_bytes=memory.peak_bytes,
            ),
        )

    async with asyncio.TaskGroup() as group:
        for spec in plan:
            opened = asyncio.Event()
            opener = partial(memory.limited, openers[spec.browser])
            work = run_agent(spec, opener, turn, report, opened)
            group.create_task(work, name=spec.name)
            await _soon(opened)


async def _soon(opened: asyncio.Event) -> None:
    """A browser that takes long to start does not hold up the next for ever."""
    try:
        async with asyncio.timeout(OPENING_S):
            await opened.wait()
    except TimeoutError:
        log.warning("a browser takes long to start", waited_s=OPENING_S)


def is_taken(directory: Path) -> bool:
    """Returns whether a fleet runs on a directory now."""
    lock = directory / "fleet.lock"
    if not lock.exists():
        return False
    with lock.open("a") as handle:
        return not _took(handle)


def _took(handle: TextIOWrapper) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _only_fleet(directory: Path) -> Iterator[None]:
    """Two fleets on one directory would share profiles and time one another."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "fleet.lock").open("a") as handle:
        if not _took(handle):
            raise StackError(
                f"a fleet runs already on {directory}; stop it first, or give the new one another "
                "folder of profiles with --state"
            )
        (directory / "status.json").unlink(missing_ok=True)
        yield


def _profiles(options: FleetOptions) -> AbstractContextManager[Path]:
    if not options.fresh:
        return nullcontext(options.directory)
    return _fresh_profiles(options.directory)


@contextmanager
def _fresh_profiles(directory: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(
        prefix="fresh-", dir=directory, ignore_cleanup_errors=True
    ) as profiles:
        yield Path(profiles)

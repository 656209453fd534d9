"""One agent: a browser of its own with a profile that keeps its identity between runs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlencode

import structlog
from playwright.async_api import BrowserType, ConsoleMessage, Error, Page
from pydantic import ValidationError

from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import KernelZooError
from workers.fleet.chromium import find_chromium, own_flags
from workers.fleet.gpu import Gpu
from workers.fleet.host import forfeit_with_page, offer_host
from workers.fleet.snapshot import READ_SNAPSHOT, Snapshot, advance
from workers.fleet.status import AgentStatus
from workers.fleet.turn import TimingTurn

log = structlog.get_logger(__name__)

OPEN_MS = 30_000
WATCH_S = 0.5
ANSWER_S = 20
LONGEST_DELAY_S = 30.0


class PageLost(KernelZooError):
    """The page crashed, closed, did not open or no longer answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """`profile` is the browser's user data directory; no other browser may use it. `gpu` is None
    for an agent that measures nothing on one.

    Without `sandbox`, the browser relies on the container that it runs in.
    """

    name: str
    profile: Path
    url: str
    targets: tuple[TargetKind, ...]
    gpu: Gpu | None
    operator_key: str = field(repr=False)
    sandbox: bool

    @property
    def address(self) -> str:
        """Of the agent page, told to start at once and with what."""
        return (
            f"{self.url}/agent?{urlencode([('start', 1), *(('target', t) for t in self.targets)])}"
        )


Report = Callable[[AgentStatus], None]


async def run_agent(
    spec: AgentSpec, browser: BrowserType, turn: TimingTurn, report: Report, opened: asyncio.Event
) -> None:
    """Runs until cancelled. `opened` is set when the first attempt has succeeded or failed."""
    status = AgentStatus(agent=spec.name, state="starting")
    while True:
        report(status)
        try:
            async with _agent_page(spec, browser, turn) as page:
                opened.set()
                async for after in _watch(page, status):
                    status = after
                    report(status)
        except (PageLost, Error) as error:
            opened.set()
            status = replace(status, state="restarting", restarts=status.restarts + 1)
            delay_s = restart_delay_s(status.restarts)
            report(status)
            log.warning("page lost", agent=spec.name, why=_first_line(error), again_in_s=delay_s)
            await asyncio.sleep(delay_s)


def restart_delay_s(restarts: int) -> float:
    return min(LONGEST_DELAY_S, 2.0 ** min(restarts - 1, 16))


@asynccontextmanager
async def _agent_page(
    spec: AgentSpec, browser: BrowserType, turn: TimingTurn
) -> AsyncIterator[Page]:
    flags = own_flags(spec.gpu, sandbox=spec.sandbox)
    context = await browser.launch_persistent_context(
        spec.profile,
        executable_path=find_chromium(Path(browser.executable_path)),
        headless=True,
        args=flags,
        chromium_sandbox="--no-sandbox" not in flags,
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
    )
    try:
        await offer_host(context, spec.name, turn, url=spec.url, operator_key=spec.operator_key)
        page = context.pages[0] if context.pages else await context.new_page()
        forfeit_with_page(page, spec.name, turn)
        _log_page(page, spec.name)
        await _open(page, spec.address)
        log.info("page opened", agent=spec.name)
        yield page
    finally:
        turn.forfeit(spec.name)
        await context.close()


async def _open(page: Page, address: str) -> None:
    response = await page.goto(address, wait_until="commit", timeout=OPEN_MS)
    if response is None or not response.ok:
        raise PageLost(f"{address} answered {response.status if response else 'nothing'}")


async def _watch(page: Page, status: AgentStatus) -> AsyncIterator[AgentStatus]:
    """Yields the status whenever it changes. Ends with PageLost."""
    lost = asyncio.Event()
    page.on("crash", lambda _page: lost.set())
    page.on("close", lambda _page: lost.set())
    while not lost.is_set():
        snapshot = await _snapshot(page)
        if snapshot is not None:
            _log_events(snapshot, status.agent)
            if (after := advance(status, snapshot)) != status:
                status = after
                yield status
        await asyncio.sleep(WATCH_S)
    raise PageLost("the page crashed or was closed")


async def _snapshot(page: Page) -> Snapshot | None:
    """None before the page's own script has run."""
    try:
        async with asyncio.timeout(ANSWER_S):
            text = await page.evaluate(READ_SNAPSHOT)
    except TimeoutError as error:
        raise PageLost(f"the page did not answer within {ANSWER_S} s") from error
    try:
        return None if text is None else Snapshot.model_validate_json(text)
    except ValidationError as error:
        raise PageLost(f"the page's state cannot be read: {error}") from error


def _log_events(snapshot: Snapshot, agent: str) -> None:
    for event in snapshot.events:
        log.info(event.type, agent=agent, **event.model_dump(exclude={"type"}, exclude_unset=True))


def _log_page(page: Page, agent: str) -> None:
    def complained(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            log.warning("page console", agent=agent, text=message.text)

    page.on("pageerror", lambda error: log.error("page error", agent=agent, error=str(error)))
    page.on("console", complained)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

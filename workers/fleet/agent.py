"""One agent: a browser of its own with a profile that keeps its identity between runs.

An agent whose browser was lost comes back soon, then ever later while it is lost again; the gateway
is told at which workload that was, and is asked whether it answers before a browser is started.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import structlog

from kernelzoo.domain.target import TargetKind
from workers.fleet.browsers import BrowserKind, DeviceLost, Launch, Opener, PageLost, Tab
from workers.fleet.host import OPEN_S, Talk, offer_host, within
from workers.fleet.snapshot import Snapshot, advance
from workers.fleet.status import AgentStatus
from workers.fleet.turns import TimingTurn

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    name: str
    browser: BrowserKind
    launch: Launch
    url: str
    targets: tuple[TargetKind, ...]
    operator_key: str = field(repr=False)

    @property
    def address(self) -> str:
        """The address of the agent page, which tells it what to measure."""
        return f"{self.url}/agent?{urlencode([('target', target) for target in self.targets])}"


ReportStatus = Callable[[AgentStatus], None]


async def run_agent(
    spec: AgentSpec, opener: Opener, turn: TimingTurn, report: ReportStatus, opened: asyncio.Event
) -> None:
    """Runs until cancelled. `opened` is set when the agent's device class is known, so that the
    next agent finds what it measured, or when the first attempt has failed."""
    status = AgentStatus(agent=spec.name, browser=spec.browser, state="starting")
    losses = LossStreak()
    while True:
        status = await _await_gateway(spec, status, report, opened)
        began_s = time.monotonic()
        try:
            async for after in _attempt(spec, opener, turn, status):
                status = after
                report(status)
                if status.device_class:
                    opened.set()
        except PageLost as error:
            opened.set()
            losses = losses.after(time.monotonic() - began_s)
            delay_s = restart_delay_s(losses.in_a_row)
            status = _lost(status, error)
            report(status)
            if isinstance(error, DeviceLost):
                await asyncio.to_thread(tell_lost, spec.url, spec.operator_key, status)
            log.warning("page lost", agent=spec.name, why=status.trouble, again_in_s=delay_s)
            await asyncio.sleep(delay_s)


def _lost(status: AgentStatus, error: PageLost) -> AgentStatus:
    why = str(error).partition("\n")[0]
    return replace(status, state="restarting", trouble=why, restarts=status.restarts + 1)


async def _await_gateway(
    spec: AgentSpec, status: AgentStatus, report: ReportStatus, opened: asyncio.Event
) -> AgentStatus:
    """No browser is started for a page that cannot be had."""
    async for why in until_reachable(spec.url):
        opened.set()
        log.warning("no gateway", agent=spec.name, why=why)
        report(replace(status, state="no gateway", trouble=why))
    status = replace(status, state="starting", trouble="")
    report(status)
    return status


async def _attempt(
    spec: AgentSpec, opener: Opener, turn: TimingTurn, status: AgentStatus
) -> AsyncIterator[AgentStatus]:
    """Yields the status whenever it changes. Ends with PageLost."""
    async with opener(spec.launch) as tab, _talk(spec, tab, turn) as talk:
        while True:
            snapshot = await talk.listen()
            _log_events(snapshot, spec.name)
            if (after := advance(status, snapshot)) != status:
                status = after
                yield status
            _insist_on_gpu(snapshot)


@asynccontextmanager
async def _talk(spec: AgentSpec, tab: Tab, turn: TimingTurn) -> AsyncIterator[Talk]:
    await within(OPEN_S, tab.goto(spec.address))
    await offer_host(tab, spec.launch.profile, spec.url, spec.operator_key)
    log.info("page opened", agent=spec.name)
    talk = Talk(tab, spec.launch.profile, spec.name, turn)
    try:
        yield talk
    finally:
        talk.end()


def _insist_on_gpu(snapshot: Snapshot) -> None:
    """A driver that does not answer ends with its browser. Raises DeviceLost."""
    for event in snapshot.events:
        if event.type == "stuck":
            raise DeviceLost(event.reason)


def _log_events(snapshot: Snapshot, agent: str) -> None:
    for event in snapshot.events:
        log.info(event.type, agent=agent, **event.model_dump(exclude={"type"}, exclude_unset=True))


TELL_S = 10


def tell_lost(url: str, operator_key: str, status: AgentStatus) -> None:
    """Nothing is told of a page that had no work yet. A gateway that is away hears of the next."""
    if not (status.workload and status.device_class):
        return
    lost = {"workload": status.workload, "device_class": status.device_class}
    request = Request(  # noqa: S310 # the operator's own address
        f"{url}/v1/lost-devices",
        data=json.dumps({**lost, "why": status.trouble[:500]}).encode(),
        headers={"Content-Type": "application/json", "X-Kernelzoo-Operator": operator_key},
    )
    try:
        with urlopen(request, timeout=TELL_S):  # noqa: S310 # the same
            log.warning("device lost", agent=status.agent, **lost)
    except (OSError, ValueError) as error:
        log.warning("loss not told", agent=status.agent, why=str(error))


FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
STEADY_S = 60.0


@dataclass(frozen=True, slots=True)
class LossStreak:
    """`in_a_row`: each after less than `STEADY_S` of work."""

    in_a_row: int = 0

    def after(self, lived_s: float) -> "LossStreak":
        return LossStreak(1 if lived_s >= STEADY_S else self.in_a_row + 1)


def longest_delay_s(in_a_row: int) -> float:
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(in_a_row - 1, 16))


def restart_delay_s(in_a_row: int, share: float | None = None) -> float:
    """A random half is taken off, so that agents do not come back in step. `share` is in [0, 1)."""
    taken = random.random() if share is None else share  # noqa: S311 # no secret
    return longest_delay_s(in_a_row) * (1 - taken / 2)


ASK_S = 5


async def until_reachable(url: str) -> AsyncIterator[str]:
    """Yields why not, before each wait; ends when the gateway answers."""
    refusals = 0
    while (why := await asyncio.to_thread(_unreachable, url)) is not None:
        refusals += 1
        yield why
        await asyncio.sleep(restart_delay_s(refusals))


def _unreachable(url: str) -> str | None:
    """Returns what is wrong with a gateway, or None. Any answer that is no fault of the server will
    do."""
    try:
        with urlopen(f"{url}/healthz", timeout=ASK_S):  # noqa: S310 # the operator's own address
            return None
    except HTTPError as error:
        return None if error.code < 500 else f"{url} answers {error.code}"
    except (OSError, ValueError) as error:
        return f"{url} does not answer: {error}"

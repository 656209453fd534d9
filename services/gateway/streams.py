"""Open streams of candidates for pages that tune themselves: how many, and what they look at.

Pages of one class ask for the same, so that what is there is looked up once for all of them.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from kernelzoo.domain.workload import Workload, WorkloadKey
from kernelzoo.store.queue import QueuedRow
from services.gateway.problems import Refusal
from services.gateway.queueing import Tried
from services.gateway.remembered import Remembered
from services.gateway.wire.artifacts import Kernel

MOST = 256
MOST_OF_NETWORK = 32
SHARE = 4
"""A network may open one more while it has fewer than a fourth of what is left: shares shrink as
streams fill the gateway."""
RETRY_S = 5
LOOKED_EVERY_S = 0.5
LOOKS_AT_ONCE = 2
"""A share of the connections of agents: whoever asks for strange classes holds no more. After each
look its place rests for as long as the look took, which may be many rows, so that pages of many
classes leave the thread to page loads."""
LONGEST_REST_S = 1.0
MOST_KERNELS = 2048
"""Descriptions of kernels that are kept: what is compiled is sent to all pages at once."""

Read = Callable[[list[str]], Awaitable[dict[str, Kernel]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """A class has not confirmed these of a plan; with the time of the newest compilation."""

    left: tuple[Tried, ...]
    workloads: Mapping[WorkloadKey, Workload]
    newest_s: float


@dataclass(slots=True, eq=False)
class Stream:
    """An open one. Where it `yields`, it may be `ended` for a network that has none: its page is
    told to ask again later, which it does from where it was."""

    yields: bool
    ended: bool = False


class Streams:
    """Counts those of this process."""

    def __init__(self) -> None:
        self._open: defaultdict[str, dict[Stream, None]] = defaultdict(dict)
        self._seen: Remembered[Unconfirmed] = Remembered(LOOKED_EVERY_S)
        self._last: dict[Hashable, tuple[int | None, Unconfirmed]] = {}
        self._kernels: dict[tuple[str, float | None], Kernel] = {}
        self._turn = asyncio.Lock()
        self._looking = asyncio.Semaphore(LOOKS_AT_ONCE)

    def refuse_excess(self, network: str) -> None:
        """Raises Refusal (429 or 503) where one more is too many. Who waits for a look counts, too:
        looks are taken in turn, so that one network's at strange classes would hold up all.

        Once all are open, the network with most ends one for a network that has none.
        """
        later = {"Retry-After": str(RETRY_S)}
        own = len(self._open.get(network, ()))
        share = min(MOST_OF_NETWORK, max(1, (MOST - self.total()) // SHARE))
        if own >= share:
            raise Refusal(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"this network has {own} streams of candidates open, and may have {share} while so "
                "many pages tune themselves; let one of them end, then ask again",
                later,
            )
        if self.total() >= MOST and not self._make_room():
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "too many pages tune themselves; the model runs all the same, ask again later",
                later,
            )

    def total(self) -> int:
        return sum(map(len, self._open.values()))

    def _make_room(self) -> bool:
        network, largest = max(self._open.items(), key=lambda item: len(item[1]))
        spare = next((stream for stream in largest if stream.yields), None)
        if len(largest) <= 1 or spare is None:
            return False
        spare.ended = True
        self._forget(network, spare)
        return True

    def _forget(self, network: str, stream: Stream) -> None:
        """Nothing happens for one that was ended."""
        own = self._open.get(network, {})
        own.pop(stream, None)
        if not own:
            self._open.pop(network, None)

    @contextmanager
    def counted(self, network: str, stream: Stream) -> Iterator[None]:
        self._open[network][stream] = None
        try:
            yield
        finally:
            self._forget(network, stream)

    async def look(
        self, plan: Hashable, generation: int | None, see: Callable[[], Awaitable[Unconfirmed]]
    ) -> Unconfirmed:
        """Returns what `see` finds, or found a moment ago or in the same generation of what is
        served; the same object while nothing changes. `generation`: None where nobody hears of
        changes.
        """
        if self.knows(plan, generation):
            return self._last[plan][1]

        async def in_turn() -> Unconfirmed:
            found = await self._rested(see)
            before = self._last.get(plan)
            if before is not None and found == before[1]:
                found = before[1]
            if len(self._last) >= MOST:
                self._last.clear()
            self._last[plan] = generation, found
            return found

        return await self._seen.get(plan, in_turn)

    def knows(self, plan: Hashable, generation: int | None) -> bool:
        """Returns whether a plan was looked up in this generation."""
        last = self._last.get(plan)
        return last is not None and generation is not None and last[0] == generation

    async def _rested(self, see: Callable[[], Awaitable[Unconfirmed]]) -> Unconfirmed:
        await self._looking.acquire()
        start_s = time.monotonic()
        try:
            return await see()
        finally:
            rest_s = min(time.monotonic() - start_s, LONGEST_REST_S)
            asyncio.get_running_loop().call_later(rest_s, self._looking.release)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Streams wake together, and each has a millisecond's work: what else there is to do, such
        as page loads, comes between two of them.
        """
        async with self._turn:
            yield
            await asyncio.sleep(0)

    async def kernels(self, rows: Sequence[QueuedRow], read: Read) -> dict[str, Kernel]:
        """By candidate, each read once for all pages."""
        async with self.turn():
            lacking = [str(row.candidate_id) for row in rows if _place(row) not in self._kernels]
            read_now = await read(lacking) if lacking else {}
            if len(self._kernels) >= MOST_KERNELS:
                self._kernels.clear()
            found = {}
            for row in rows:
                name = str(row.candidate_id)
                kernel = read_now.get(name) or self._kernels.get(_place(row))
                if kernel is not None:
                    found[name] = self._kernels[_place(row)] = kernel
        return found


def _place(row: QueuedRow) -> tuple[str, float | None]:
    """Identifies a kernel by its candidate and its compilation: what is compiled anew is another
    kernel."""
    return str(row.candidate_id), row.compiled_s

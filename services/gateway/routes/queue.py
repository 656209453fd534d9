"""Candidates for a page that tunes the model it runs, sent as soon as they are compiled.

Whoever asks needs no session: nothing is lent, counted or remembered. What a page measures counts
only where it is an agent beside it.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.gpu import space_of
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import HitLevel
from kernelzoo.metrics import QUEUE_STREAMS, QUEUED_KERNELS
from kernelzoo.store import candidates, models, queue
from kernelzoo.store.asynchronous import fetch_all
from services.gateway.answering import hardware_of
from services.gateway.manifests import Key, kernel_of
from services.gateway.models import cache_key, chosen
from services.gateway.queueing import (
    Batch,
    batches,
    compiled_since,
    read_together,
    tried,
    unconfirmed,
    waiting,
)
from services.gateway.routes.zoo import ClassText, IfNoneMatch, Told
from services.gateway.state import Network, Shared, State
from services.gateway.streams import LOOKED_EVERY_S, Stream, Unconfirmed
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.models import ModelName
from services.gateway.wire.queue import QueueBatch, QueuedKernel, QueueEnd, QueueLine, QueueWaits

router = APIRouter(tags=["models"])

PARAMETERS = ("wait_s", "each")
"""These parameters are no dimensions of a model, beside those of its manifest."""
SAID_EVERY_S = 10.0
ENDS_WITHIN_S = 1.0
"""After it was ended for another network's."""
RETRY_S = 2
READ_AHEAD = 32
"""Kernels that are read at once for the lines to come: a millisecond's work."""
SLACK_S = 5.0
"""A compilation is stored at most so long after the time that it is stored with."""
SETTLED = QueueEnd(end="settled", retry_s=60, cursor="")
SETTLED_ETAG = '"settled"'
NDJSON = "application/x-ndjson"
OPEN = {
    "Cache-Control": "no-store",
    # Or nginx keeps lines until it has a page of them.
    "X-Accel-Buffering": "no",
}


@router.get(
    "/v1/models/{name}/{device_class}/candidates",
    response_model=QueueLine,
    responses={HTTPStatus.NOT_MODIFIED: {"description": "Every workload is still confirmed"}},
)
async def get_candidates(
    name: ModelName,
    device_class: ClassText,
    request: Request,
    state: Shared,
    network: Network,
    wait_s: Annotated[float, Query(ge=0, le=60)] = 30,
    each: Annotated[int, Query(ge=1, le=36)] = 24,
    after: Annotated[float, Query(ge=0, allow_inf_nan=False)] = 0,
    if_none_match: IfNoneMatch = None,
    hardware: Told = None,  # noqa: ARG001 - read with the rest of the query
) -> Response:
    """Candidates of a model's workloads that the class has not confirmed, those first that may save
    most time: one JSON object a line, sent as soon as it is there, at most `each` of a workload.
    The last line says `end`. Parameters beside those named here are dimensions, and `precision`;
    f32 unless told.
    """
    asked = request.query_params.items()
    key = cache_key(name, device_class, (pair for pair in asked if pair[0] not in PARAMETERS))
    DeviceClass.parse(device_class)
    seen = None
    if not _is_settled(state, key):
        state.streams.refuse_excess(network)
        with state.streams.counted(network, Stream(yields=False)):
            seen = await _look(state, key)
    if seen is None or not seen.left:
        headers = {"ETag": SETTLED_ETAG, "Cache-Control": "public, max-age=60"}
        if if_none_match is not None and SETTLED_ETAG in if_none_match:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(_line(SETTLED), media_type=NDJSON, headers=headers)
    state.streams.refuse_excess(network)
    place = Stream(yields=True)
    stream = _Stream(state=state, key=key, place=place, each=each, after_s=after)
    return _Counted(stream.lines(seen, wait_s), state.streams.counted(network, place))


class _Counted(StreamingResponse):
    """Counted from when it was not refused to its end, also where nobody is left to read a line:
    lines begin after others that asked in the same moment were let in."""

    def __init__(self, lines: AsyncIterator[bytes], counted: AbstractContextManager[None]) -> None:
        super().__init__(lines, media_type=NDJSON, headers=OPEN)
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._counted, QUEUE_STREAMS.track_inprogress():
            await super().__call__(scope, receive, send)


def _is_settled(state: State, key: Key) -> bool:
    """Returns whether a plan is settled, as far as it is known without a look."""
    served = state.models.get(key) or state.models.outdated(key)
    return served is not None and all(
        level == HitLevel.EXACT for level, kernels in served.levels if kernels
    )


async def _look(state: State, key: Key) -> Unconfirmed:
    """Raises Refusal where there is no such plan."""
    return await state.streams.look(key, _heard(state), partial(_see, state, key))


def _heard(state: State) -> int | None:
    """The generation of what is served; None where nobody hears of changes."""
    return state.wake.served_generation if state.wake.connected else None


async def _see(state: State, key: Key) -> Unconfirmed:
    named, class_text, told, *asked = key
    name, device_class = named.removeprefix("model:"), DeviceClass.parse(class_text)
    async with state.pool.connection() as db:
        target = device_class.target.kind
        plan = await chosen(state, db, name, asked, target)
        called = await fetch_all(db, models.call_times(plan.id, device_class))
        # Nothing is tried of what is confirmed, which is most of a model after a while.
        keys: list[str] = [row.workload_key for row in unconfirmed(called)]
        hardware = await hardware_of(db, told or None, device_class.device_id)
        space = space_of(target, hardware)
        found = await fetch_all(db, queue.queued(keys, device_class, space))
        workloads = await state.programs.workloads(db, keys)
    compiled = [row.compiled_s for row in found if row.compiled_s is not None]
    return Unconfirmed(
        left=tried(called, found), workloads=workloads, newest_s=max(compiled, default=0.0)
    )


@dataclass(kw_only=True)
class _Stream:
    """`sent`: candidates by workload. `cursor`: of the last look that is wholly sent."""

    state: State
    key: Key
    place: Stream
    each: int
    after_s: float
    sent: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    cursor: str = ""

    @property
    def target(self) -> TargetKind:
        return DeviceClass.parse(self.key[1]).target.kind

    async def lines(self, seen: Unconfirmed, wait_s: float) -> AsyncIterator[bytes]:
        async for lines in self._lines(seen, time.monotonic() + wait_s):
            yield b"".join(map(_line, lines))

    async def _lines(self, seen: Unconfirmed, until_s: float) -> AsyncIterator[Sequence[QueueLine]]:
        """Gives those together that are there at the same time: to send each by itself takes as
        long as to make it."""
        said_s = time.monotonic()
        while seen.left:
            async with self.state.streams.turn():
                found = batches(compiled_since(seen.left, self.after_s), self.sent, self.each)
            for read in read_together(found, READ_AHEAD):
                rows = [row for batch in read for row in batch.candidates]
                kernels = await self.state.streams.kernels(rows, self._read)
                yield [
                    self._described(batch, seen.workloads[batch.of.workload_key], kernels)
                    for batch in read
                ]
                said_s = time.monotonic()
            self.cursor = f"{max(seen.newest_s - SLACK_S, self.after_s, 0.0):.6f}"
            coming = waiting(seen.left, self.sent, self.each)
            if coming == 0:
                yield [QueueEnd(end="complete", retry_s=0, cursor=self.cursor)]
                return
            if (now_s := time.monotonic()) >= until_s or self.place.ended:
                yield [QueueEnd(end="waited", retry_s=RETRY_S, cursor=self.cursor)]
                return
            if now_s > said_s + SAID_EVERY_S:
                yield [QueueWaits(waiting=coming)]
                said_s = now_s
            seen = await self._later(seen, until_s - now_s)
        yield [SETTLED]

    async def _later(self, seen: Unconfirmed, left_s: float) -> Unconfirmed:
        """Waits until there is something else than was `seen`, or for a while, and returns what
        there is."""
        until_s, found = time.monotonic() + min(SAID_EVERY_S, left_s), seen
        while found is seen and (left_s := until_s - time.monotonic()) > 0:
            if self.place.ended:
                break
            generation = self.state.wake.generation
            await asyncio.sleep(min(LOOKED_EVERY_S, left_s))
            # What was remembered may be of before the last change.
            if self.state.streams.knows(self.key, _heard(self.state)):
                left_s = min(ENDS_WITHIN_S, until_s - time.monotonic())
                await self.state.wake.wait(generation, max(0.0, left_s))
            found = await _look(self.state, self.key)
        return found

    def _described(
        self, batch: Batch, workload: Workload, kernels: Mapping[str, Kernel]
    ) -> QueueBatch:
        self.sent[batch.of.workload_key].update(str(row.candidate_id) for row in batch.candidates)
        found = [
            QueuedKernel(kernel=kernel, expected=row.relative_time, predicted=row.predicted)
            for row in batch.candidates
            if (kernel := kernels.get(str(row.candidate_id))) is not None
        ]
        QUEUED_KERNELS.inc(len(found))
        expected_ms = None if batch.of.expected_ns is None else batch.of.expected_ns / 1e6
        return QueueBatch(
            workload=batch.of.workload_key,
            calls=batch.of.calls,
            flops=batch.of.flops,
            tolerance=comparison_tolerance(workload, self.target),
            expected_ms=expected_ms,
            gain_ms=None if expected_ms is None else expected_ms * batch.of.gain,
            candidates=found,
            waiting=batch.of.waiting,
            cursor=self.cursor,
        )

    async def _read(self, candidate_ids: list[str]) -> dict[str, Kernel]:
        async with self.state.pool.connection() as db:
            rows = await fetch_all(db, candidates.kernels(candidate_ids))
        return {row.candidate_id: kernel_of(row) for row in rows}


def _line(line: QueueLine) -> bytes:
    return line.model_dump_json().encode() + b"\n"

"""Answers what is sent again a moment after it was answered, without doing it again.

A ballot takes milliseconds of the thread and of the database also where it changes nothing, and a
report that was stored before locks its lease to find that out. Sixteen networks that sent the same
again and again kept all connections to the database waiting, and the thread busy, so that pages
waited too.

Only an answer that would be the same is given again, for seconds, and to the sender whose last it
was. A ballot may have been replaced since, at another gateway, which is heard of. Whoever sends the
same while it is being done waits for its answer. It is given as it left the gateway, with the
headers of all layers, none of which is passed again: that took two thirds of the time.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from math import inf

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.filed import Filed
from services.gateway.middleware import count, read_body, replayed
from services.gateway.proxies import Proxies
from services.gateway.reminders import Asker, answer_path, asker_of, page_of
from services.gateway.state import State

REPEATED_S = 5.0
"""An answer is given again for this long at most,"""
SOONEST = 0.5
"""and for this share of it at least: else those that were first sent together are done anew
together, thirty of them in 60 ms of the thread."""
BALLOTS = "/ballots"
LASTING: Mapping[str, Collection[int]] = {
    # The second of two equal reports is refused, as ever, and the third as the second.
    "/measurements": (HTTPStatus.CONFLICT, HTTPStatus.GONE),
    BALLOTS: (HTTPStatus.ACCEPTED,),
    "/failures": (HTTPStatus.ACCEPTED,),
    "/wrong-outputs": (HTTPStatus.ACCEPTED,),
}
"""Statuses after which nothing would be done the next time, by the end of the path."""
ANY: Filed = (0, 0)
"""Nothing that is no ballot is replaced by one."""
MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """`start`: its status and all its headers. `route`: the one that gave it, by which it is
    counted."""

    start: Message
    body: bytes
    route: object

    async def send(self, scope: Scope, send: Send) -> None:
        if self.route is not None:
            scope["route"] = self.route
        # A list of its own: whoever stands further out may add headers to it.
        await send({**self.start, "headers": list(self.start["headers"])})
        await send({"type": "http.response.body", "body": self.body})
        count(scope, self.start["status"], 0.0)


@dataclass(slots=True, kw_only=True)
class _Said:
    """A digest of what a sender sent last, and its answer: None where that failed. It is given
    again until `until_s`, and while it is under way to all who wait for it. `filed`: ballots of the
    sender before this; None where nobody knows.
    """

    digest: bytes
    filed: Filed | None
    answer: asyncio.Future[_Answer | None]
    until_s: float = -inf

    def answers(self, digest: bytes, filed: Filed | None, now_s: float) -> bool:
        same = self.digest == digest and filed is not None and self.filed == filed
        return same and (not self.answer.done() or now_s < self.until_s)


class Repeats:
    """Stands further out than whatever adds a header, counts or understands a body, of which it
    reads no more than `limit_bytes`: longer ones pass. `clock`: seconds, monotonic.
    """

    def __init__(
        self,
        app: ASGIApp,
        proxies: Proxies,
        limit_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._proxies = proxies
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._last: dict[Asker, _Said] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not (what := answer_path(scope)):
            await self._app(scope, receive, send)
            return
        read, body = await read_body(receive, self._limit_bytes)
        receive_again = replayed(read, receive)
        if read[-1]["type"] != "http.request" or len(body) > self._limit_bytes:
            await self._app(scope, receive_again, send)
            return
        asker, digest = asker_of(what, scope, self._proxies), _digest(scope, body)
        filed = _filed(scope) if what == BALLOTS else ANY
        said = self._last.get(asker)
        if said is not None and said.answers(digest, filed, self._clock()):
            # One who leaves must not take the answer from the others.
            answer = await asyncio.shield(said.answer)
            if answer is not None:
                await answer.send(scope, send)
                return
        said = self._remember(asker, digest, filed)
        await self._answer(LASTING[what], said, scope, receive_again, send)

    def _remember(self, asker: Asker, digest: bytes, filed: Filed | None) -> _Said:
        if len(self._last) >= MOST_REMEMBERED:
            self._last.clear()
        answer = asyncio.get_running_loop().create_future()
        said = _Said(digest=digest, filed=filed, answer=answer)
        self._last[asker] = said
        return said

    async def _answer(
        self, lasting: Collection[int], said: _Said, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Tells `said` the answer as soon as that is whole."""
        start: Message = {}
        body = bytearray()

        async def send_and_tell(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                # A list of its own: whoever stands further out adds headers to that.
                start = {**message, "headers": list(message["headers"])}
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    tell()
            await send(message)

        def tell() -> None:
            if start["status"] in lasting:
                share = random.uniform(SOONEST, 1)  # noqa: S311 - no secret
                said.until_s = self._clock() + share * REPEATED_S
            said.answer.set_result(_Answer(start=start, body=bytes(body), route=scope.get("route")))

        try:
            await self._app(scope, receive, send_and_tell)
        finally:
            if not said.answer.done():
                said.answer.set_result(None)


def _filed(scope: Scope) -> Filed | None:
    """The ballots of the sender of one; None where they are not known, and without a token."""
    state: State = scope["app"].state.kernelzoo
    token = Headers(scope=scope).get("authorization", "").removeprefix("Bearer ")
    holder = state.tokens.holder(token)
    return None if holder is None else state.wake.ballots.of(str(holder))


def _digest(scope: Scope, body: bytearray) -> bytes:
    """Covers all that a sender can say otherwise, and its page, whose failures may not count."""
    page = "\0".join(page_of(Headers(scope=scope)))
    asked = f"{page}\0{scope['method']} {scope['path']}?".encode()
    return sha256(asked + scope.get("query_string", b"") + b"\0" + body).digest()

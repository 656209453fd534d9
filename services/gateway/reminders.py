"""Whoever was told to come back later and comes before is refused again, before its body is read.

To read and understand a report and to refuse it then took as long as to store it: a few networks
that sent the same reports again and again had most of a core, and pages waited for the rest.
"""

import math
import random
import time
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.problems import problem
from services.gateway.state import LOCAL, State

ANSWERS = ("/measurements", "/ballots", "/failures", "/wrong-outputs")
"""Ends of the paths to which agents and pages send what they found."""
REMINDED_S = 5.0
"""For longer nobody is refused unread: there may be room again before the time that was told."""
SOONEST = 0.5
"""This share of the time that was told at least, and any up to the whole: else those who were
refused together, and wait for nothing, are let through together."""
MOST_REMEMBERED = 4096

Asker = tuple[str, ...]
"""It asks for this, by a token, or from a network with the operator's key that it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """Until when somebody is refused unread, and when it was told to come back."""

    reminded_until_s: float
    come_back_s: float


class Reminders:
    """Stands before whatever reads a body, and behind what tells who asks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._told: dict[Asker, _Told] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (what := answer_path(scope["path"])):
            await self._app(scope, receive, send)
            return
        asker = asker_of(what, scope)
        told, now_s = self._told.get(asker), time.monotonic()
        if told is not None and now_s < told.reminded_until_s:
            await _refuse(math.ceil(told.come_back_s - now_s), scope, receive, send)
            return

        async def send_and_remember(message: Message) -> None:
            if (
                message["type"] == "http.response.start"
                and message["status"] == HTTPStatus.TOO_MANY_REQUESTS
            ):
                wait_s = Headers(raw=message["headers"]).get("Retry-After")
                self._remember(asker, float(wait_s or 0))
            await send(message)

        await self._app(scope, receive, send_and_remember)

    def _remember(self, asker: Asker, wait_s: float) -> None:
        if len(self._told) >= MOST_REMEMBERED:
            self._told.clear()
        share = random.uniform(SOONEST, 1)  # noqa: S311 - no secret
        now_s = time.monotonic()
        self._told[asker] = _Told(
            reminded_until_s=now_s + share * min(wait_s, REMINDED_S), come_back_s=now_s + wait_s
        )


def answer_path(path: str) -> str:
    """The end of a path to which answers are sent; '' for what is no answer."""
    return next((end for end in ANSWERS if path.endswith(end)), "")


def asker_of(what: str, scope: Scope) -> Asker:
    headers = Headers(scope=scope)
    if token := headers.get("authorization"):
        return what, token
    state: State = scope["app"].state.kernelzoo
    address = (scope.get("client") or (LOCAL, 0))[0]
    return what, state.tokens.network(address), headers.get("X-Kernelzoo-Operator", "")


async def _refuse(wait_s: int, scope: Scope, receive: Receive, send: Send) -> None:
    answer = problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"this was asked too often and refused a moment ago; come back in {wait_s} s",
        {"Retry-After": str(wait_s)},
    )
    await answer(scope, receive, send)

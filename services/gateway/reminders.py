"""Whoever was told to come back later and comes before is refused again, before its body is read.

To read and understand a report and to refuse it then took as long as to store it: a few networks
that sent the same reports again and again had most of a core, and pages waited for the rest.
"""

import math
import random
import time
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


class Reminders:
    """Stands before whatever reads a body, and behind what tells who asks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._until_s: dict[Asker, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (what := _answer(scope["path"])):
            await self._app(scope, receive, send)
            return
        asker = what, *_who(scope)
        left_s = self._until_s.get(asker, 0.0) - time.monotonic()
        if left_s > 0:
            await _refuse(math.ceil(left_s), scope, receive, send)
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
        if len(self._until_s) >= MOST_REMEMBERED:
            self._until_s.clear()
        share = random.uniform(SOONEST, 1)  # noqa: S311 - no secret
        reminded_s = share * min(wait_s, REMINDED_S)
        self._until_s[asker] = time.monotonic() + reminded_s


def _answer(path: str) -> str:
    """'' for what is no answer."""
    return next((end for end in ANSWERS if path.endswith(end)), "")


def _who(scope: Scope) -> tuple[str, str]:
    headers = Headers(scope=scope)
    if token := headers.get("authorization"):
        return token, ""
    state: State = scope["app"].state.kernelzoo
    address = (scope.get("client") or (LOCAL, 0))[0]
    return state.tokens.network(address), headers.get("X-Kernelzoo-Operator", "")


async def _refuse(wait_s: int, scope: Scope, receive: Receive, send: Send) -> None:
    answer = problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"this was asked too often and refused a moment ago; come back in {wait_s} s",
        {"Retry-After": str(wait_s)},
    )
    await answer(scope, receive, send)

"""Whoever was told to come back later and comes before is refused again, before its body is read.

To read and understand a report and to refuse it then took as long as to store it: a few networks
that sent the same reports again and again had most of a core, and pages waited for the rest. The
refusal costs no other layer, each of which takes some 20 µs of a request.
"""

import math
import random
import time
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.cors import is_for_agents
from services.gateway.middleware import count
from services.gateway.problems import problem
from services.gateway.proxies import Proxies
from services.gateway.state import State

ANSWERS = ("/measurements", "/ballots", "/failures", "/wrong-outputs")
"""Ends of the paths to which agents and pages send what they found."""
REMINDED_S = 5.0
"""For longer nobody is refused unread: there may be room again before the time that was told."""
SOONEST = 0.5
"""This share of the time that was told at least, and any up to the whole: else those who were
refused together, and wait for nothing, are let through together."""
MOST_REMEMBERED = 4096

Asker = tuple[str, ...]
"""It asks for this, from a network: by an agent's token, from a page that may speak as an agent or
not, or else with the operator's key that it shows. Whoever changes anything else is still the same.
"""
HEADERS_OF_REFUSAL = frozenset((b"content-length", b"content-type", b"retry-after"))
"""Each refusal has these for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """Until when somebody is refused unread, and when it was told to come back. `headers` are what
    all layers gave it then beside the refusal's own; `route` refused it."""

    reminded_until_s: float
    come_back_s: float
    headers: list[tuple[bytes, bytes]]
    route: object


class Reminders:
    """Stands further out than whatever reads a body, adds a header or counts."""

    def __init__(self, app: ASGIApp, proxies: Proxies) -> None:
        self._app = app
        self._proxies = proxies
        self._told: dict[Asker, _Told] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not (what := answer_path(scope)):
            await self._app(scope, receive, send)
            return
        asker = asker_of(what, scope, self._proxies)
        told, now_s = self._told.get(asker), time.monotonic()
        if told is not None and now_s < told.reminded_until_s:
            await _refuse(told, math.ceil(told.come_back_s - now_s), scope, send)
            return

        async def send_and_remember(message: Message) -> None:
            if (
                message["type"] == "http.response.start"
                and message["status"] == HTTPStatus.TOO_MANY_REQUESTS
            ):
                self._remember(asker, message["headers"], scope.get("route"))
            await send(message)

        await self._app(scope, receive, send_and_remember)

    def _remember(self, asker: Asker, headers: list[tuple[bytes, bytes]], route: object) -> None:
        if len(self._told) >= MOST_REMEMBERED:
            self._told.clear()
        wait_s = float(Headers(raw=headers).get("Retry-After") or 0)
        share = random.uniform(SOONEST, 1)  # noqa: S311 - no secret
        now_s = time.monotonic()
        self._told[asker] = _Told(
            reminded_until_s=now_s + share * min(wait_s, REMINDED_S),
            come_back_s=now_s + wait_s,
            headers=[each for each in headers if each[0].lower() not in HEADERS_OF_REFUSAL],
            route=route,
        )


def answer_path(scope: Scope) -> str:
    """The end of a path to which answers are sent; '' for what sends none, as the question of a
    browser whether its page may."""
    if scope["type"] != "http" or scope["method"] not in ("POST", "PUT"):
        return ""
    path: str = scope["path"]
    return next((end for end in ANSWERS if path.endswith(end)), "")


def asker_of(what: str, scope: Scope, proxies: Proxies) -> Asker:
    headers = Headers(scope=scope)
    state: State = scope["app"].state.kernelzoo
    network = proxies.network(scope, state.tokens)
    if not is_for_agents(scope["path"]):
        return what, network, headers.get("X-Kernelzoo-Operator", "")
    return what, network, headers.get("authorization", ""), *page_of(headers)


def page_of(headers: Headers) -> tuple[str, str]:
    """The origin of the page that asks, and the host by which the zoo knows its own pages; '' for a
    program, which may write as its host whatever it likes."""
    origin = headers.get("origin", "")
    return origin, headers.get("host", "") if origin else ""


async def _refuse(told: _Told, wait_s: int, scope: Scope, send: Send) -> None:
    answer = _refusal(wait_s)
    if told.route is not None:
        scope["route"] = told.route
    headers = [*told.headers, *answer.raw_headers]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
    count(scope, answer.status_code, 0.0)


@lru_cache(maxsize=256)
def _refusal(wait_s: int) -> Response:
    return problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"this was asked too often and refused a moment ago; come back in {wait_s} s",
        {"Retry-After": str(wait_s)},
    )

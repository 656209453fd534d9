"""Decides which pages of other origins may ask what, and read the answers.

What the zoo serves is for everybody: no cookies are used, and a shared cache keeps one copy for
all. What an agent says is for pages that were let in, the zoo's own and those that applications
registered: a session has the network of the visitor whose browser asks, and its answer a token, so
that a page of anybody's would collect both.

A browser says the origin of the page with every request that is not a mere read, and no page can
change it. A program that is no browser can: it is held by its network, as everybody is.
"""

import time
from http import HTTPStatus
from typing import Any

from psycopg import AsyncConnection, OperationalError
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelzoo.store import applications
from kernelzoo.store.asynchronous import fetch_all
from services.gateway.problems import problem

AGENTS = ("/v1/sessions", "/v1/leases", "/v1/ballots", "/v1/attestations")
"""Agents speak to these addresses, and to whatever lies below."""

MAX_AGE = {"Access-Control-Max-Age": "86400"}
FOR_ALL = {
    # Always, not only when an Origin is sent: a shared cache keeps one copy for all.
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Accept-Ranges, Content-Range, ETag, Retry-After",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Timing-Allow-Origin": "*",
}
READING = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Content-Type, Range",
    **MAX_AGE,
}
SPEAKING = {
    "Access-Control-Allow-Methods": "POST, PUT",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    **MAX_AGE,
}
FOR_NONE = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Origin",
}


def is_for_agents(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in AGENTS)


class Cors:
    """Answers preflights, and refuses what pages of other origins say as agents with 403."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        asked = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        if not is_for_agents(scope["path"]):
            given = FOR_ALL | READING if asked else FOR_ALL
        elif not origin:
            given = FOR_NONE
        elif await scope["app"].state.kernelzoo.origins.allows(origin, headers.get("host", "")):
            let_in = {
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Expose-Headers": "Retry-After",
            }
            given = FOR_NONE | let_in | (SPEAKING if asked else {})
        else:
            await _refuse(origin, scope, receive, _adding(FOR_NONE, send))
            return
        if asked:
            await _answer_preflight(given, send)
        else:
            await self._app(scope, receive, _adding(given, send))


def _adding(given: dict[str, str], send: Send) -> Send:
    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(given)
        await send(message)

    return send_with


async def _answer_preflight(given: dict[str, str], send: Send) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in given.items()]
    await send({"type": "http.response.start", "status": HTTPStatus.NO_CONTENT, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(origin: str, scope: Scope, receive: Receive, send: Send) -> None:
    refusal = problem(
        HTTPStatus.FORBIDDEN,
        f"pages of {origin[:200]} may not measure for this zoo; the operator lets the pages of an "
        "application in with `kernelzoo app origins NAME --add ORIGIN`",
    )
    await refusal(scope, receive, send)


KNOWN_FOR_S = 5.0
"""An origin that was registered or taken away may go unnoticed for so long."""


class AllowedOrigins:
    """Remembers what applications registered. `own`: the zoo's origins, separated by commas; where
    it is empty, the zoo's own pages are those whose origin names the host that was asked.
    """

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[Any]], own: str) -> None:
        self._pool = pool
        self._own = frozenset(each.strip() for each in own.split(",") if each.strip())
        self._registered: frozenset[str] = frozenset()
        self._until_s = 0.0

    def is_own(self, origin: str, host: str) -> bool:
        """`host`: the request's header, with the port where that is not the usual one."""
        return origin in self._own if self._own else origin.partition("://")[2] == host

    async def allows(self, origin: str, host: str) -> bool:
        return self.is_own(origin, host) or origin in await self._known()

    def forget(self) -> None:
        """Reads origins anew, as this gateway changed them; others notice it within seconds."""
        self._until_s = 0.0

    async def _known(self) -> frozenset[str]:
        if time.monotonic() >= self._until_s:
            self._until_s = time.monotonic() + KNOWN_FOR_S
            try:
                async with self._pool.connection() as db:
                    rows = await fetch_all(db, applications.origins())
            except (OperationalError, PoolTimeout):
                return self._registered
            self._registered = frozenset(row.origin for row in rows)
        return self._registered

"""Polls of a network that has as many waiting as it may are refused before their body is read.

A thousand agents that ask again at once take a core's whole time with what would be refused all the
same: to read and understand such a request took 152 µs, to refuse it so takes 33 µs. A connection
that asks again before `Retry-After` has passed is ended with the refusal.
"""

import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from services.gateway.problems import Refusal, problem
from services.gateway.rates import RETRY_S, too_many_of_network
from services.gateway.state import State
from services.gateway.tokens import LOCAL

LEASES = "/v1/leases"
MOST_REMEMBERED = 4096
"""Connections of which it is remembered when they were refused."""

Connection = tuple[str, int]


class Impatience:
    """Stands before whatever reads a body, and behind what tells who asks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._refused_s: dict[Connection, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != LEASES or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        state: State = scope["app"].state.kernelzoo
        address, port = scope.get("client") or (LOCAL, 0)
        network = state.tokens.network(address)
        if not state.polls.is_full(network) or _is_operated(state, scope, network):
            await self._app(scope, receive, send)
            return
        refusal = too_many_of_network(state.settings.polls_per_network)
        headers = dict(refusal.headers)
        # A proxy's connection is many visitors', and has no port here.
        if port and self._is_too_early((address, port)):
            headers["Connection"] = "close"
        await problem(refusal.status, str(refusal), headers)(scope, receive, send)

    def _is_too_early(self, connection: Connection) -> bool:
        """Returns whether a connection was refused less than `RETRY_S` ago. Remembers that it is
        refused now."""
        now_s = time.monotonic()
        before_s = self._refused_s.pop(connection, -RETRY_S)
        if len(self._refused_s) >= MOST_REMEMBERED:
            self._refused_s.clear()
        self._refused_s[connection] = now_s
        return now_s - before_s < RETRY_S


def _is_operated(state: State, scope: Scope, network: str) -> bool:
    """The operator's agents are counted by identity alone: they are asked for their token."""
    headers = Headers(scope=scope)
    token = headers.get("authorization", "").removeprefix("Bearer ")
    try:
        session = state.tokens.session(token, network=network, origin=headers.get("origin", ""))
    except Refusal:
        return False
    return session.operated

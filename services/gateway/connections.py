"""Limits how long the gateway waits for a connection, how long a head it reads, and how many
connections it keeps of one network.

Uvicorn waits for ever: for a request that was half sent, and for an answer that nobody reads. Both
cost the sender nothing and the gateway a connection, of which there are a limited number. And it
reads a head without end, joining all that came of it with all that comes: 32 MiB took it 3.8 s, in
which it served nobody else.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from ipaddress import ip_address
from itertools import islice
from math import inf
from typing import Any, Protocol

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from services.gateway.groups import Groups
from services.gateway.middleware import STREAMED
from services.gateway.pace import Pace
from services.gateway.proxies import Proxies
from services.gateway.tokens import group_of, prefix

FEW = 8
"""Connections of a group of networks that may use the reserve: those of a page or two."""
LOOKED_AT = 16
"""Groups in which a spare connection is looked for: those with most."""
PROBES = (b"/healthz", b"/readyz")
PROXY = ""
HEAD_BYTES = 1 << 16
"""A request may have so many before its body, and as many between two bytes of it or behind it."""
_LATE = b"The request was not sent in this time."
_LARGE = (
    b"The head of a request may have %d bytes; send less in its address and headers." % HEAD_BYTES
)
KEPT_FOR_PROXY_S = 650
"""A proxy's idle connection is ended by the proxy: what the gateway closes just as a request is on
its way is answered with 502 there. Caddy keeps them for 120 s, load balancers for up to 600 s."""


def _last_answer(status: bytes, text: bytes) -> bytes:
    return (
        b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\n"
        b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (status, len(text), text)
    )


LATE = _last_answer(b"408 Request Timeout", _LATE)
LARGE = _last_answer(b"431 Request Header Fields Too Large", _LARGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """`head_s`: from a connection, or the first byte of a further request, to the end of its
    headers. `body_s`: from there to the last byte of the body, of which there may be a mebibyte; of
    a file that is sent, to its next bytes.
    `read_s`: how long an answer that was sent may wait to be read.
    """

    head_s: float = 10.0
    body_s: float = 30.0
    read_s: float = 30.0

    def for_(self, waiting: "Waiting") -> float:
        match waiting:
            case Waiting.HEAD:
                return self.head_s
            case Waiting.BODY:
                return self.body_s
            case Waiting.READER:
                return self.read_s
            case _:
                return inf


class Waiting(Enum):
    """A connection waits for this from the other side."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()
    READER = auto()


class Held(Protocol):
    """An open connection, of which `is_spare` says that nobody waits for an answer of ours, and
    which `end` ends at once."""

    @property
    def is_spare(self) -> bool: ...

    def end(self) -> None: ...


@lru_cache(maxsize=4096)
def networks(peer: str) -> tuple[str, str]:
    """The network that an address lies in, and the group of networks."""
    address = ip_address(peer)
    return prefix(address), group_of(address)


class Connections:
    """Open connections by network. Those of `proxies` are many visitors', and none's share.

    Of `most` in all an eighth is a reserve. Once the rest is taken, who comes takes the place of a
    spare connection of the group of networks that has most, the oldest first; where no group has
    more than its own, the reserve is for groups that have few.
    """

    def __init__(self, per_network: int, most: int, proxies: Proxies) -> None:
        self._per_network = per_network
        self._most = most
        self._proxies = proxies
        self._open: Counter[str] = Counter()
        self._groups: Groups[Held] = Groups()
        self._entered: dict[Held, tuple[str, str]] = {}
        self.ends = Pace()
        """Gives turns to those that were late, as many as a flood opened together."""

    def of(self, peer: str) -> int:
        """Counts the connections of the networks around an address; 0 for a proxy."""
        if self._proxies.peers and peer in self._proxies:
            return 0
        _, group = networks(peer)
        return self._groups.size(group)

    def enter(self, peer: str, held: Held) -> str | None:
        """The network, PROXY for a proxy; None where it has as many as it may."""
        if self._proxies.peers and peer in self._proxies:
            self._entered[held] = (PROXY, PROXY)
            return PROXY
        network, group = networks(peer)
        if self._open[network] >= self._per_network or not self._find_room(group):
            return None
        self._open[network] += 1
        self._groups.add(group, held)
        self._entered[held] = (network, group)
        return network

    def leave(self, held: Held) -> None:
        """Nothing happens for one that left before, or never entered."""
        network, group = self._entered.pop(held, (PROXY, PROXY))
        if network == PROXY:
            return
        self._open[network] -= 1
        if self._open[network] <= 0:
            del self._open[network]
        self._groups.remove(group, held)

    def _find_room(self, group: str) -> bool:
        if len(self._entered) < self._most - self._most // 8:
            return True
        own = self._groups.size(group) + 1
        for members in islice(self._groups.larger_than(own), LOOKED_AT):
            spare = next((held for held in members if held.is_spare), None)
            if spare is not None:
                self.leave(spare)
                spare.end()
                return True
        return own <= FEW and len(self._entered) < self._most - 1


class PatientProtocol(HttpToolsProtocol):
    """HTTP/1.1 with an end to patience and to heads."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        open_connections: Connections,
        patience: Patience,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._open_connections = open_connections
        self._patience = patience
        self._waiting = Waiting.HEAD
        self._armed = Waiting.NOTHING
        self._timer: asyncio.TimerHandle | None = None
        # What the parser has been given since it last came to the end of a head or gave a part of a
        # body: it keeps all of it.
        self._kept_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        network = self._open_connections.enter(self.client[0], self) if self.client else PROXY
        if network is None:
            self.end()
            return
        if network == PROXY:
            self.timeout_keep_alive = KEPT_FOR_PROXY_S
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._open_connections.leave(self)
        super().connection_lost(exc)

    @property
    def is_spare(self) -> bool:
        """Nothing was asked, or not to its end, or the answer is there and not read."""
        return (
            self.cycle is None
            or self.cycle.response_complete
            or self._waiting in (Waiting.BODY, Waiting.READER)
        )

    def end(self) -> None:
        # The transport is closed at the next turn of the loop; until then who took this one's place
        # was answered with 503, as uvicorn counted both against its limit.
        self.connections.discard(self)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        start = 0
        while start < len(data) and not self.transport.is_closing():
            piece = data[start : start + HEAD_BYTES - self._kept_bytes]
            start += len(piece)
            self._kept_bytes += len(piece)
            super().data_received(piece)
            if self._kept_bytes >= HEAD_BYTES:
                self._refuse_head()
                return
        if self._waiting is Waiting.BODY and self._is_sent_a_file():
            self._disarm()
        # Once for all that has come: a request that comes whole costs no timer.
        self._arm()

    def on_message_begin(self) -> None:
        self._waiting = Waiting.HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._waiting = Waiting.BODY
        self._kept_bytes = 0
        # A gateway that has as much to do as it can is alive and ready.
        self.limit_concurrency = None if self.url in PROBES else self.config.limit_concurrency
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._kept_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._waiting = Waiting.NOTHING
        self._kept_bytes = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._waiting = Waiting.READER
        self._arm()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._waiting = Waiting.NOTHING
        self._arm()

    def timeout_keep_alive_handler(self) -> None:
        """Still sends what is left of an answer, if somebody reads it."""
        super().timeout_keep_alive_handler()
        self._waiting = Waiting.READER
        self._arm()

    def _is_sent_a_file(self) -> bool:
        """And not one that was refused already, which nobody reads."""
        answered = self.cycle is not None and self.cycle.response_complete
        return self.url.startswith(STREAMED.encode()) and not answered

    def _arm(self) -> None:
        if self._waiting is self._armed:
            return
        self._disarm()
        self._armed = self._waiting
        if self._waiting is not Waiting.NOTHING and self.transport is not None:
            seconds = self._patience.for_(self._waiting)
            self._timer = self.loop.call_later(seconds, self._late_in_turn)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed = Waiting.NOTHING

    def _late_in_turn(self) -> None:
        now_s = self.loop.time()
        turn_s = self._open_connections.ends.turn_s(now_s)
        if turn_s <= now_s:
            self._late()
        else:
            self._timer = self.loop.call_at(turn_s, self._late)

    def _late(self) -> None:
        """Says so to who has begun to ask. Browsers open spare connections and ask nothing."""
        asked = self.scope is not None
        answering = self.cycle is not None and self.cycle.response_started
        if self._waiting is Waiting.READER or answering or not asked:
            self.transport.abort()
            return
        self._end_with(LATE)

    def _refuse_head(self) -> None:
        """Says so where no answer is under way that would be taken for this one's."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
            return
        self._end_with(LARGE)

    def _end_with(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()
        self._waiting = Waiting.READER
        self._arm()

"""Requests that fall due evenly, whether or not earlier ones are answered.

Raw sockets and prepared bytes, as the machine is shared with what is measured: a request costs this
process some 40 µs, where asyncio's streams take 300 µs. Connections are kept; one more is opened
where none is free, so that no request waits here for the answer to another. Where this process
comes late to a request that was due, the visitor would not have: that is told apart, and is in no
answer's time.
"""

import gc
import os
import select
import socket
import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from heapq import merge
from math import inf

from bench.report import CannotMeasure
from bench.serving.load import OfferedLoad, Server, length
from cli.stack.ports import LOOPBACK

SENDER_NICE = -10
"""Visitors are on devices of their own, which whatever else runs here does not hold up."""
MOST_CONNECTIONS = 400
"""The gateway has 512 for one network. Requests beyond them wait, and are counted from when they
were due."""
GIVEN_UP_S = 60.0
STARTS_IN_S = 0.1
CUT_OFF = 0
"""Stands for the status of an answer where a connection was ended without one."""
ANY_REFUSAL = (CUT_OFF, *range(400, 600))
RECEIVED_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """`refused`: statuses of 400 and above that are answers, too, and `CUT_OFF`. `source`: the
    address that it is asked from, any of 127.0.0.0/8. Unless connections are `kept`, each request
    is sent on one of its own, as by a visitor who comes.
    """

    requests: Sequence[bytes]
    per_second: float
    refused: Collection[int] = ()
    source: str = LOOPBACK
    kept: bool = True


@dataclass(slots=True)
class _Asked:
    stream: int
    request: bytes
    due_s: float
    begun_s: float = 0.0
    sent_s: float = 0.0


@dataclass(slots=True, eq=False)
class _Connection:
    """`asked` is what it waits for; of the answer `received` is there, which has `expected` bytes
    once its head is."""

    socket: socket.socket
    source: str
    is_open: bool = False
    asked: _Asked | None = None
    received: bytearray = field(default_factory=bytearray)
    expected: int = 0


def steady(server: Server, *streams: Stream, within_s: float = inf) -> list[OfferedLoad]:
    """Sends all of the streams; what is not answered `within_s` is in no load.

    Raises CannotMeasure for an answer that is none, and where answers stop coming.
    """
    with _undisturbed():
        return _Sender(server, streams).run(within_s)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keeps garbage collections and what else runs on this core out of the figures."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, before + SENDER_NICE)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        os.setpriority(os.PRIO_PROCESS, 0, before)


class _Sender:
    def __init__(self, server: Server, streams: Sequence[Stream]) -> None:
        self._server = server
        self._streams = streams
        self._loads = [OfferedLoad() for _ in streams]
        self._epoll = select.epoll()
        self._open: dict[int, _Connection] = {}
        self._idle: defaultdict[str, list[_Connection]] = defaultdict(list)
        self._waiting: deque[_Asked] = deque()
        self._left = sum(len(stream.requests) for stream in streams)
        self._answered_s = 0.0

    def run(self, within_s: float) -> list[OfferedLoad]:
        start_s = time.perf_counter() + STARTS_IN_S
        due = merge(
            *(_due(number, stream, start_s) for number, stream in enumerate(self._streams)),
            key=lambda asked: asked.due_s,
        )
        coming = next(due, None)
        self._answered_s = start_s
        while self._left and (now_s := time.perf_counter()) < start_s + within_s:
            while coming is not None and coming.due_s <= now_s:
                coming.begun_s = now_s
                self._waiting.append(coming)
                coming = next(due, None)
            while self._waiting and (connection := self._free(self._waiting[0])) is not None:
                self._send(connection, self._waiting.popleft())
            if now_s > self._answered_s + GIVEN_UP_S:
                raise CannotMeasure(f"{self._left} requests are not answered")
            due_s = start_s + within_s if coming is None else coming.due_s
            wait_s = min(1.0, max(0.0, due_s - time.perf_counter()))
            for number, _ in self._epoll.poll(wait_s):
                self._advance(self._open[number])
        for connection in list(self._open.values()):
            self._close(connection)
        self._epoll.close()
        for load in self._loads:
            load.elapsed_s = self._answered_s - start_s
        return self._loads

    def _free(self, asked: _Asked) -> _Connection | None:
        stream = self._streams[asked.stream]
        if stream.kept and (idle := self._idle[stream.source]):
            return idle.pop()
        if len(self._open) >= MOST_CONNECTIONS:
            return None
        made = socket.socket()
        # A server that has too many to accept has who comes try again after a second.
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.bind((stream.source, 0))
        made.connect_ex((self._server.host, self._server.port))
        connection = _Connection(made, stream.source)
        self._open[made.fileno()] = connection
        self._epoll.register(made.fileno(), select.EPOLLOUT)
        return connection

    def _advance(self, connection: _Connection) -> None:
        """Reads what came, or sends what waited for the connection."""
        if connection.is_open:
            self._receive(connection)
            return
        if connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._lost(connection)
            return
        connection.is_open = True
        self._epoll.modify(connection.socket, select.EPOLLIN)
        assert connection.asked is not None, "a connection that nobody wants"
        self._send(connection, connection.asked)

    def _send(self, connection: _Connection, asked: _Asked) -> None:
        connection.asked = asked
        asked.sent_s = time.perf_counter()
        if not connection.is_open:
            return
        try:
            connection.socket.sendall(asked.request)
        except OSError:
            self._lost(connection)

    def _receive(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(RECEIVED_BYTES)
        except OSError:
            data = b""
        if not data:
            self._lost(connection)
            return
        connection.received += data
        if not connection.expected:
            head, end, _ = bytes(connection.received).partition(b"\r\n\r\n")
            if not end:
                return
            connection.expected = len(head) + len(end) + length(head)
        if len(connection.received) < connection.expected:
            return
        asked = connection.asked
        assert asked is not None, "an answer to nothing"
        self._answered(asked, int(connection.received[9:12]))
        connection.asked, connection.expected = None, 0
        connection.received.clear()
        if self._streams[asked.stream].kept:
            self._idle[connection.source].append(connection)
        else:
            self._close(connection)

    def _answered(self, asked: _Asked, status: int) -> None:
        now_s = time.perf_counter()
        if status >= 400 and status not in self._streams[asked.stream].refused:
            path = asked.request.split(maxsplit=2)[1].decode()
            raise CannotMeasure(f"{path} answered {status}")
        load = self._loads[asked.stream]
        load.waited_ms.append((now_s - asked.begun_s) * 1e3)
        load.late_ms.append((asked.begun_s - asked.due_s) * 1e3)
        load.sent_ms.append((now_s - asked.sent_s) * 1e3)
        load.statuses.append(status)
        self._left -= 1
        self._answered_s = now_s

    def _lost(self, connection: _Connection) -> None:
        """Asks again, as browsers do, what was asked on a connection that was just being closed."""
        if connection.asked is None:
            self._idle[connection.source].remove(connection)
        elif CUT_OFF in self._streams[connection.asked.stream].refused:
            self._answered(connection.asked, CUT_OFF)
        elif connection.received:
            raise CannotMeasure("an answer was cut off")
        else:
            self._waiting.appendleft(connection.asked)
        self._close(connection)

    def _close(self, connection: _Connection) -> None:
        number = connection.socket.fileno()
        self._epoll.unregister(number)
        del self._open[number]
        connection.socket.close()


def _due(number: int, stream: Stream, start_s: float) -> Iterator[_Asked]:
    for place, request in enumerate(stream.requests):
        yield _Asked(number, request, start_s + place / stream.per_second)

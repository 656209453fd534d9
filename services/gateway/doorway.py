"""Accepts connections as fast as they come, and lets in first whose network has the fewest.

The system hands connections over in the order in which they came, and to let one in, which makes
its transport and its parser, takes twenty times as long as to accept it. So a page waited behind
whatever a few networks had opened before it, and behind what was refused as soon as it was let in.
Now who may not have another connection is turned away unseen, and the others go in the order of how
many their network has.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import cast

import uvicorn

from services.gateway.connections import FEW, Connections
from services.gateway.pace import Pace

ACCEPTED_AT_ONCE = 128
"""To accept so many takes some 3 ms, in which nobody is answered; the others follow at the next
turn."""
LET_IN_AT_ONCE = 8
"""Between two looks at the connections that are open;"""
FEW_LET_IN_AT_ONCE = 64
"""and of networks that have few so many, as there is less behind them."""
BACKLOG = 4096
"""Connections that the system keeps until they are accepted; it may keep fewer."""
REFUSED_AFTER_S = 1.0
"""A connection that is refused is ended so much later: most come again as soon as it is."""
MOST_REFUSED = 1024
"""So many wait for that; others are ended at once."""
AGAIN_S = 0.5
"""Accepting pauses so long where the process or the system has no room for another connection."""
AT_ONCE = struct.pack("ii", 1, 0)
"""This value of SO_LINGER ends a connection as it is closed, and keeps nothing of it."""


@dataclass(slots=True, eq=False, kw_only=True)
class Guest:
    """A connection that was accepted and is not let in yet. `before`: how many others its network
    had then; `number`: of its coming.
    """

    socket: socket.socket
    before: int
    number: int
    is_spare: bool = True

    def __lt__(self, other: "Guest") -> bool:
        return (self.before, self.number) < (other.before, other.number)

    @property
    def has_left(self) -> bool:
        return self.socket.fileno() < 0

    def end(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.socket.close()


class Doorway:
    """Owns the connections that were accepted and not let in. `protocol` is made for each that is.
    Who is counted in `connections` waits for that; who may not be is refused.
    """

    def __init__(self, connections: Connections, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._connections = connections
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._waiting: list[Guest] = []
        """A heap."""
        self._coming = count()
        self._refused: set[Guest] = set()
        self._ends = Pace()
        self._letting_in: set[asyncio.Task[None]] = set()

    def open(self, listening: Sequence[socket.socket]) -> None:
        """The sockets are bound; they stay their owner's."""
        for each in listening:
            each.setblocking(False)
            each.listen(BACKLOG)
            self._listening.append(each)
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Ends those that were not let in."""
        for each in self._listening:
            self._loop.remove_reader(each)
        self._listening.clear()
        for guest in self._waiting:
            self._connections.leave(guest)
        for guest in (*self._waiting, *self._refused):
            guest.end()
        self._waiting.clear()
        self._refused.clear()

    def _accept(self, listening: socket.socket) -> None:
        idle = not self._waiting
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, (peer, *_) = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:
                self._pause(listening)
                break
            guest = Guest(
                socket=accepted, before=self._connections.of(peer), number=next(self._coming)
            )
            if self._connections.enter(peer, guest) is None:
                self._refuse(guest)
            else:
                heappush(self._waiting, guest)
        if idle:
            self._let_in()

    def _refuse(self, guest: Guest) -> None:
        if len(self._refused) >= MOST_REFUSED:
            guest.end()
            return
        self._refused.add(guest)
        # Those that were ended together would come again together.
        due_s = self._loop.time() + REFUSED_AFTER_S
        self._loop.call_at(self._ends.turn_s(due_s), self._end_refused, guest)

    def _end_refused(self, guest: Guest) -> None:
        if guest in self._refused:
            self._refused.remove(guest)
            guest.end()

    def _pause(self, listening: socket.socket) -> None:
        self._loop.remove_reader(listening)
        self._loop.call_later(AGAIN_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self._loop.add_reader(listening, self._accept, listening)

    def _let_in(self) -> None:
        """Some, and more at the next turn."""
        for number in range(FEW_LET_IN_AT_ONCE):
            if not self._waiting:
                return
            if number >= LET_IN_AT_ONCE and self._waiting[0].before >= FEW:
                break
            self._let_one_in(heappop(self._waiting))
        self._loop.call_soon(self._let_in)

    def _let_one_in(self, guest: Guest) -> None:
        self._connections.leave(guest)
        if guest.has_left:
            return
        task = self._loop.create_task(self._connect(guest.socket))
        self._letting_in.add(task)
        task.add_done_callback(self._letting_in.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError:
            accepted.close()


class DoorwayServer(uvicorn.Server):
    """Serves what comes through a doorway."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # It would accept what comes to them itself.
        await super().startup(sockets=[])
        self._doorway = Doorway(self._connections, self._protocol)
        self._doorway.open(sockets or [])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._doorway.close()
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        make = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
        return make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

"""Connections are let in in the order of how many their network has, and refused before anything is
made for them.

Eight networks that opened four thousand had pages of others wait for a second.
"""

import asyncio
import os
import resource
import socket
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field

import pytest
import uvloop

from cli.stack.ports import LOOPBACK
from services.gateway.connections import Connections
from services.gateway.doorway import LET_IN_AT_ONCE, Doorway
from services.gateway.pace import Pace
from services.gateway.proxies import Proxies

MOST = 1024
PER_NETWORK = 100
FLOOD, VISITOR = "127.5.5.1", "127.6.6.1"
WITHIN_S = 20.0


@dataclass
class Visitors:
    """Addresses of those that were let in, in that order. `came`: once they are `expected`."""

    expected: int
    peers: list[str] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, peer: str) -> None:
        self.peers.append(peer)
        if len(self.peers) >= self.expected:
            self.came.set()

    async def arrive(self) -> None:
        async with asyncio.timeout(WITHIN_S):
            await self.came.wait()


class LetIn(asyncio.Protocol):
    """A connection that is open until the other side ends it."""

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._visitors.note(transport.get_extra_info("peername")[0])


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        bound.listen(MOST)
        yield bound


def connect(stack: ExitStack, bound: socket.socket, source: str, count: int) -> list[socket.socket]:
    """They are there for the system, and nobody has accepted them yet."""
    return [
        stack.enter_context(
            closing(socket.create_connection(bound.getsockname(), WITHIN_S, (source, 0)))
        )
        for _ in range(count)
    ]


def run(work: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def let_in(bound: socket.socket, connections: Connections, expected: int) -> list[str]:
    """Opens the door until so many were let in, and a moment longer."""
    visitors = Visitors(expected)

    async def open_door() -> None:
        doorway = Doorway(connections, lambda: LetIn(visitors))
        doorway.open([bound])
        await visitors.arrive()
        await asyncio.sleep(0.1)
        doorway.close()

    run(open_door())
    return visitors.peers


def test_who_has_no_other_connection_is_let_in_before_a_flood_that_came_first() -> None:
    with listening() as bound, ExitStack() as stack:
        connect(stack, bound, FLOOD, PER_NETWORK)
        connect(stack, bound, VISITOR, 1)
        peers = let_in(bound, Connections(PER_NETWORK, MOST, Proxies.of("", 1)), PER_NETWORK + 1)
    assert peers.count(FLOOD) == PER_NETWORK
    assert peers.index(VISITOR) < LET_IN_AT_ONCE


class Held:
    """An open connection that waits for an answer."""

    is_spare = False

    def end(self) -> None:
        raise AssertionError("somebody waits for it")


def hold(connections: Connections, address: str, count: int) -> None:
    for _ in range(count):
        assert connections.enter(address, Held()) is not None


def test_nothing_is_made_for_a_connection_that_is_one_too_many() -> None:
    connections = Connections(PER_NETWORK, MOST, Proxies.of("", 1))
    hold(connections, FLOOD, PER_NETWORK)
    with listening() as bound, ExitStack() as stack:
        refused = connect(stack, bound, FLOOD, PER_NETWORK)
        connect(stack, bound, VISITOR, 1)
        assert let_in(bound, connections, 1) == [VISITOR]
        assert all(map(_is_ended, refused))


def test_who_is_refused_learns_it_later_than_others_are_let_in() -> None:
    """One that learned it at once came again at once, six thousand times a second."""
    connections = Connections(PER_NETWORK, MOST, Proxies.of("", 1))
    hold(connections, FLOOD, PER_NETWORK)
    visitors = Visitors(expected=1)
    with listening() as bound, ExitStack() as stack:
        (refused,) = connect(stack, bound, FLOOD, 1)
        connect(stack, bound, VISITOR, 1)

        async def open_door() -> None:
            doorway = Doorway(connections, lambda: LetIn(visitors))
            doorway.open([bound])
            await visitors.arrive()
            assert not _is_ended(refused)
            with pytest.raises(ConnectionResetError):
                async with asyncio.timeout(WITHIN_S):
                    await asyncio.get_running_loop().sock_recv(refused, 1)
            doorway.close()

        run(open_door())


def test_those_who_are_refused_together_learn_it_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They came again together where they learned it together."""
    monkeypatch.setattr("services.gateway.doorway.REFUSED_AFTER_S", 0.1)
    monkeypatch.setattr("services.gateway.doorway.Pace", lambda: Pace(10 * WITHIN_S))
    connections = Connections(PER_NETWORK, MOST, Proxies.of("", 1))
    hold(connections, FLOOD, PER_NETWORK)
    with listening() as bound, ExitStack() as stack:
        refused = connect(stack, bound, FLOOD, 5)
        for each in refused:
            each.setblocking(False)

        async def open_door() -> None:
            doorway = Doorway(connections, lambda: LetIn(Visitors(expected=1)))
            doorway.open([bound])
            loop = asyncio.get_running_loop()
            ends = [asyncio.create_task(loop.sock_recv(each, 1)) for each in refused]
            await asyncio.wait(ends, timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0.2)
            assert sum(each.done() for each in ends) == 1
            doorway.close()
            ended = await asyncio.gather(*ends, return_exceptions=True)
            assert {type(each) for each in ended} == {ConnectionResetError}

        run(open_door())


def test_who_waits_at_the_door_gives_way_to_networks_that_have_less() -> None:
    connections = Connections(MOST, MOST, Proxies.of("", 1))
    waiting, visitors = 40, 5
    hold(connections, "127.7.7.1", MOST - MOST // 8 - waiting)
    with listening() as bound, ExitStack() as stack:
        connect(stack, bound, FLOOD, waiting)
        for number in range(visitors):
            connect(stack, bound, f"127.6.{number}.1", 1)
        peers = let_in(bound, connections, waiting)
    assert peers.count(FLOOD) == waiting - visitors


def _is_ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_those_who_wait_when_the_door_closes_are_ended_and_counted_no_more() -> None:
    connections = Connections(PER_NETWORK, MOST, Proxies.of("", 1))
    visitors = Visitors(expected=1)
    with listening() as bound, ExitStack() as stack:
        made = connect(stack, bound, FLOOD, PER_NETWORK)

        async def open_and_close() -> None:
            doorway = Doorway(connections, lambda: LetIn(visitors))
            doorway.open([bound])
            await visitors.arrive()
            doorway.close()
            assert sum(map(_is_ended, made)) > PER_NETWORK // 2

        run(open_and_close())
    hold(connections, FLOOD, PER_NETWORK)


@contextmanager
def no_more_files() -> Iterator[None]:
    """This process can open no further file until the block ends."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_who_comes_while_no_file_can_be_opened_is_accepted_later() -> None:
    visitors = Visitors(expected=1)
    connections = Connections(PER_NETWORK, MOST, Proxies.of("", 1))
    with listening() as bound, ExitStack() as stack:
        connect(stack, bound, VISITOR, 1)

        async def open_door() -> None:
            doorway = Doorway(connections, lambda: LetIn(visitors))
            with no_more_files():
                doorway.open([bound])
                await asyncio.sleep(0.1)
                assert not visitors.peers
            await visitors.arrive()
            doorway.close()

        run(open_door())
    assert visitors.peers == [VISITOR]

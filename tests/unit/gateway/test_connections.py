"""Attacks by connections: requests half sent or without end, answers unread, and many connections
of one network.

What they cost before: one socket each, for ever; and a head without end all of the gateway's time.
"""

import asyncio
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from cli.stack.ports import LOOPBACK, free_port
from services.gateway.connections import (
    FEW,
    HEAD_BYTES,
    PROBES,
    Connections,
    Patience,
    PatientProtocol,
)
from services.gateway.doorway import DoorwayServer
from services.gateway.pace import EVERY_S, Pace
from services.gateway.proxies import Proxies

QUICK = Patience(head_s=0.3, body_s=0.3, read_s=0.3)
PER_NETWORK = 5
MOST = 64
LARGE = 1 << 24
WHOLE = b"GET /small HTTP/1.1\r\nHost: zoo\r\n\r\n"
WITHIN_S = 20.0


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body, as the gateway does, then answers; `/large` more than any buffer holds, and
    what is refused without a look at its body; `/later` after a second.
    """
    if scope["type"] != "http":
        return
    more = not scope["path"].endswith("/refused")
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message.get("more_body", False)
    if scope["path"] == "/later":
        await asyncio.sleep(1)
    size = LARGE if scope["path"] == "/large" else 2
    headers = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"x" * size})


@contextmanager
def serving(
    trusted: str = "",
    idle_s: int = 5,
    per_network: int = PER_NETWORK,
    patience: Patience = QUICK,
    ended_every_s: float = EVERY_S,
    app: ASGIApp = answer,
    lifespan: Literal["on", "off"] = "off",
) -> Iterator[int]:
    """The port of a server with the gateway's protocol. `idle_s`: after which a connection that is
    not in use is ended. `ended_every_s`: one of those that are late.
    """
    port = free_port()
    connections = Connections(per_network, MOST, Proxies.of(trusted, 1))
    connections.ends = Pace(ended_every_s)
    protocol = partial(PatientProtocol, open_connections=connections, patience=patience)
    config = uvicorn.Config(
        app,
        host=LOOPBACK,
        port=port,
        http=cast("Any", protocol),
        ws="none",
        lifespan=lifespan,
        timeout_keep_alive=idle_s,
        limit_concurrency=MOST,
    )
    server = DoorwayServer(config, connections)
    bound = config.bind_socket()
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    try:
        while not bound.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            time.sleep(0.01)
        yield port
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as found:
        yield found


def connect(port: int, **options: Any) -> socket.socket:
    made = socket.create_connection((LOOPBACK, port), timeout=WITHIN_S, **options)
    made.settimeout(WITHIN_S)
    return made


def rest(connection: socket.socket) -> bytes:
    """All that still comes, until the other side ends the connection."""
    found = bytearray()
    try:
        while part := connection.recv(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return bytes(found)


def small(connection: socket.socket) -> bytes:
    """One answer of `/small`, whose head and body may come apart."""
    found = bytearray()
    while not found.endswith(b"\r\n\r\nxx") and (part := connection.recv(1 << 16)):
        found += part
    return bytes(found)


@pytest.mark.parametrize(
    "half",
    [
        b"GET /small HTTP/1.1\r\n",
        b"GET /small HTTP/1.1\r\nHost: zoo\r\nX-Slow: ",
        b"POST /small HTTP/1.1\r\nHost: zoo\r\nContent-Length: 100\r\n\r\n{",
        b"POST /small HTTP/1.1\r\nHost: zoo\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        WHOLE + b"GET /small HTTP/1.1\r\nHo",
    ],
    ids=["line", "headers", "body", "chunk", "second"],
)
def test_a_request_that_was_half_sent_is_ended(port: int, half: bytes) -> None:
    with closing(connect(port)) as connection:
        connection.sendall(half)
        rest(connection)


def test_a_request_that_comes_byte_by_byte_has_no_longer(port: int) -> None:
    with closing(connect(port)) as connection:
        deadline_s = time.monotonic() + WITHIN_S
        with suppress(ConnectionError):
            while time.monotonic() < deadline_s:
                connection.sendall(b"X")
                time.sleep(0.02)
        assert time.monotonic() < deadline_s, "the connection was not ended"


def test_who_asked_too_slowly_is_told_and_who_asked_nothing_is_not(port: int) -> None:
    with closing(connect(port)) as slow, closing(connect(port)) as silent:
        slow.sendall(b"GET /small HTTP/1.1\r\nHost: zoo\r\n")
        assert rest(slow).startswith(b"HTTP/1.1 408 ")
        assert rest(silent) == b""


def test_those_who_are_late_together_are_ended_one_after_the_other() -> None:
    """Four thousand at once held the only thread. Who goes on before its turn is answered."""
    with (
        serving(ended_every_s=10 * WITHIN_S) as port,
        closing(connect(port)) as first,
        closing(connect(port)) as second,
    ):
        for each in (first, second):
            each.sendall(b"GET /small HTTP/1.1\r\nHost: zoo\r\n")
        ended, _, _ = select.select([first, second], [], [], WITHIN_S)
        (late,) = ended
        assert rest(late).startswith(b"HTTP/1.1 408 ")
        other = second if late is first else first
        time.sleep(QUICK.head_s)
        other.sendall(b"\r\n")
        assert other.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_a_file_may_take_as_long_as_its_bytes_come(port: int) -> None:
    pieces = 20
    head = b"PUT /v1/blobs/file HTTP/1.1\r\nHost: zoo\r\nContent-Length: %d\r\n\r\n" % pieces
    with closing(connect(port)) as connection:
        connection.sendall(head)
        for _ in range(pieces):
            time.sleep(QUICK.body_s / 10)
            connection.sendall(b"x")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("name", [b"file", b"refused"])
def test_a_file_whose_bytes_stop_or_that_was_refused_is_ended(port: int, name: bytes) -> None:
    head = b"PUT /v1/blobs/%b HTTP/1.1\r\nHost: zoo\r\nContent-Length: 99999\r\n\r\n" % name
    with closing(connect(port)) as connection:
        connection.sendall(head)
        deadline_s = time.monotonic() + WITHIN_S
        with suppress(ConnectionError):
            while name == b"refused" and time.monotonic() < deadline_s:
                connection.sendall(b"x")
                time.sleep(QUICK.body_s / 10)
        rest(connection)
        assert time.monotonic() < deadline_s, "the connection was not ended"


def _sent_without_end(connection: socket.socket, head: bytes, most_bytes: int) -> int:
    """Sends a head and then more of it until the other side ends the connection, or `most_bytes`
    are sent; returns how many were."""
    connection.sendall(head)
    sent = len(head)
    with suppress(ConnectionError):
        while sent < most_bytes:
            sent += connection.send(b"x" * min(1 << 14, most_bytes - sent))
    return sent


HEADS = [
    b"GET /",
    b"GET /small HTTP/1.1\r\nHost: zoo\r\nX-Endless: ",
    b"GET /small HTTP/1.1\r\nHost: zoo\r\n",
]


@pytest.mark.parametrize("head", HEADS, ids=["address", "value", "name"])
@pytest.mark.parametrize("before", [b"", WHOLE], ids=["first", "second"])
def test_a_head_that_is_too_long_is_refused(port: int, head: bytes, before: bytes) -> None:
    with closing(connect(port)) as connection:
        if before:
            connection.sendall(before)
            assert small(connection).startswith(b"HTTP/1.1 200 ")
        assert _sent_without_end(connection, head, HEAD_BYTES) == HEAD_BYTES
        assert rest(connection).startswith(b"HTTP/1.1 431 ")


def test_a_head_that_is_too_long_is_refused_though_all_of_it_came_at_once(port: int) -> None:
    """It is counted before the parser has any of it, and not by what the system hands over."""
    with closing(connect(port)) as connection:
        connection.sendall(b"GET /small HTTP/1.1\r\nX-Long: %b\r\n\r\n" % (b"x" * HEAD_BYTES))
        assert rest(connection).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "head",
    [
        *HEADS,
        b"POST /small HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Trailer: ",
        b"POST /small HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"POST /refused HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ",
    ],
    ids=["address", "value", "name", "trailer", "extension", "answered"],
)
def test_a_head_without_end_is_not_read_on(port: int, head: bytes) -> None:
    """32 MiB of one value took the only thread 3.8 s."""
    with closing(connect(port)) as connection:
        sent = _sent_without_end(connection, head, 3 * LARGE)
        assert sent < 3 * LARGE, "all of it was taken"


def test_a_long_head_and_a_long_body_are_read_however_they_are_cut() -> None:
    with serving(patience=Patience()) as port:
        _send_long_ones(port)


def _send_long_ones(port: int) -> None:
    value = b"x" * (HEAD_BYTES - 200)
    body = b"y" * (8 * HEAD_BYTES)
    head = b"POST /small HTTP/1.1\r\nX-Long: %b\r\nContent-Length: %d\r\n\r\n" % (value, len(body))
    chunked = (
        b"POST /small HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\ny\r\n" * HEAD_BYTES
    )
    request = head + body
    for sent in (request, chunked + b"0\r\n\r\n"):
        for cut in (len(sent), len(head) - 3, 4096):
            with closing(connect(port)) as connection:
                for start in range(0, len(sent), cut):
                    connection.sendall(sent[start : start + cut])
                assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_an_answer_that_nobody_reads_is_given_up(port: int) -> None:
    with closing(connect(port)) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: zoo\r\n\r\n")
        time.sleep(QUICK.read_s * 4)
        assert len(rest(connection)) < LARGE


def test_whoever_asks_in_time_is_answered_however_long_the_connection_lasts(port: int) -> None:
    with closing(connect(port)) as connection:
        for _ in range(4):
            time.sleep(QUICK.head_s / 2)
            connection.sendall(WHOLE)
            assert small(connection).startswith(b"HTTP/1.1 200 ")


def _admitted(port: int, address: str, count: int) -> int:
    """Counts the connections from an address, held at once, that are answered."""
    made = [connect(port, source_address=(address, 0)) for _ in range(count)]
    answered = 0
    for connection in made:
        try:
            connection.sendall(WHOLE)
            answered += connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        except OSError:
            continue
    for connection in made:
        connection.close()
    return answered


def test_a_network_has_so_many_connections_and_another_one_as_many() -> None:
    with serving(patience=Patience()) as port:
        with closing(connect(port, source_address=("127.5.5.9", 0))) as held:
            held.sendall(WHOLE)
            assert held.recv(1 << 16)
            assert _admitted(port, "127.5.5.1", 3 * PER_NETWORK) == PER_NETWORK - 1
            assert _admitted(port, "127.6.6.1", 3 * PER_NETWORK) == PER_NETWORK
        deadline_s = time.monotonic() + WITHIN_S
        while _admitted(port, "127.5.5.1", 1) == 0:
            assert time.monotonic() < deadline_s, "what was closed is not counted any more"


@pytest.mark.parametrize(
    "held",
    [b"", b"GET /small HTTP/1.1\r\nHo", b"POST /small HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"],
    ids=["nothing", "head", "body"],
)
def test_networks_that_hold_all_connections_leave_room_for_others(held: bytes) -> None:
    """Eight that held 512 each had 98 of 100 page loads answered with 503."""
    with (
        serving(per_network=2 * FEW, patience=Patience()) as port,
        ExitStack() as opened,
    ):
        for number in range(MOST + FEW):
            address = f"127.5.{number % 5}.1"
            attacker = opened.enter_context(closing(connect(port, source_address=(address, 0))))
            with suppress(ConnectionError):
                attacker.sendall(held)
        assert [_admitted(port, f"127.6.{number}.1", 2) for number in range(40)] == [2] * 40


def test_what_is_ended_makes_room_at_once() -> None:
    """Its transport is closed a turn of the loop later. Who had taken its place was answered with
    503 till then, as uvicorn counted both.
    """

    async def end_one() -> None:
        config = uvicorn.Config(answer, lifespan="off", limit_concurrency=MOST)
        state = ServerState()
        made = partial(
            PatientProtocol,
            config=config,
            server_state=state,
            app_state={},
            open_connections=Connections(PER_NETWORK, MOST, Proxies.of("", 1)),
            patience=QUICK,
        )
        with (
            closing(socket.create_server((LOOPBACK, 0))) as listening,
            closing(socket.create_connection(listening.getsockname(), WITHIN_S)) as connection,
        ):
            accepted, _ = listening.accept()
            loop = asyncio.get_running_loop()
            _, held = await loop.connect_accepted_socket(made, accepted)
            assert state.connections == {held}
            held.end()
            assert state.connections == set()
            assert await loop.run_in_executor(None, rest, connection) == b""

    asyncio.run(end_one())


def test_whoever_waits_for_an_answer_keeps_its_connection() -> None:
    with serving(per_network=MOST, patience=Patience()) as port, ExitStack() as opened:
        waiting = [
            opened.enter_context(closing(connect(port, source_address=("127.5.5.1", 0))))
            for _ in range(MOST * 7 // 8)
        ]
        for each in waiting:
            each.sendall(b"GET /later HTTP/1.1\r\nHost: zoo\r\n\r\n")
        time.sleep(0.2)
        assert _admitted(port, "127.6.6.1", 4) == 4, "the reserve is for them"
        assert {each.recv(1 << 16)[:13] for each in waiting} == {b"HTTP/1.1 200 "}


@pytest.mark.parametrize("probe", PROBES)
def test_a_gateway_that_has_all_connections_it_may_says_that_it_is_ready(probe: bytes) -> None:
    """A proxy may hold them all. What else is asked is answered with 503 then, and a gateway that
    is not ready would get nothing more to do.
    """
    with serving(trusted="127.7.0.0/16", patience=Patience()) as port, ExitStack() as opened:
        statuses = []
        for _ in range(MOST):
            held = opened.enter_context(closing(connect(port, source_address=("127.7.7.1", 0))))
            held.sendall(WHOLE)
            statuses.append(held.recv(1 << 16)[:13])
        assert statuses == [b"HTTP/1.1 200 "] * (MOST - 1) + [b"HTTP/1.1 503 "]
        last = opened.enter_context(closing(connect(port, source_address=("127.7.7.1", 0))))
        last.sendall(WHOLE.replace(b"/small", probe))
        assert small(last).startswith(b"HTTP/1.1 200 ")
        last.sendall(WHOLE)
        assert rest(last).startswith(b"HTTP/1.1 503 ")


@dataclass(eq=False)
class Spare:
    """A connection that asks nothing."""

    ended: bool = False
    is_spare: bool = True

    def end(self) -> None:
        self.ended = True


def _entered(connections: Connections, addresses: Iterable[str]) -> list[Spare]:
    made = []
    for address in addresses:
        spare = Spare()
        if connections.enter(address, spare) is not None:
            made.append(spare)
    return made


def test_networks_of_one_provider_of_ipv6_have_one_share_of_what_is_left() -> None:
    connections = Connections(PER_NETWORK, MOST, Proxies.of("", 1))
    attackers = _entered(connections, (f"2001:db8:{number:x}::1" for number in range(2 * MOST)))
    assert len(attackers) == MOST * 7 // 8
    others = _entered(connections, (f"2001:{number:x}::1" for number in range(0x900, 0x920)))
    assert len(others) == 0x20
    assert [each.ended for each in attackers[:0x20]] == [True] * 0x20
    assert not any(each.ended for each in (*attackers[0x20:], *others))


def test_what_left_is_counted_once_and_what_never_entered_not_at_all() -> None:
    connections = Connections(1, MOST, Proxies.of("", 1))
    first, second = Spare(), Spare()
    assert connections.enter("127.0.0.1", first) is not None
    assert connections.enter("127.0.0.2", second) is None
    for each in (second, first, first):
        connections.leave(each)
    assert connections.enter("127.0.0.2", second) is not None


def test_a_proxy_has_the_connections_of_all_its_visitors() -> None:
    with serving(trusted="127.7.0.0/16", patience=Patience()) as port:
        assert _admitted(port, "127.7.7.1", 3 * PER_NETWORK) == 3 * PER_NETWORK


def test_a_proxy_ends_its_idle_connections_itself() -> None:
    with (
        serving(trusted="127.7.0.0/16", idle_s=0) as port,
        closing(connect(port, source_address=("127.5.5.1", 0))) as visitor,
        closing(connect(port, source_address=("127.7.7.1", 0))) as proxy,
    ):
        for each in (visitor, proxy):
            each.sendall(WHOLE)
        assert rest(visitor).startswith(b"HTTP/1.1 200 ")
        for _ in range(2):
            assert small(proxy).startswith(b"HTTP/1.1 200 ")
            time.sleep(QUICK.head_s / 2)
            proxy.sendall(WHOLE)

"""Strangers keep a gateway from serving pages; each function here is one way to do so.

Each takes as long as it is told, in seconds, in a process of its own, and comes from networks that
no page is of. It returns what it sent and how that was answered.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing, suppress
from itertools import count, cycle, islice

from bench.report import CannotMeasure
from bench.serving.load import OfferedLoad, Server
from bench.serving.manifest import manifest_path
from bench.serving.open_loop import ANY_REFUSAL, CUT_OFF, Stream, steady
from bench.serving.reports import right_report
from cli.simulate.members import session_of, visitor
from cli.simulate.stranger import stranger
from kernelzoo.domain.workload import Workload
from services.gateway.wire.leases import BallotLineWire, BallotRequest

PER_SECOND = 1000
"""Requests of those that send whole ones."""
WORKLOAD = "matmul:f32:m16k16n16"
"""Manifests of it are asked for; the zoo has it."""
FIRST_INVENTED = 1 << 16
"""Device ids from here on are nobody's."""
HEADS_AT_ONCE = 64
HEAD = b"GET /healthz HTTP/1.1\r\nHost: zoo\r\nX-Endless: "
HEAD_PART = b"x" * (1 << 14)
HELD = 4096
"""Connections, as many as a gateway has;"""
NETWORKS = 8
"""of so many networks, each of which may have 512."""
HELD_AGAIN_S = 1.0
"""A connection that is ended sooner is not tried again before."""
REPEATERS = 16
LEASE_WAIT_S = 20.0

Attack = Callable[[Server, float], OfferedLoad]


def misses(server: Server, seconds: float) -> OfferedLoad:
    """Asks for manifests of device classes that nobody is of: each has to be built."""
    paths = (invented_manifest(number) for number in count(FIRST_INVENTED))
    requests = [server.get(path) for path in islice(paths, int(PER_SECOND * seconds) + 1)]
    stream = Stream(
        requests=requests, per_second=PER_SECOND, refused=ANY_REFUSAL, source=_address(0)
    )
    return steady(server, stream, within_s=seconds)[0]


def invented_manifest(number: int) -> str:
    return manifest_path(WORKLOAD, f"{number:016x}:r1-0:wasm+simd128")


def heads(server: Server, seconds: float) -> OfferedLoad:
    """Sends headers without end on a few connections at a time, as fast as they are read."""

    async def send(connection: socket.socket) -> int:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(connection, HEAD)
        while True:
            await loop.sock_sendall(connection, HEAD_PART)

    return asyncio.run(_again_and_again(send, server, HEADS_AT_ONCE, seconds))


def held(server: Server, seconds: float) -> OfferedLoad:
    """Holds connections on which half a request was sent; what is waited for is their end."""

    async def hold(connection: socket.socket) -> int:
        loop = asyncio.get_running_loop()
        begun_s = time.perf_counter()
        await loop.sock_sendall(connection, HEAD)
        answer = await loop.sock_recv(connection, 1 << 12)
        await asyncio.sleep(max(0.0, begun_s + HELD_AGAIN_S - time.perf_counter()))
        return int(answer[9:12] or CUT_OFF)

    return asyncio.run(_again_and_again(hold, server, HELD, seconds))


async def _again_and_again(
    attempt: Callable[[socket.socket], Awaitable[int]],
    server: Server,
    at_once: int,
    seconds: float,
) -> OfferedLoad:
    """Each attempt has a connection of its own, and a status of what was answered."""
    load, start_s = OfferedLoad(), time.perf_counter()
    address = server.host, server.port

    async def keep_on(source: str) -> None:
        while True:
            begun_s, status = time.perf_counter(), CUT_OFF
            with closing(socket.socket()) as connection, suppress(OSError):
                connection.setblocking(False)
                connection.bind((source, 0))
                try:
                    await asyncio.get_running_loop().sock_connect(connection, address)
                    status = await attempt(connection)
                finally:
                    load.waited_ms.append((time.perf_counter() - begun_s) * 1e3)
                    load.sent_ms.append(load.waited_ms[-1])
                    load.late_ms.append(0.0)
                    load.statuses.append(status)

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for number in range(at_once):
                group.create_task(keep_on(_address(number % NETWORKS)))
    load.elapsed_s = time.perf_counter() - start_s
    return load


def repeated(
    requests: Sequence[tuple[bytes, bytes]], server: Server, seconds: float
) -> OfferedLoad:
    """Sends reports and ballots that the gateway has already, each pair from the network that was
    the first to send it."""
    each_per_second = PER_SECOND / len(requests)
    streams = [
        Stream(
            requests=list(islice(cycle(pair), int(each_per_second * seconds) + 1)),
            per_second=each_per_second,
            refused=ANY_REFUSAL,
            source=_address(number),
        )
        for number, pair in enumerate(requests)
    ]
    return joined(*steady(server, *streams, within_s=seconds))


async def reported_once(server: Server) -> list[tuple[bytes, bytes]]:
    """A report and a ballot of each repeater, as it sent them."""
    url = f"http://{server.host}:{server.port}"
    sent = []
    async with AsyncExitStack() as stack:
        for number in range(REPEATERS):
            session = session_of(visitor(f"bench/{number}"))
            one = await stack.enter_async_context(stranger(url, _address(number), session))
            lease = None if one is None else await one.lease(LEASE_WAIT_S)
            if one is None or lease is None or not lease.candidates:
                raise CannotMeasure("one who repeats was turned away, or lent nothing")
            lent = [kernel.candidate for kernel in lease.candidates]
            report = right_report(Workload.parse(lease.workload), lease.seed, lease.nonce, lent)
            lines = [BallotLineWire(candidate=each, relative_time=1.0) for each in lent[:5]]
            ballot = BallotRequest(workload=lease.workload, lines=lines)
            await one.report(lease, report)
            await one.vote(ballot)
            path, token = f"/v1/leases/{lease.lease}/measurements", f"Bearer {one.token}"
            sent.append(
                (
                    server.post(path, report.model_dump_json().encode(), Authorization=token),
                    server.put(
                        "/v1/ballots", ballot.model_dump_json().encode(), Authorization=token
                    ),
                )
            )
    return sent


def joined(*loads: OfferedLoad) -> OfferedLoad:
    """Makes one load of those that were offered at the same time."""
    whole = OfferedLoad(elapsed_s=max(load.elapsed_s for load in loads))
    for load in loads:
        whole.waited_ms += load.waited_ms
        whole.sent_ms += load.sent_ms
        whole.late_ms += load.late_ms
        whole.statuses += load.statuses
    return whole


def _address(number: int) -> str:
    """Each of another network."""
    return f"127.200.{number}.1"

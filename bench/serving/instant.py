"""A server that answers each request at once and does nothing for it.

What is seen beside requests to it is what those who send them cost, and the system that carries
them: no gateway can be seen with less.
"""

import asyncio
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

from bench.serving.load import Server, length
from cli.stack.ports import LOOPBACK

ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}"


@contextmanager
def instant_server(core: int) -> Iterator[Server]:
    """Runs it on a core of its own or of others, until the block ends."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(core, sending), daemon=True)
    process.start()
    try:
        yield Server(host=LOOPBACK, port=receiving.recv())
    finally:
        process.terminate()
        process.join()


def _serve(core: int, told: Connection) -> None:
    os.sched_setaffinity(0, [core])
    with suppress(KeyboardInterrupt):
        asyncio.run(_answer_all(told))


async def _answer_all(told: Connection) -> None:
    server = await asyncio.get_running_loop().create_server(_Instant, LOOPBACK, 0)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


class _Instant(asyncio.Protocol):
    """Answers each whole request of a connection."""

    def __init__(self) -> None:
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a connection is one"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (whole := _length(self._received)) is not None:
            del self._received[:whole]
            self._transport.write(ANSWER)


def _length(received: bytearray) -> int | None:
    """Bytes of the first request; None where it is not there yet."""
    head, end, body = bytes(received).partition(b"\r\n\r\n")
    if not end or len(body) < (expected := length(head)):
        return None
    return len(head) + len(end) + expected

"""A simulated visitor is as patient with the gateway as an agent is."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from cli.simulate.stranger import TRIES, Stranger
from kernelzoo.errors import StackError
from kernelzoo.serving import serving

AT_ONCE = struct.pack("ii", 1, 0)
"""Bytes that are delivered in neither direction are lost, as where a request meets the end."""


@contextmanager
def answering(statuses: Iterator[int]) -> Iterator[str]:
    """A gateway that answers with one after the other, and ends the connection where it is 0."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if (status := next(statuses)) == 0:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def test_it_asks_for_a_lease_again_where_too_many_of_its_requests_wait() -> None:
    _lease(iter([429, 429, 204]))


def test_it_asks_again_where_its_connection_ends_just_as_it_asks() -> None:
    _lease(iter([429, 0, 204]))


def test_it_comes_back_where_the_database_took_too_long_and_not_for_ever() -> None:
    _lease(iter([503, 503, 204]))
    with pytest.raises(StackError, match="503"):
        _lease(iter([503] * TRIES))


def _lease(statuses: Iterator[int]) -> None:
    async def lease(url: str) -> None:
        async with httpx2.AsyncClient(base_url=url) as http:
            one = Stranger(http=http, device_class="", identity="", kept="", token="t")
            assert await one.lease(0) is None

    with answering(statuses) as url:
        asyncio.run(lease(url))
    assert list(statuses) == []

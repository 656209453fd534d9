"""A small HTTP load: requests over kept connections, timed in this process, as fast as it goes."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Self
from urllib.parse import urlsplit

from bench.report import CannotMeasure

CONNECTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    host: str
    port: int

    @classmethod
    def at(cls, url: str) -> Self:
        address = urlsplit(url)
        return cls(host=str(address.hostname), port=int(address.port or 80))

    def get(self, path: str, **headers: str) -> bytes:
        return self._request("GET", path, headers, b"")

    def post(self, path: str, body: bytes, **headers: str) -> bytes:
        return self._sent("POST", path, headers, body)

    def put(self, path: str, body: bytes, **headers: str) -> bytes:
        return self._sent("PUT", path, headers, body)

    def _sent(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        described = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        return self._request(method, path, described | headers, body)

    def _request(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        told = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items())
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n{told}\r\n"
        return head.encode() + body


@dataclass(slots=True)
class OfferedLoad:
    """`waited_ms`: from when a request was to be sent to its answer, so waiting for a connection
    counts; `sent_ms`: from when it was sent. `late_ms`: how late this process came to a request
    that was due, which is in neither. `statuses`: of the answers, in the same order.
    """

    waited_ms: list[float] = field(default_factory=list)
    sent_ms: list[float] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    elapsed_s: float = 0.0

    @property
    def per_second(self) -> float:
        return len(self.sent_ms) / self.elapsed_s


@dataclass(frozen=True, slots=True)
class HttpConnection:
    """Kept open. One request at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def to(cls, server: Server) -> Self:
        return cls(*await asyncio.open_connection(server.host, server.port))

    async def ask(self, request: bytes) -> int:
        """The answer's status; its body is read and dropped."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        await self.reader.readexactly(length(head))
        return int(head.split(b" ", 2)[1])

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


def within(requests: Iterable[bytes], seconds: float) -> Iterator[bytes]:
    """Yields requests until so many seconds from now."""
    until_s = time.monotonic() + seconds
    return takewhile(lambda _: time.monotonic() < until_s, requests)


async def flat_out(server: Server, requests: Iterator[bytes]) -> OfferedLoad:
    """Every connection asks again as soon as it is answered."""
    load = OfferedLoad()
    start_s = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(_connection(server, requests, load))
    load.elapsed_s = time.perf_counter() - start_s
    return load


async def _connection(server: Server, requests: Iterator[bytes], load: OfferedLoad) -> None:
    connection = await HttpConnection.to(server)
    for request in requests:
        sent_s = time.perf_counter()
        status = await connection.ask(request)
        took_ms = (time.perf_counter() - sent_s) * 1e3
        if status >= 400:
            raise CannotMeasure(f"{request.split(maxsplit=2)[1].decode()} answered {status}")
        load.waited_ms.append(took_ms)
        load.sent_ms.append(took_ms)
        load.statuses.append(status)
    await connection.close()


def length(head: bytes) -> int:
    """0 where an answer has no body, as 304 has none."""
    name = b"content-length:"
    lines = head.lower().split(b"\r\n")
    return next((int(line[len(name) :]) for line in lines if line.startswith(name)), 0)

"""A small HTTP load: one GET again and again over kept connections, timed in this process."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.report import CannotMeasure

CONNECTIONS = 16
OK = b"HTTP/1.1 200"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    host: str
    port: int
    path: str

    @property
    def request(self) -> bytes:
        return f"GET {self.path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n\r\n".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`due_ms`: from when a request was due to its answer, so waiting for a connection counts;
    `sent_ms`: from when it was sent."""

    due_ms: tuple[float, ...]
    sent_ms: tuple[float, ...]
    elapsed_s: float

    @property
    def per_second(self) -> float:
        return len(self.sent_ms) / self.elapsed_s


Ask = Callable[[], Awaitable[None]]
Clock = Iterator[float]


async def steady(target: Target, per_second: int, seconds: float) -> Load:
    """Requests fall due evenly, whether or not earlier ones are answered."""
    start_s = time.perf_counter() + 0.1
    return await _run(target, (start_s + i / per_second for i in range(int(per_second * seconds))))


async def flat_out(target: Target, requests: int) -> Load:
    """Every connection asks again as soon as it is answered."""
    return await _run(target, (0.0 for _ in range(requests)))


async def _run(target: Target, due: Clock) -> Load:
    due_ms: list[float] = []
    sent_ms: list[float] = []
    start_s = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(_connection(target, due, due_ms, sent_ms))
    elapsed_s = time.perf_counter() - start_s
    return Load(due_ms=tuple(due_ms), sent_ms=tuple(sent_ms), elapsed_s=elapsed_s)


async def _connection(
    target: Target, due: Clock, due_ms: list[float], sent_ms: list[float]
) -> None:
    async with _asking(target) as ask:
        for due_s in due:
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            sent_s = time.perf_counter()
            await ask()
            answered_s = time.perf_counter()
            due_ms.append((answered_s - (due_s or sent_s)) * 1e3)
            sent_ms.append((answered_s - sent_s) * 1e3)


@asynccontextmanager
async def _asking(target: Target) -> AsyncIterator[Ask]:
    reader, writer = await asyncio.open_connection(target.host, target.port)

    async def ask() -> None:
        writer.write(target.request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(OK):
            raise CannotMeasure(f"{target.path} answered {head[: len(OK)].decode()}")
        await reader.readexactly(_length(head))

    yield ask
    writer.close()
    await writer.wait_closed()


def _length(head: bytes) -> int:
    name = b"content-length:"
    lines = head.lower().split(b"\r\n")
    return next(int(line[len(name) :]) for line in lines if line.startswith(name))

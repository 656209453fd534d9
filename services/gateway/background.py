"""Work that goes on while the gateway answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Inside the block; then it is cancelled."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def repeated(work: Callable[[], Awaitable[None]], every_s: float) -> AsyncIterator[None]:
    """Inside the block again and again, and a last time behind it."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(every_s)
            await work()

    try:
        async with running(repeat()):
            yield
    finally:
        await work()

"""Tells the aggregator which leases wait for a verdict, several in one message.

A message takes longer to send than a report to store, so the first goes out at once and those that
come within `PAUSE_S` share the next. What is lost in a crash is found by `requeue`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi.concurrency import run_in_threadpool

from kernelzoo import jobs
from services.gateway.background import running

PAUSE_S = 0.05
AT_ONCE = 32
"""Leases in a message. To verify one takes milliseconds."""


class Notifier:
    """Owns the leases that no message names yet. Use `sending` to have them sent."""

    def __init__(self, send: jobs.Sender) -> None:
        self._send = send
        self._waiting: list[int] = []
        self._notified = asyncio.Event()

    def notify(self, lease_id: int) -> None:
        """Something was reported on this lease, and is committed."""
        self._waiting.append(lease_id)
        self._notified.set()

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        try:
            async with running(self._run()):
                yield
        finally:
            await self._send_waiting()

    async def _run(self) -> None:
        while True:
            await self._notified.wait()
            await self._send_waiting()
            await asyncio.sleep(PAUSE_S)

    async def _send_waiting(self) -> None:
        self._notified.clear()
        while self._waiting:
            named, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            # Sending may block for seconds where the broker is away.
            await run_in_threadpool(self._send, jobs.verify_leases(tuple(dict.fromkeys(named))))

"""Answers that cost more than they change: made once for all who ask within a few seconds."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

MOST = 256
"""Answers kept. Past it all are forgotten: who asks for what nobody else does gains nothing."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    until_s: float
    answer: asyncio.Future[T]


class Remembered(Generic[T]):
    """`for_s`: how long an answer is given again, counted from when it was asked for."""

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        self._kept: dict[Hashable, _Kept[T]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Whoever asks while it is made waits for the same answer. A failure is not kept."""
        kept = self._kept.get(key)
        if kept is None or (kept.answer.done() and kept.until_s <= time.monotonic()):
            kept = self._make(key, make)
        # One who leaves must not take the answer from the others.
        return await asyncio.shield(kept.answer)

    def _make(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> _Kept[T]:
        if len(self._kept) >= MOST:
            self._kept.clear()
        kept = _Kept(time.monotonic() + self._for_s, asyncio.ensure_future(make()))
        self._kept[key] = kept

        def forget_failure(made: asyncio.Future[T]) -> None:
            if (made.cancelled() or made.exception()) and self._kept.get(key) is kept:
                del self._kept[key]

        kept.answer.add_done_callback(forget_failure)
        return kept

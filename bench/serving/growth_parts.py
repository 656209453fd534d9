"""Times parts on zoos of several sizes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from kernelzoo.errors import KernelZooError


class NotAnswered(KernelZooError):
    """It was refused, or took longer than it may. That is a result, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`amount`: of what was answered or done, as its part counts it. `pages` of 8 kB of tables and
    indexes were read for it, from memory or not; `None` where nobody counts them."""

    elapsed_ms: float
    amount: float
    pages: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that a zoo is asked: `ask(n)` for the n-th time returns how much it answered, in
    bytes or rows, or did. `bound_ms`: it should take no more on any zoo. `pages` tells how many
    pages whoever answers has read so far. Raises NotAnswered where there is no answer.
    """

    what: str
    kind: str
    bound_ms: float
    ask: Callable[[int], float]
    pages: Callable[[], float] | None = None

    def asked(self, number: int) -> Asked:
        before = self.pages() if self.pages else 0.0
        start_s = time.perf_counter()
        amount = self.ask(number)
        elapsed_ms = (time.perf_counter() - start_s) * 1e3
        pages = self.pages() - before if self.pages else None
        return Asked(elapsed_ms=elapsed_ms, amount=amount, pages=pages)

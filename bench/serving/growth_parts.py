"""Times parts on zoos of several sizes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from kernelzoo.errors import KernelZooError


class NotAnswered(KernelZooError):
    """It was refused, or took longer than it may. That is a result, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`amount`: of what was answered or done, as its part counts it."""

    elapsed_ms: float
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that a zoo is asked: `ask(n)` for the n-th time returns how much it answered, in
    bytes or rows, or did. `bound_ms`: it should take no more on any zoo. Raises NotAnswered where
    there is no answer.
    """

    what: str
    kind: str
    bound_ms: float
    ask: Callable[[int], float]

    def asked(self, number: int) -> Asked:
        start_s = time.perf_counter()
        amount = self.ask(number)
        return Asked(elapsed_ms=(time.perf_counter() - start_s) * 1e3, amount=amount)

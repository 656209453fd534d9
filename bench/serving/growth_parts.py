"""Times parts on zoos of several sizes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from kernelzoo.errors import KernelZooError


class NotAnswered(KernelZooError):
    """It was refused, or took longer than it may. That is a result, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that a zoo is asked: `ask(n)` for the n-th time. `bound_ms`: it should take no more
    on any zoo. Raises NotAnswered where there is no answer.
    """

    what: str
    kind: str
    bound_ms: float
    ask: Callable[[int], None]

    def elapsed_ms(self, number: int) -> float:
        start_s = time.perf_counter()
        self.ask(number)
        return (time.perf_counter() - start_s) * 1e3

"""How busy the machine was with what is not ours, as that disturbs every figure."""

import time
from dataclasses import dataclass
from typing import Self

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Seconds of processor time so far: of everything, and of this process and those below it."""

    at_s: float
    all_s: float
    own_s: float

    @classmethod
    def now(cls) -> Self:
        times = psutil.cpu_times()
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        return cls(at_s=time.monotonic(), all_s=sum(times) - idle_s, own_s=_own_s())

    def others_since(self, before: Self) -> float:
        """Cores that others kept busy. A process of ours that ended in between is lost, so a
        browser should outlive both."""
        others_s = (self.all_s - before.all_s) - (self.own_s - before.own_s)
        return max(0.0, others_s) / (self.at_s - before.at_s)


def _own_s() -> float:
    own = psutil.Process()
    seconds = 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        seconds += times.user + times.system
    return seconds

"""Measures how busy the machine was with what is not ours, as that disturbs every figure."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import psutil

Owner = tuple[int, float]
"""A process by its id and the time at which it started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUsage:
    """Seconds of processor time so far: of everything, and of this process and each below it."""

    at_s: float
    all_s: float
    own_s: Mapping[Owner, float]

    @classmethod
    def now(cls) -> Self:
        times = psutil.cpu_times()
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        return cls(at_s=time.monotonic(), all_s=sum(times) - idle_s, own_s=_own_s())

    def others_since(self, before: Self) -> float:
        """Cores that others kept busy; what our processes did that have ended counts as theirs."""
        own_s = sum(used - before.own_s.get(owner, 0.0) for owner, used in self.own_s.items())
        return max(0.0, self.all_s - before.all_s - own_s) / (self.at_s - before.at_s)


def _own_s() -> dict[Owner, float]:
    own = psutil.Process()
    seconds: dict[Owner, float] = {}
    for process in (own, *own.children(recursive=True)):
        try:
            with process.oneshot():
                times = process.cpu_times()
                seconds[process.pid, process.create_time()] = times.user + times.system
        except psutil.Error:
            continue
    return seconds

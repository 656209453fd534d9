"""Resident memory of processes over a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from threading import Event, Thread

import psutil

SAMPLE_S = 0.5
SETTLING = 0.1
"""Share of a run in which caches fill."""


@dataclass(slots=True)
class Resident:
    """Bytes at even intervals, from the start on."""

    samples: list[int] = field(default_factory=list)

    @property
    def start_mib(self) -> float:
        """Memory when the caches were full: the median of the second tenth."""
        tenth = max(1, round(SETTLING * len(self.samples)))
        return median(self.samples[tenth : 2 * tenth] or self.samples) / 2**20

    @property
    def end_mib(self) -> float:
        return median(self.samples[-max(1, round(SETTLING * len(self.samples))) :]) / 2**20

    @property
    def growth(self) -> float:
        return self.end_mib / self.start_mib - 1


@contextmanager
def watched(processes: tuple[psutil.Process, ...]) -> Iterator[Resident]:
    """Watches the memory of all of them together for as long as the block lasts."""
    resident, ended = Resident(), Event()

    def sample() -> None:
        while True:
            resident.samples.append(sum(process.memory_info().rss for process in processes))
            if ended.wait(SAMPLE_S):
                return

    sampling = Thread(target=sample, daemon=True)
    sampling.start()
    try:
        yield resident
    finally:
        ended.set()
        sampling.join()

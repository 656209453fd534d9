"""Remembers when the rows that manifests are made from last changed, by what changed.

A class that has voted on a workload is served its own entry, which changes with its own votes. One
that has not is served what others found, which changes with everybody's.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from kernelzoo.store.notifications import CANDIDATES, Change

MOST = 50_000
"""Workloads and entries of which it is remembered. Past it everything counts as changed now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """A manifest is made from `entries` of its own classes (workload and class), and from `offers`
    of others for workloads on which these have not voted.
    """

    entries: tuple[tuple[str, str], ...] = ()
    offers: tuple[str, ...] = ()


class Changes:
    """Counted in generations, which grow."""

    def __init__(self) -> None:
        self._everything = 0
        self._last: dict[Hashable, int] = {}

    def note(self, channel: str, change: Change, generation: int) -> None:
        workload, device_class = change.workload_key, change.device_class
        if not workload or len(self._last) >= MOST:
            self.note_everything(generation)
        elif channel == CANDIDATES:
            self._last[workload] = generation
        else:
            self._last[workload, ""] = generation
            if device_class:
                self._last[workload, device_class] = generation

    def note_everything(self, generation: int) -> None:
        self._everything = generation
        self._last.clear()

    def since(self, generation: int, sources: Sources) -> bool:
        """Says whether anything of it changed after this generation."""
        return self.other_than_offers(generation, sources) or any(
            self._last.get((workload, ""), 0) > generation for workload in sources.offers
        )

    def other_than_offers(self, generation: int, sources: Sources) -> bool:
        """Says whether more than the offers of others changed."""
        last = self._last.get
        return (
            self._everything > generation
            or any(
                last(workload, 0) > generation or last((workload, device_class), 0) > generation
                for workload, device_class in sources.entries
            )
            or any(last(workload, 0) > generation for workload in sources.offers)
        )

"""One fleet at a time: fleets of a host are processes of their own, and take turns by files."""

import asyncio
import fcntl
from contextlib import ExitStack
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Self

LOOK_S = 0.005
"""How often a fleet looks whether another has ended its turn: as little as passing one on takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnstile:
    """Who holds `next` is the next to hold `turn`: a fleet with many agents cannot take the turn
    from its own hand again while another waits. The system frees both when a fleet dies.
    """

    next: TextIOWrapper
    turn: TextIOWrapper

    @classmethod
    def open(cls, directory: Path, exits: ExitStack) -> Self:
        """The files are shared; each fleet opens them for itself."""
        names = ("next.lock", "turn.lock")
        first, second = (exits.enter_context((directory / name).open("a")) for name in names)
        return cls(next=first, turn=second)

    async def enter(self) -> None:
        """Returns once this fleet alone may time. Cancelled, it is as if it had not been called."""
        try:
            await _locked(self.next)
            await _locked(self.turn)
        finally:
            fcntl.flock(self.next, fcntl.LOCK_UN)

    def leave(self) -> None:
        fcntl.flock(self.turn, fcntl.LOCK_UN)


async def _locked(file: TextIOWrapper) -> None:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(LOOK_S)
        else:
            return

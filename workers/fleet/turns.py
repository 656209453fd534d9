"""The turn to time: agents of one host hold it one at a time, in the order of asking.

Fleets of one host are processes of their own, and take turns by files.
"""

import asyncio
import fcntl
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnstile:
    """Two locks pass the turn on: the holder of `next` is the next to hold `turn`. A fleet with
    many agents cannot take the turn from its own hand again while another waits. The system frees
    both when a fleet dies.
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


@dataclass(slots=True, kw_only=True)
class TimingTurn:
    """Belongs to one event loop. An agent that is gone must `forfeit`.

    An agent keeps the turn for `limit_s` at most: a page that hangs must not stop the others.
    """

    limit_s: float = 60.0
    others: Turnstile | None = None
    """Further fleets of this host take their turns here; None where there can be none."""
    holder: str | None = None
    _waiting: deque[tuple[str, asyncio.Future[None]]] = field(default_factory=deque)
    _alarm: asyncio.TimerHandle | None = None

    async def acquire(self, agent: str) -> None:
        """Returns once the agent holds the turn. Raises CancelledError when it forfeits."""
        if self.holder == agent:
            return
        if self.holder is None:
            self._give(agent)
        else:
            granted = asyncio.get_running_loop().create_future()
            self._waiting.append((agent, granted))
            await granted
        if self.others is not None:
            await self.others.enter()
            if self.holder != agent:
                # Its limit was over before the turns of other fleets were.
                if self.holder is None:
                    self.others.leave()
                await self.acquire(agent)

    def release(self, agent: str) -> None:
        """Nothing happens when the agent does not hold the turn."""
        if self.holder == agent:
            self._pass_on()

    def forfeit(self, agent: str) -> None:
        """The agent is gone: it neither holds nor awaits the turn any more."""
        for name, granted in tuple(self._waiting):
            if name == agent:
                self._waiting.remove((name, granted))
                granted.cancel()
        self.release(agent)

    def _give(self, agent: str) -> None:
        self.holder = agent
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(self.limit_s, self.release, agent)

    def _pass_on(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self.holder, self._alarm = None, None
        if self.others is not None:
            self.others.leave()
        while self._waiting:
            agent, granted = self._waiting.popleft()
            if not granted.done():
                self._give(agent)
                granted.set_result(None)
                return


LOOK_S = 0.005
"""A fleet looks so often whether another has ended its turn: as little as passing one on takes."""


async def _locked(file: TextIOWrapper) -> None:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(LOOK_S)
        else:
            return

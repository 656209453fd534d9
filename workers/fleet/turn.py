"""The turn to time: agents of one host hold it one at a time, in the order of asking."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from workers.fleet.turnstile import Turnstile


@dataclass(slots=True, kw_only=True)
class TimingTurn:
    """Belongs to one event loop. An agent that is gone must `forfeit`.

    An agent keeps the turn for `limit_s` at most: a page that hangs must not stop the others.
    """

    limit_s: float = 60.0
    others: Turnstile | None = None
    """Where further fleets of this host take their turns; None where there can be none."""
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

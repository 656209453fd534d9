"""The browsers that a fleet drives, and what it needs of each: a page in a profile of its own."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from kernelzoo.errors import InvalidInput, KernelZooError
from workers.fleet.gpu import GpuChoice


class BrowserKind(StrEnum):
    CHROMIUM = "chromium"
    FIREFOX = "firefox"
    WEBKIT = "webkit"


class PageLost(KernelZooError):
    """The browser ended, or its page crashed, did not open, failed or no longer answers."""


class DeviceLost(PageLost):
    """It was ended at its work: its GPU no longer answered, or it took too much memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """`profile` is a directory that no other browser may use; what a page keeps is kept in it.

    `gpu` is None for an agent that measures nothing on one. Without `sandbox`, the browser relies
    on the container that it runs in.
    """

    profile: Path
    gpu: GpuChoice | None
    sandbox: bool


class Tab(Protocol):
    """The one page of a browser. Both raise PageLost, and the page is of no use from then on."""

    async def goto(self, url: str) -> None: ...

    async def evaluate(self, function: str, argument: object) -> Any:
        """Calls an async JavaScript function with a plain value; answers its plain value."""


Opener = Callable[[Launch], AbstractAsyncContextManager[Tab]]
"""Starts a browser. When the context ends, no process of it is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of the fleet: so many agents of one browser."""

    browser: BrowserKind
    agents: int

    def __str__(self) -> str:
        return f"{self.browser}={self.agents}"


def parse_shares(texts: Iterable[str], agents: int) -> tuple[Share, ...]:
    """From `firefox=3`, or `firefox` for as many as `agents`. Raises InvalidInput."""
    shares = tuple(_parse_share(text, agents) for text in texts)
    named = [share.browser for share in shares]
    if twice := next((kind for kind in named if named.count(kind) > 1), None):
        raise InvalidInput(f"--browser {twice} is given twice; give it once, as {twice}=2")
    return shares


def _parse_share(text: str, agents: int) -> Share:
    name, equals, number = text.partition("=")
    if name not in tuple(BrowserKind):
        raise InvalidInput(f"{name!r} is no browser of a fleet; take {', '.join(BrowserKind)}")
    if not equals:
        return Share(browser=BrowserKind(name), agents=agents)
    if not number.isdecimal() or int(number) < 1:
        raise InvalidInput(f"--browser {text}: write how many agents, as {name}=3")
    return Share(browser=BrowserKind(name), agents=int(number))

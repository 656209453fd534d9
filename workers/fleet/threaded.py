"""A browser that is driven by blocking calls, in a thread of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from workers.fleet.browsers import Launch, PageLost, Tab
from workers.fleet.process import POLITE_S


class Blocking(Protocol):
    """A browser that was started and is not connected yet.

    `kill` may be called from any thread: it ends what blocks.
    """

    def connect(self) -> None: ...
    def goto(self, url: str) -> None: ...
    def evaluate(self, function: str, argument: object) -> Any: ...
    def close(self) -> None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadedTab:
    browser: Blocking
    thread: ThreadPoolExecutor

    async def goto(self, url: str) -> None:
        await self.run(self.browser.goto, url)

    async def evaluate(self, function: str, argument: object) -> Any:
        return await self.run(self.browser.evaluate, function, argument)

    async def run(self, work: Callable[..., Any], *arguments: object) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.thread, work, *arguments)


@asynccontextmanager
async def threaded_tab(start: Callable[[Launch], Blocking], launch: Launch) -> AsyncIterator[Tab]:
    """Closes the browser politely, so that its profile is whole, then for good."""
    browser = start(launch)
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=launch.profile.name)
    tab = ThreadedTab(browser=browser, thread=thread)
    try:
        await tab.run(browser.connect)
        yield tab
    finally:
        try:
            with suppress(PageLost, TimeoutError):
                async with asyncio.timeout(POLITE_S):
                    await tab.run(browser.close)
        finally:
            browser.kill()
            thread.shutdown(wait=False)

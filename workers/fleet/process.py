"""A browser's process, and how it is driven by blocking calls in a thread of its own.

The process leads a group, so that nothing of it is left when it is killed.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from workers.fleet.browsers import Launch, PageLost, Tab

POLITE_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserProcess:
    """A browser as a process; it writes to `log`, which each start empties."""

    program: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, command: Sequence[str], log: Path, env: Mapping[str, str]) -> Self:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(program=command[0], process=process, log=log)

    def insist(self) -> None:
        """Raises PageLost with the last thing that it said when it has ended."""
        if (code := self.process.poll()) is not None:
            lines = self.log.read_text(errors="replace").splitlines()
            said = f": {lines[-1]}" if lines else ""
            raise PageLost(f"{self.program} ended with code {code}{said}")

    def wait(self) -> None:
        """Gives it time to end by itself."""
        try:
            self.process.wait(POLITE_S)
        except subprocess.TimeoutExpired:
            return

    def kill(self) -> None:
        """The whole group; harmless when it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


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

"""Finds the Chromium to run, and its flags: it runs like a visible browser, but quiet on the
network."""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from playwright.async_api import BrowserType, ConsoleMessage, Error, Page
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from playwright.sync_api import BrowserType as SyncBrowserType

from kernelzoo.errors import StackError
from workers.fleet.browsers import Launch, PageLost, Tab
from workers.fleet.gpu import GpuChoice, gpu_flags

log = structlog.get_logger(__name__)

PACKAGE = "chromium"
SYSTEM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# A headless page counts as hidden to the scheduler; without the last three its timers are
# slowed to one a second and its renderer to background priority.
FLAGS = (
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)


def flags(*, sandbox: bool) -> tuple[str, ...]:
    return FLAGS if sandbox else (*FLAGS, "--no-sandbox")


def own_flags(gpu: GpuChoice | None = None, *, sandbox: bool = True) -> tuple[str, ...]:
    """Chromium's sandbox does not start under root. It needs user namespaces, too, which the
    default seccomp profiles of container engines forbid.

    Without `gpu` whatever WebGPU the browser offers by itself, on most servers none.
    """
    own = flags(sandbox=sandbox and os.geteuid() != 0)
    return (*own, *(gpu_flags(gpu) if gpu is not None else ()))


def find_chromium(playwrights: Path, which: Callable[[str], str | None] = shutil.which) -> Path:
    """The system's, else Playwright's own. Raises StackError when there is neither."""
    named = (path for name in SYSTEM_NAMES if (path := which(name)))
    found = next((Path(path) for path in named if not _is_snap(Path(path))), None)
    if found is not None:
        return found
    if playwrights.exists():
        return playwrights
    raise StackError(
        "no Chromium is installed; install one with `apt-get install chromium` "
        "or `.venv/bin/playwright install --with-deps chromium`"
    )


@contextmanager
def launched_chromium(*more_flags: str) -> Iterator[Browser]:
    """Headless, with a profile of its own. Raises StackError where there is no Chromium."""
    with sync_playwright() as playwright:
        path = find_chromium(Path(playwright.chromium.executable_path))
        flags = [*own_flags(), *more_flags]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@contextmanager
def launched_profile(folder: str, *more_flags: str) -> Iterator[BrowserContext]:
    """Headless, with the profile in `folder`. Raises StackError where there is no Chromium."""
    with (
        sync_playwright() as playwright,
        opened_profile(playwright.chromium, folder, *more_flags) as context,
    ):
        yield context


@contextmanager
def opened_profile(
    kind: SyncBrowserType, folder: str, *more_flags: str
) -> Iterator[BrowserContext]:
    """Opens a window by a driver that runs already, of which a thread has one."""
    path = find_chromium(Path(kind.executable_path))
    flags = [*own_flags(), *more_flags]
    context = kind.launch_persistent_context(folder, executable_path=path, args=flags)
    yield context
    context.close()


def _is_snap(program: Path) -> bool:
    """Ubuntu's package is a stub that starts a snap, which sees none of our directories."""
    if program.resolve().is_relative_to("/snap") or program.resolve().name == "snap":
        return True
    with program.open("rb") as handle:
        return b"/snap/bin/" in handle.read(8192)


@dataclass(frozen=True, slots=True)
class ChromiumTab:
    page: Page

    async def goto(self, url: str) -> None:
        """Raises PageLost where the page cannot be loaded."""
        try:
            response = await self.page.goto(url, wait_until="commit")
        except Error as error:
            raise PageLost(error.message) from error
        if response is None or not response.ok:
            raise PageLost(f"{url} answered {response.status if response else 'nothing'}")

    async def evaluate(self, function: str, argument: object) -> Any:
        """Raises PageLost where the page or its browser is gone."""
        try:
            return await self.page.evaluate(function, argument)
        except Error as error:
            raise PageLost(error.message) from error


@asynccontextmanager
async def chromium_tab(browser: BrowserType, launch: Launch) -> AsyncIterator[Tab]:
    """Opens a page through Playwright's driver, which runs. Raises PageLost if it cannot."""
    own = own_flags(launch.gpu, sandbox=launch.sandbox)
    try:
        context = await browser.launch_persistent_context(
            launch.profile,
            executable_path=find_chromium(Path(browser.executable_path)),
            headless=True,
            args=own,
            chromium_sandbox="--no-sandbox" not in own,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except Error as error:
        raise PageLost(error.message) from error
    try:
        page = context.pages[0] if context.pages else await context.new_page()
        _log_page(page, launch.profile.name)
        yield ChromiumTab(page)
    finally:
        with suppress(Error):
            await context.close()


def _log_page(page: Page, agent: str) -> None:
    def complained(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            log.warning("page console", agent=agent, text=message.text)

    page.on("pageerror", lambda error: log.error("page error", agent=agent, error=str(error)))
    page.on("console", complained)


def main() -> None:
    """`python -m workers.fleet.chromium` prints the browser's path, or says what to install."""
    with sync_playwright() as playwright:
        try:
            print(find_chromium(Path(playwright.chromium.executable_path)))
        except StackError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()

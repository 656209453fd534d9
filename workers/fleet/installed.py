"""Finds the browsers that this machine has, and names the Debian package of one that it has not."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import sync_playwright

from kernelzoo.errors import StackError
from workers.fleet import chromium, firefox, webkit
from workers.fleet.browsers import BrowserKind, Share


def _missing_chromium() -> str | None:
    """Playwright's own is asked about last: its driver takes half a second to start."""
    with suppress(StackError):
        chromium.find_chromium(Path("/nowhere"))
        return None
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
    return None if own.exists() else chromium.PACKAGE


def _missing_firefox() -> str | None:
    return None if firefox.find_firefox() is not None else firefox.PACKAGE


MISSING: Mapping[BrowserKind, Callable[[], str | None]] = {
    BrowserKind.CHROMIUM: _missing_chromium,
    BrowserKind.FIREFOX: _missing_firefox,
    BrowserKind.WEBKIT: webkit.missing_for_webkit,
}
"""The package that a browser lacks, or None."""


def installed_browsers() -> tuple[BrowserKind, ...]:
    """Raises StackError where there is none."""
    found = tuple(kind for kind in BrowserKind if MISSING[kind]() is None)
    if not found:
        raise StackError("no browser is installed; `apt-get install chromium` installs one")
    return found


def insist_on(shares: Iterable[Share]) -> None:
    """Raises StackError for the first browser that cannot be run here."""
    for share in shares:
        if (package := MISSING[share.browser]()) is not None:
            raise StackError(
                f"{share.browser} cannot be driven on this machine: "
                f"`apt-get install {package}` installs what is missing"
            )

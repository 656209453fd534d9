"""Headless Chromium as tests want it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from workers.fleet.chromium import find_chromium, own_flags


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = find_chromium(Path(playwright.chromium.executable_path))
        launched = playwright.chromium.launch(executable_path=path, args=[*own_flags(), *flags])
        yield launched
        launched.close()


@contextmanager
def watched(context: BrowserContext, url: str) -> Iterator[Page]:
    """A page that may neither complain nor ask another origin."""
    page = context.new_page()
    complaints: list[str] = []
    asked: set[str] = set()
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.add(request.url))
    yield page
    assert complaints == []
    assert {each for each in asked if not each.startswith((f"{url}/", "data:"))} == set()

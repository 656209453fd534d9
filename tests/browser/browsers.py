"""Headless Chromium as tests want it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from workers.fleet.chromium import find_chromium, own_flags


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = find_chromium(Path(playwright.chromium.executable_path))
        launched = playwright.chromium.launch(executable_path=path, args=[*own_flags(), *flags])
        yield launched
        launched.close()

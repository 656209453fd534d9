"""Measures what a page of whole networks holds, in a browser that nobody watches.

Playwright listens to the network of its pages, and Chromium keeps the body of every answer for it
inside the page: of MobileNetV2's 14 MB of weights a second copy. So the browser is started as a
person starts it, and the page posts what came of it to the site.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from bench.models.page import HeldBytes, held_by_page
from bench.report import CannotMeasure
from bench.site import BenchSite
from kernelzoo.errors import StackError
from workers.fleet.chromium import find_chromium, own_flags

LIMIT_S = 120
END_S = 10
EMPTY_PAGE = "empty-page"
EMPTY_WORKER = "empty-worker"
"""Pages without an engine. They have the network's inputs, which are the page's own with any."""


class ListeningSite(BenchSite):
    """Hears what pages post."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: Queue[bytes] = Queue()

    def receive(self, body: bytes) -> None:
        self._heard.put(body)

    def heard(self, limit_s: float = LIMIT_S) -> dict[str, object]:
        """The next answer. Raises CannotMeasure where none comes."""
        try:
            answer: dict[str, object] = json.loads(self._heard.get(timeout=limit_s))
        except Empty as cause:
            raise CannotMeasure(f"the page posted nothing in {limit_s:g} s") from cause
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByNetwork:
    """At most, beyond what a page holds that has the inputs and no engine. `worker` is what an
    empty worker adds to that."""

    network: HeldBytes
    worker: HeldBytes


def held_by_network(
    site: ListeningSite, network: str, engine: str, visits: int = 1
) -> HeldByNetwork:
    """Measures with the first output there, at the last of so many visits of one profile. Raises
    CannotMeasure with what the page says."""
    empty = _held(site, f"cold={EMPTY_PAGE}&network={network}&")
    worker = _held(site, f"cold={EMPTY_WORKER}&network={network}&")
    held = _held(site, f"cold={engine}&network={network}&", visits)
    return HeldByNetwork(network=held - empty, worker=worker - empty)


def _held(site: ListeningSite, query: str, visits: int = 1) -> HeldBytes:
    url = f"{site.url}/models.html?{query}tell"
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for _ in range(visits):
            with unwatched(url, profile):
                if failure := site.heard().get("failure"):
                    raise CannotMeasure(f"the page failed: {str(failure)[:400]}")
                held = held_by_page()
    return held


@contextmanager
def unwatched(url: str, profile: str, *more_flags: str) -> Iterator[None]:
    """A browser with one page and the profile in a folder. Raises CannotMeasure when there is no
    Chromium."""
    try:
        with sync_playwright() as playwright:
            path = find_chromium(Path(playwright.chromium.executable_path))
    except StackError as error:
        raise CannotMeasure(str(error)) from error
    flags = (*own_flags(), *more_flags, "--headless=new", f"--user-data-dir={profile}")
    browser = subprocess.Popen((str(path), *flags, url), stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        browser.terminate()
        browser.wait(END_S)

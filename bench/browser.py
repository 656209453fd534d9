"""Chromium for benchmarks: every page in a process of its own, its answers as values."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from playwright.sync_api import Browser, Error, Page
from pydantic import BaseModel

from bench.page_json import PageJson
from bench.report import CannotMeasure
from kernelzoo.errors import StackError
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.leases import Lease
from workers.fleet.chromium import launched_chromium

Answer = TypeVar("Answer")

CALL_MS = 1_200_000


class Reading(BaseModel):
    """A loop that only reads tensor number `tensor`, in `extent` steps."""

    url: str
    tensor: int
    extent: int


class Rounds(BaseModel):
    least: int
    most: int


class ScreenRequest(BaseModel):
    """`hot` leaves weights in the caches from one run to the next."""

    lease: Lease
    hot: bool


class ContestRequest(BaseModel):
    """Mirrors the request of `page/src/request.ts`."""

    lease: Lease
    finalists: list[Kernel]
    peers: bool
    reading: Reading | None
    rounds: Rounds


class Result(PageJson, frozen=True, kw_only=True):
    """Nanoseconds of one call in each round of one page."""

    name: str
    threads: int
    samples_ns: tuple[float, ...]
    flops: int
    difference: float | None


class Screened(PageJson, frozen=True, kw_only=True):
    candidate: str
    relative_time: float | None
    failure: str


class Costly(PageJson, frozen=True, kw_only=True):
    """Nanoseconds by name; None of a candidate that does not run."""

    candidate: str
    costs: dict[str, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPage:
    """An open page. Its methods raise CannotMeasure with what the page says."""

    page: Page

    def screen(self, lease: Lease, *, hot: bool) -> list[Screened]:
        request = ScreenRequest(lease=lease, hot=hot)
        return self._call("screen", request.model_dump_json(), list[Screened])

    def costs(self, lease: Lease) -> list[Costly]:
        return self._call("costs", lease.model_dump_json(), list[Costly])

    def contest(self, request: ContestRequest) -> list[Result]:
        return self._call("contest", request.model_dump_json(), list[Result])

    def _call(self, name: str, argument: str, kind: type[Answer]) -> Answer:
        call = f"async (text) => JSON.stringify(await kernelzooBench.{name}(JSON.parse(text)))"
        try:
            return msgspec.json.decode(self.page.evaluate(call, argument), type=kind)
        except Error as error:
            raise CannotMeasure(f"the page failed in {name}: {error.message[:400]}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchBrowser:
    browser: Browser
    url: str

    @property
    def version(self) -> str:
        return f"Chromium {self.browser.version}"

    @contextmanager
    def page(self, *, threads: int = 1) -> Iterator[BenchPage]:
        """Opens a page in a context, so in a process, of its own: where memory lies differs between
        pages."""
        with self.browser.new_context() as context:
            page = context.new_page()
            page.set_default_timeout(CALL_MS)
            page.goto(f"{self.url}/?threads={threads}")
            page.wait_for_function("globalThis.kernelzooBench", timeout=30_000)
            if not page.evaluate("kernelzooBench.isolated"):
                raise CannotMeasure("the page is not cross-origin isolated: its clock is coarse")
            yield BenchPage(page=page)


@contextmanager
def chromium(*more_flags: str) -> Iterator[Browser]:
    """Raises CannotMeasure when there is no Chromium."""
    with ExitStack() as opened:
        try:
            browser = opened.enter_context(launched_chromium(*more_flags))
        except StackError as error:
            raise CannotMeasure(str(error)) from error
        yield browser


@contextmanager
def bench_browser(url: str) -> Iterator[BenchBrowser]:
    """Raises CannotMeasure when there is no Chromium."""
    with chromium() as browser:
        yield BenchBrowser(browser=browser, url=url)

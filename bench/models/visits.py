"""Two visits of one browser profile to a page that loads a network at once."""

from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import msgspec
from playwright.sync_api import Error, Page

from bench.browser import CALL_MS
from bench.page_json import PageJson
from bench.report import CannotMeasure
from workers.fleet.chromium import launched_profile


class Noticed(PageJson, frozen=True, kw_only=True):
    """Mirrors what is noticed in `page/src/models/switching.ts`."""

    stall_ms: float
    delay_ms: float


class Switched(PageJson, frozen=True, kw_only=True):
    """Mirrors the answer of `page/src/models/switching.ts`."""

    swaps: int
    switching: Noticed
    quiet: Noticed


class ColdVisit(PageJson, frozen=True, kw_only=True):
    """Milliseconds to the first output and of a later run; `switched` of a page that is watched."""

    elapsed_ms: float
    warm_ms: float
    switched: Switched | None


def worst(told: Sequence[Switched]) -> Switched:
    """The most of everything."""

    def most(noticed: Sequence[Noticed]) -> Noticed:
        return Noticed(
            stall_ms=max(each.stall_ms for each in noticed),
            delay_ms=max(each.delay_ms for each in noticed),
        )

    return Switched(
        swaps=max(each.swaps for each in told),
        switching=most([each.switching for each in told]),
        quiet=most([each.quiet for each in told]),
    )


FIRST_RUNS = {"warm": "1"}
SECOND_RUNS = {"warm": "4"}
"""Runs after the first output. Warm times are those of the second visit."""
WATCHED = {"watch": "1"}

TwoVisits = tuple[ColdVisit, ColdVisit]


def two_visits(
    site_url: str,
    asked: dict[str, str],
    settle_ms: int,
    flags: Sequence[str] = (),
    *,
    watched: bool = False,
) -> TwoVisits:
    """`settle_ms` pass before each navigation, as a browser that has started is busy, and between
    the visits, as it keeps code and files. A second visit that is `watched` tells what it notices
    while kernels are switched. Raises CannotMeasure with what the page says."""
    second = SECOND_RUNS | WATCHED if watched else SECOND_RUNS
    with TemporaryDirectory() as profile:
        first = _visit(profile, site_url, asked | FIRST_RUNS, (settle_ms, settle_ms), flags)
        return first, _visit(profile, site_url, asked | second, (settle_ms, 0), flags)


def _visit(
    profile: str,
    site_url: str,
    asked: dict[str, str],
    rests_ms: tuple[int, int],
    flags: Sequence[str],
) -> ColdVisit:
    with launched_profile(profile, *flags) as context:
        page = context.pages[0]
        page.set_default_timeout(CALL_MS)
        page.wait_for_timeout(rests_ms[0])
        told = _told(page, f"{site_url}/models.html?{urlencode(asked)}")
        page.wait_for_timeout(rests_ms[1])
    if "failure" in told:
        raise CannotMeasure(f"{asked['cold']} does not run: {told['failure'][:400]}")
    return msgspec.convert(told, ColdVisit)


def _told(page: Page, url: str) -> dict[str, Any]:
    try:
        page.goto(url, wait_until="commit")
        page.wait_for_function("globalThis.kernelzooCold")
        told: dict[str, Any] = page.evaluate("kernelzooCold")
    except Error as error:
        raise CannotMeasure(f"the page failed: {error.message[:400]}") from error
    return told

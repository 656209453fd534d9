"""Two visits of one browser profile to a page that loads a network at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Error, Page

from bench.browser import CALL_MS
from bench.report import CannotMeasure
from workers.fleet.chromium import launched_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdVisit:
    """Milliseconds to the first output and of a later run."""

    first_output_ms: float
    warm_ms: float


FIRST_RUNS = {"warm": "1"}
SECOND_RUNS = {"warm": "4"}
"""Runs after the first output. Warm times are those of the second visit."""

TwoVisits = tuple[ColdVisit, ColdVisit]


def two_visits(
    site_url: str, asked: dict[str, str], settle_ms: int, flags: Sequence[str] = ()
) -> TwoVisits:
    """`settle_ms` pass before each navigation, as a browser that has started is busy, and between
    the visits, as it keeps code and files. Raises CannotMeasure with what the page says."""
    with TemporaryDirectory() as profile:
        first = _visit(profile, site_url, asked | FIRST_RUNS, (settle_ms, settle_ms), flags)
        return first, _visit(profile, site_url, asked | SECOND_RUNS, (settle_ms, 0), flags)


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
    return ColdVisit(first_output_ms=told["elapsedMs"], warm_ms=told["warmMs"])


def _told(page: Page, url: str) -> dict[str, Any]:
    try:
        page.goto(url, wait_until="commit")
        page.wait_for_function("globalThis.kernelzooCold")
        told: dict[str, Any] = page.evaluate("kernelzooCold")
    except Error as error:
        raise CannotMeasure(f"the page failed: {error.message[:400]}") from error
    return told

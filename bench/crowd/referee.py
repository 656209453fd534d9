"""Compares kernels of one key in pages of a browser: which is the fastest, and by how much.

Each page is a process of its own, as where memory lies differs between them, and times all kernels
in interleaved rounds. In one page a kernel is over another by the best samples of both, as noise
only ever adds time: on a machine with other work these ratios lay within 0.4 to 1 % of each other
between pages, and medians of the ratios of rounds within 2 to 3 %. Over all it is the median of the
pages. What is best is picked by one half of the pages and compared in the other: the fastest of
many equals looks faster than it is where it was picked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb
from random import Random
from statistics import median
from typing import Self

from bench.browser import BenchBrowser, ContestRequest, Rounds
from bench.kernels.contest import refuse_wrong
from bench.kernels.page_lease import CompiledKernel, lease
from bench.workloads import BenchCase

ROUNDS = 40
SCREENED_ROUNDS = 5
"""Rounds with all kernels of a space, which show those that are worth a comparison."""
ERROR = 0.08
"""The share of cases in which the median of pages without end may lie outside of what is told."""

RefereePage = Mapping[str, tuple[float, ...]]
"""Nanoseconds of one call by kernel, in the order of the rounds."""


class Judgement(StrEnum):
    """WITHIN and BEYOND: both ends of the interval are. OPEN: they do not agree."""

    WITHIN = "within"
    BEYOND = "beyond"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesOver:
    """States the time of one kernel over that of another: the median of pages, and an interval that
    holds the median of pages without end in all but `ERROR` of cases, by order statistics. Of fewer
    than five pages it is their range."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Self:
        """One ratio of each page."""
        ascending, outside = sorted(ratios), _outside(len(ratios))
        return cls(
            middle=median(ascending),
            low=ascending[outside],
            high=ascending[-1 - outside],
        )

    def judged(self, limit: float) -> Judgement:
        if self.high <= limit:
            return Judgement.WITHIN
        return Judgement.BEYOND if self.low > limit else Judgement.OPEN


def _outside(pages: int) -> int:
    """Counts how many of so many pages may lie below the interval, and as many above."""
    below = [sum(comb(pages, n) for n in range(k + 1)) / 2**pages for k in range(pages // 2)]
    return max((k for k, share in enumerate(below) if 2 * share <= ERROR), default=0)


def over(pages: Sequence[RefereePage], kernel: str, other: str) -> TimesOver:
    return TimesOver.of([page_ratio(page, kernel, other) for page in pages])


def over_best(pages: Sequence[RefereePage], kernel: str) -> TimesOver:
    """Compares with the fastest of the kernels that took part. Needs two pages."""
    halves = pages[::2], pages[1::2]
    bests = [_fastest(half, kernel) for half in halves]
    return TimesOver.of(
        [page_ratio(page, kernel, bests[1 - n % 2]) for n, page in enumerate(pages)]
    )


def _fastest(pages: Sequence[RefereePage], kernel: str) -> str:
    return max(sorted(pages[0]), key=lambda other: over(pages, kernel, other).middle)


def page_ratio(page: RefereePage, kernel: str, other: str) -> float:
    """The best sample of one over that of the other."""
    return min(page[kernel]) / min(page[other])


def referee_page(
    browser: BenchBrowser,
    case: BenchCase,
    reference: CompiledKernel,
    kernels: Sequence[CompiledKernel],
    seed: int,
    rounds: int = ROUNDS,
) -> RefereePage:
    """Opens a page, in which kernels take turns in an order of this seed. Their files are
    published. Raises CannotMeasure where an output is wrong."""
    shuffled = Random(seed).sample(kernels, len(kernels))
    request = ContestRequest(
        lease=lease(case, reference, tuple(shuffled)),
        finalists=[each.kernel for each in shuffled],
        peers=False,
        reading=None,
        rounds=Rounds(least=rounds, most=rounds),
    )
    with browser.page() as page:
        results = {result.name: result for result in page.contest(request)}
    for result in results.values():
        refuse_wrong(result, request)
    return {each.name: results[each.name].samples_ns for each in kernels}

"""One workload: compiled, screened, and timed against peers and limits in several pages."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from bench.browser import BenchBrowser, ContestRequest, Reading, Result, Rounds, Screened
from bench.busy import CpuUsage
from bench.kernels.page_lease import CompiledKernel, compiled, files, lease
from bench.kernels.reading import STEP_BYTES, reading_module
from bench.report import CannotMeasure
from bench.site import BenchSite
from bench.workloads import BenchCase
from fixtures.wasm_space import common_space
from kernelzoo.domain.candidate import Candidate
from services.tuner.compile import compile_candidate

FINALISTS = 3
"""Kernels that go to the final, of those that fuse and of those that do not."""

ROUNDS = Rounds(least=8, most=20)
READING_PATH = "/reading.wasm"
FMA = "relaxed-simd"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestSpace:
    """A workload's compiled lite space; `reference` is the default kernel of every device."""

    case: BenchCase
    candidates: Mapping[str, Candidate]
    compiled: Mapping[str, CompiledKernel]
    reference: CompiledKernel

    @classmethod
    def of(
        cls, case: BenchCase, site: BenchSite, *, among: Collection[Candidate] | None = None
    ) -> "ContestSpace":
        """`among`: of these alone, and the default."""
        whole = common_space(case.workload)
        usual = next(each for each in whole if FMA not in each.requires)
        space = [each for each in whole if among is None or each in among or each == usual]
        made = [compiled(each, compile_candidate(each)) for each in space]
        for candidate, each in zip(space, made, strict=True):
            for path, body in files(candidate, each).items():
                site.publish(path, body)
        return cls(
            case=case,
            candidates={each.candidate_id: each for each in space},
            compiled={each.name: each for each in made},
            reference=next(each for each in made if FMA not in each.kernel.requires),
        )

    def named(self, names: Iterable[str]) -> tuple[CompiledKernel, ...]:
        return tuple(self.compiled[name] for name in names)

    def fuses(self, name: str) -> bool:
        return FMA in self.compiled[name].kernel.requires


def threaded(candidate_id: str, threads: int) -> str:
    """The page's name of a candidate on several threads; on one it goes by its id."""
    return candidate_id if threads == 1 else f"{candidate_id}@{threads}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResults:
    """Results of what took part in one page, by name, and the cores that others kept busy
    meanwhile."""

    results: Mapping[str, Result]
    others_busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    space: ContestSpace
    threads: int
    pages: tuple[PageResults, ...]


def hold(
    browser: BenchBrowser, site: BenchSite, case: BenchCase, *, threads: int, pages: int
) -> Contest:
    """Raises CannotMeasure when no candidate runs, or when an output is wrong."""
    space = ContestSpace.of(case, site)
    finalists = _finalists(browser, space)
    request = ContestRequest(
        lease=lease(case, space.reference, space.named(finalists)),
        finalists=[each.kernel for each in space.named(finalists)],
        peers=True,
        reading=_reading(site, case),
        rounds=ROUNDS,
    )
    held = tuple(_page(browser, request, threads) for _ in range(pages))
    return Contest(space=space, threads=threads, pages=held)


def screened_times(browser: BenchBrowser, space: ContestSpace, *, hot: bool) -> dict[str, float]:
    """Times over that of the reference, in a page for this alone; `hot` with weights in the caches.
    Raises CannotMeasure where no candidate runs."""
    asked = lease(space.case, space.reference, tuple(space.compiled.values()))
    with browser.page() as page:
        screened = page.screen(asked, hot=hot)
    times = _timed(screened)
    if not times:
        raise CannotMeasure(f"no candidate of {space.case.name} runs: {screened[0].failure}")
    return times


def _finalists(browser: BenchBrowser, space: ContestSpace) -> list[str]:
    """The fastest few on screening, with fma and without."""
    times = screened_times(browser, space, hot=True)
    ranked = sorted(times, key=times.__getitem__)
    groups = ([n for n in ranked if space.fuses(n) is fma] for fma in (True, False))
    return [name for group in groups for name in group[:FINALISTS]]


def _timed(screened: Iterable[Screened]) -> dict[str, float]:
    return {s.candidate: s.relative_time for s in screened if s.relative_time is not None}


def _reading(site: BenchSite, case: BenchCase) -> Reading | None:
    """The bandwidth of reading the weights, where one pass over them is all that a kernel does."""
    if not case.reads_once:
        return None
    site.publish(READING_PATH, reading_module())
    weights = case.workload.tensors[1]
    return Reading(url=READING_PATH, tensor=1, extent=weights.size_bytes // STEP_BYTES)


def _page(browser: BenchBrowser, request: ContestRequest, threads: int) -> PageResults:
    with browser.page(threads=threads) as page:
        before = CpuUsage.now()
        results = page.contest(request)
        others_busy = CpuUsage.now().others_since(before)
    for result in results:
        refuse_wrong(result, request)
    return PageResults(results={each.name: each for each in results}, others_busy=others_busy)


def refuse_wrong(result: Result, request: ContestRequest) -> None:
    """Raises CannotMeasure where an output differs from the reference's by more than is allowed."""
    difference = result.difference
    if difference is not None and not difference <= request.lease.tolerance:
        raise CannotMeasure(
            f"{result.name} is wrong by {difference:g} on {request.lease.workload}; "
            f"{request.lease.tolerance:g} is allowed"
        )

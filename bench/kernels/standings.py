"""A contest in figures: the times of each that took part, over all pages."""

from dataclasses import dataclass
from statistics import median

from bench.kernels.contest import Contest, threaded
from bench.kernels.native import native_samples_ns
from kernelzoo.domain.candidate import FAMILY
from services.tuner.schedules.matmul.config import WasmMatmulConfig

LIMITS = ("limit-fma", "limit-base")
"""The second may not fuse products and sums."""
PEERS = ("ort-input", "ort-constant", "tfjs")
READING = "reading"
NATIVE = "native-blas"
OURS = {True: "ours-fma", False: "ours-base"}
"""By whether they may fuse products and sums."""
ALONE = {True: "alone-fma", False: "alone-base"}
"""Ours on one thread, where the others have several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmStanding:
    """`slow_page_ns` is the best time in the page where that was worst. `flops` is of one call.
    `fuses` is False where products and sums may not be fused."""

    best_ns: float
    median_ns: float
    slow_page_ns: float
    flops: int
    threads: int = 1
    fuses: bool = True
    config: str = ""

    @property
    def gflops(self) -> float:
        return self.flops / self.best_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """By name: LIMITS, PEERS, OURS, ALONE where there are several threads, NATIVE for products,
    and READING where memory is the limit."""

    contest: Contest
    found: dict[str, WasmStanding]

    @property
    def peer(self) -> WasmStanding:
        """The better one, by its best time."""
        return self._fastest(PEERS)

    @property
    def ours(self) -> WasmStanding:
        return self._fastest(tuple(OURS.values()))

    @property
    def alone(self) -> WasmStanding:
        return self._fastest(tuple(ALONE.values()))

    def share_of_limit(self, standing: WasmStanding) -> float:
        """The share of what as many cores reach at the register-only limit, which is what a core
        does without memory. A kernel that may not fuse is held to the loop that may not either:
        how far the two limits lie apart differs between cores."""
        names = LIMITS if standing.fuses else LIMITS[1:]
        limit_gflops = max(self.found[name].gflops for name in names)
        return standing.gflops / (limit_gflops * standing.threads)

    def _fastest(self, names: tuple[str, ...]) -> WasmStanding:
        there = [self.found[name] for name in names if name in self.found]
        return min(there, key=lambda each: each.best_ns)


def standings(contest: Contest) -> Standings:
    names = contest.pages[0].results
    found = {
        n: _standing(contest, n, fuses=n != LIMITS[1])
        for n in (*LIMITS, *PEERS, READING)
        if n in names
    }
    found |= _winners(contest, OURS, contest.threads)
    if contest.threads > 1:
        found |= _winners(contest, ALONE, 1)
    elif contest.space.case.is_product:
        found[NATIVE] = _native(contest)
    return Standings(contest=contest, found=found)


def _winners(contest: Contest, labels: dict[bool, str], threads: int) -> dict[str, WasmStanding]:
    """The finalists with the least median over pages of the best time in each."""
    names, space = contest.pages[0].results, contest.space
    winners: dict[str, WasmStanding] = {}
    for fma, label in labels.items():
        group = [each for each in space.candidates if space.fuses(each) is fma]
        own = [name for each in group if (name := threaded(each, threads)) in names]
        if own:
            winner = min(own, key=lambda name: median(_page_bests_ns(contest, name)))
            winners[label] = _standing(contest, winner, fuses=fma)
    return winners


def _native(contest: Contest) -> WasmStanding:
    """Not in the page, so not in its rounds."""
    workload = contest.space.case.workload
    samples_ns = native_samples_ns(workload.key)
    best_ns = min(samples_ns)
    return WasmStanding(
        best_ns=best_ns,
        median_ns=median(samples_ns),
        slow_page_ns=best_ns,
        flops=workload.flops,
    )


def _standing(contest: Contest, name: str, *, fuses: bool = True) -> WasmStanding:
    results = [page.results[name] for page in contest.pages]
    samples_ns = [sample for result in results for sample in result.samples_ns]
    candidate = contest.space.candidates.get(name.partition("@")[0])
    return WasmStanding(
        best_ns=min(samples_ns),
        median_ns=median(samples_ns),
        slow_page_ns=max(_page_bests_ns(contest, name)),
        flops=results[0].flops,
        threads=results[0].threads,
        fuses=fuses,
        config="" if candidate is None else _short(dict(candidate.config)),
    )


def _page_bests_ns(contest: Contest, name: str) -> list[float]:
    return [min(page.results[name].samples_ns) for page in contest.pages]


def _short(config: dict[str, int | bool | str]) -> str:
    """'6x8 r2 of 96x96 kernel n': register tile, unroll, block, packing, outermost axis.

    Configs of other families are named setting by setting.
    """
    if config[FAMILY] != WasmMatmulConfig.family:
        left_out = ("fma", FAMILY)
        return " ".join(f"{name}={value}" for name, value in config.items() if name not in left_out)
    return (
        f"{config['tile_m']}x{config['tile_n']} r{config['unroll_k']} of "
        f"{config['block_m']}x{config['block_n']} {config['pack']} {config['outer']}"
    )

"""Our wasm kernels beside onnxruntime-web, TensorFlow.js and the limits of the core.

A workload's lite space is compiled and screened by the agent's own code, as when the zoo is empty.
The fastest candidates then meet the peers and the limits in the interleaved rounds of several
pages: where memory lies differs between pages, and TensorFlow.js can be slow in a whole page.
Claims compare the best times of all pages, which favours a peer that is fast in one of them.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence

from bench.browser import bench_browser
from bench.kernels.contest import hold
from bench.kernels.peers import peer_versions
from bench.kernels.standings import LIMITS, OURS, READING, Standings, WasmStanding, standings
from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from bench.site import BenchSite
from bench.workloads import (
    CONSTANT,
    DECODE,
    LAYERS,
    OF_BANDWIDTH,
    OF_LIMIT,
    PAPER,
    TAIL_SHARE,
    TAILS,
    TINY,
    TWO_THREADS,
    BenchCase,
    Limit,
)

CASES = (*PAPER, TAILS, *DECODE, *CONSTANT, *LAYERS)
THREADS = (1, 2)
THREADED = PAPER
"""Measured on several threads, too."""

PAGES = 3


def main() -> None:
    options = parser("Wasm kernels against their peers, in one run.")
    names = [case.name for case in CASES]
    known = [*names, TINY.name]
    options.add_argument("--pages", type=int, default=PAGES)
    options.add_argument("--only", nargs="+", choices=known, default=names)
    options.add_argument("--threads", nargs="+", type=int, default=THREADS)
    run(options, measure, tiny=("--only", TINY.name, "--threads", "1", "--pages", "1"))


def measure(options: Namespace) -> Report:
    chosen = [case for case in (*CASES, TINY) if case.name in options.only]
    with BenchSite.serving() as site, bench_browser(site.url) as browser:
        held = [
            standings(hold(browser, site, case, threads=threads, pages=options.pages))
            for threads in options.threads
            for case in chosen
            if threads == 1 or case in THREADED
        ]
        described = machine(browser=browser.version, pages=options.pages, **peer_versions())
    rows = [_row(each, name, found) for each in held for name, found in each.found.items()]
    claims = [claim for each in held for claim in _claims(each)] + list(_tail_claims(held))
    return Report(name="kernels-wasm", machine=described, rows=rows, claims=claims)


def _row(held: Standings, name: str, standing: WasmStanding) -> dict[str, Cell]:
    """`ours_faster`: its time over that of our faster kernel. `others_busy`: cores, at worst."""
    contest = held.contest
    case = contest.space.case
    whole = name not in (*LIMITS, READING)
    return {
        "workload": case.name,
        "threads": standing.threads,
        "what": name,
        "best_ms": standing.best_ns / 1e6 if whole else None,
        "median_ms": standing.median_ns / 1e6 if whole else None,
        "slow_page_ms": standing.slow_page_ns / 1e6 if whole else None,
        "gflops": standing.gflops or None,
        "of_limit": held.share_of_limit(standing) or None,
        "gbytes_per_s": _bandwidth(case, standing) if name not in LIMITS else None,
        "ours_faster": standing.best_ns / held.ours.best_ns if whole else None,
        "ours_faster_median": standing.median_ns / held.ours.median_ns if whole else None,
        "others_busy": max(page.others_busy for page in contest.pages),
        "config": standing.config,
    }


def _bandwidth(case: BenchCase, standing: WasmStanding) -> float | None:
    """10^9 bytes of weights a second, where memory is the limit."""
    return case.workload.tensors[1].size_bytes / standing.best_ns if case.reads_once else None


def _claims(held: Standings) -> Iterator[Claim]:
    contest = held.contest
    if contest.threads > 1:
        yield _thread_claim(held)
        return
    case = contest.space.case
    speedup = held.peer.best_ns / held.ours.best_ns
    yield Claim.at_least(f"{case.name}: faster than the better peer", speedup, "×", case.speedup)
    match case.limit:
        case Limit.READING:
            share = held.found[READING].best_ns / held.ours.best_ns
            yield Claim.at_least(f"{case.name}: share of read bandwidth", share, "", OF_BANDWIDTH)
        case Limit.ARITHMETIC:
            for fma, name in OURS.items():
                share = held.share_of_limit(held.found[name])
                what = f"{case.name}: {name}, share of the register-only limit"
                yield Claim.at_least(what, share, "", OF_LIMIT[fma])


def _thread_claim(held: Standings) -> Claim:
    """Ours against ours; the cores that others kept busy stand in the rows."""
    name, threads = held.contest.space.case.name, held.contest.threads
    gain = held.alone.best_ns / held.ours.best_ns
    return Claim.at_least(f"{name}: {threads} threads against one", gain, "×", TWO_THREADS)


def _tail_claims(held: Sequence[Standings]) -> Iterator[Claim]:
    """Shares of the limit, each of its own page, as the two workloads meet in none."""
    alone = {each.contest.space.case: each for each in held if each.contest.threads == 1}
    whole, tails = alone.get(PAPER[0]), alone.get(TAILS)
    if whole is not None and tails is not None:
        share = tails.share_of_limit(tails.ours) / whole.share_of_limit(whole.ours)
        what = f"{TAILS.workload.key}: share of the rate of {PAPER[0].name}"
        yield Claim.at_least(what, share, "", TAIL_SHARE)


if __name__ == "__main__":
    main()

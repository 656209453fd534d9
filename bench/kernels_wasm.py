"""Our wasm kernels beside onnxruntime-web, TensorFlow.js and the limits of the core.

A workload's lite space is compiled and screened by the agent's own code, as when the zoo is empty.
The fastest candidates then meet the peers and the limits in the interleaved rounds of several
pages: where memory lies differs between pages, and TensorFlow.js can be slow in a whole page.
Claims compare the best times of all pages, which favours a peer that is fast in one of them.
"""

from argparse import Namespace
from collections.abc import Iterator

from bench.browser import bench_browser
from bench.contest import hold
from bench.options import parser, run
from bench.peers import peer_versions
from bench.report import Cell, Claim, Report, machine
from bench.site import Site
from bench.standings import LIMITS, OURS, READING, Standing, Standings, standings
from bench.workloads import CONSTANT, DECODE, OF_BANDWIDTH, OF_LIMIT, PAPER, Case

CASES = (*PAPER, *DECODE, *CONSTANT)
THREADS = (1,)
"""Of the peers in a page. Ours run on one thread whatever it says."""

PAGES = 3


def main() -> None:
    options = parser("Wasm kernels against their peers, in one run.")
    names = [case.name for case in CASES]
    options.add_argument("--pages", type=int, default=PAGES)
    options.add_argument("--only", nargs="+", choices=names, default=names)
    run(options, measure)


def measure(options: Namespace) -> Report:
    chosen = [case for case in CASES if case.name in options.only]
    with Site.serving() as site, bench_browser(site.url) as browser:
        held = [
            standings(hold(browser, site, case, threads=threads, pages=options.pages))
            for threads in THREADS
            for case in chosen
        ]
        described = machine(browser=browser.version, pages=options.pages, **peer_versions())
    rows = [_row(each, name, found) for each in held for name, found in each.found.items()]
    claims = [claim for each in held for claim in _claims(each)]
    return Report(name="kernels-wasm", machine=described, rows=rows, claims=claims)


def _row(held: Standings, name: str, standing: Standing) -> dict[str, Cell]:
    """`ours_faster`: its time over that of our faster kernel. `others_busy`: cores, at worst."""
    contest = held.contest
    case = contest.space.case
    whole = name not in (*LIMITS, READING)
    return {
        "workload": case.name,
        "threads": 1 if name in OURS.values() else contest.threads,
        "what": name,
        "best_ms": standing.best_ns / 1e6 if whole else None,
        "median_ms": standing.median_ns / 1e6 if whole else None,
        "slow_page_ms": standing.slow_page_ns / 1e6 if whole else None,
        "gflops": standing.gflops or None,
        "of_limit": standing.gflops / held.limit_gflops or None,
        "gbytes_per_s": _bandwidth(case, standing) if name not in LIMITS else None,
        "ours_faster": standing.best_ns / held.ours.best_ns if whole else None,
        "ours_faster_median": standing.median_ns / held.ours.median_ns if whole else None,
        "others_busy": max(page.others_busy for page in contest.pages),
        "config": standing.config,
    }


def _bandwidth(case: Case, standing: Standing) -> float | None:
    """10^9 bytes of weights a second, where memory is the limit."""
    return case.workload.tensors[1].size_bytes / standing.best_ns if case.reads_once else None


def _claims(held: Standings) -> Iterator[Claim]:
    case = held.contest.space.case
    speedup = held.peer.best_ns / held.ours.best_ns
    yield Claim.at_least(f"{case.name}: faster than the better peer", speedup, "×", case.speedup)
    if case.reads_once:
        share = held.found[READING].best_ns / held.ours.best_ns
        yield Claim.at_least(f"{case.name}: share of read bandwidth", share, "", OF_BANDWIDTH)
        return
    for fma, name in OURS.items():
        share = held.found[name].gflops / held.limit_gflops
        what = f"{case.name}: {name}, share of the register-only limit"
        yield Claim.at_least(what, share, "", OF_LIMIT[fma])


if __name__ == "__main__":
    main()

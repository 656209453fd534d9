"""nnJIT's Table 5: what each pass is worth, and the conventional path beside it."""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from statistics import median
from time import perf_counter_ns

from bench.browser import BenchBrowser, ContestRequest, Result, Rounds, bench_browser
from bench.kernels.llvm import LINKER, linker_found, llvm_artifact
from bench.kernels.page_lease import CompiledKernel, lease
from bench.kernels.paths import ALL_STEPS, CONVENTIONAL, Compile, Subject, our_paths, subjects
from bench.options import parser, run
from bench.report import Cell, Claim, Report, machine
from bench.site import BenchSite
from bench.workloads import PAPER, TINY
from kernelzoo.domain.artifact import Artifact

COMPILATIONS = 7
PAGES = 3
ROUNDS = Rounds(least=6, most=14)
FASTER_TO_COMPILE = 10.0
AS_FAST_TO_RUN = 0.97
"""This share of a speed counts as equal, since ratios of one run are good to 3 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFinding:
    """One path made this of a subject. `slow_page_ns`: the best time in its worst page."""

    subject: Subject
    path: str
    compile_ms: float
    size_bytes: int
    best_ns: float
    median_ns: float
    slow_page_ns: float
    of_limit: float

    @property
    def gflops(self) -> float:
        return self.subject.case.workload.flops / self.best_ns


def main() -> None:
    options = parser("What each compiler pass is worth, beside LLVM.")
    names = [case.name for case in (*PAPER, TINY)]
    options.add_argument("--pages", type=int, default=PAGES)
    options.add_argument("--only", nargs="+", choices=names, default=names[:-1])
    run(options, measure, tiny=("--only", TINY.name, "--pages", "1"))


def measure(options: Namespace) -> Report:
    paths = our_paths()
    if linker_found():
        paths[CONVENTIONAL] = llvm_artifact
    else:
        print(f"{LINKER} is not installed, so the conventional path is left out; install lld")
    studied = [
        each for case in (*PAPER, TINY) if case.name in options.only for each in subjects(case)
    ]
    with BenchSite.serving() as site, bench_browser(site.url) as browser:
        found = [
            finding
            for subject in studied
            for finding in _study(browser, site, subject, paths, options.pages)
        ]
        described = machine(browser=browser.version, pages=options.pages)
    rows = [_row(finding) for finding in found]
    return Report(name="ablation", machine=described, rows=rows, claims=list(_claims(found)))


def _study(
    browser: BenchBrowser,
    site: BenchSite,
    subject: Subject,
    paths: Mapping[str, Compile],
    pages: int,
) -> Iterator[PathFinding]:
    compile_ms, artifacts = _compile(subject, paths)
    kernels = {name: _named(name, artifact) for name, artifact in artifacts.items()}
    for each in kernels.values():
        site.publish(each.kernel.url, each.artifact.body)
    everyone = tuple(kernels.values())
    request = ContestRequest(
        lease=lease(subject.case, kernels[ALL_STEPS], everyone),
        finalists=[each.kernel for each in everyone],
        peers=False,
        reading=None,
        rounds=ROUNDS,
    )
    held = [_contest(browser, request) for _ in range(pages)]
    limit = max(_gflops(page[name]) for page in held for name in ("limit-fma", "limit-base"))
    for path, each in kernels.items():
        results = [page[each.name] for page in held]
        samples_ns = [sample for result in results for sample in result.samples_ns]
        yield PathFinding(
            subject=subject,
            path=path,
            compile_ms=compile_ms[path],
            size_bytes=len(each.artifact.body),
            best_ns=min(samples_ns),
            median_ns=median(samples_ns),
            slow_page_ns=max(min(result.samples_ns) for result in results),
            of_limit=subject.case.workload.flops / min(samples_ns) / limit,
        )


def _compile(
    subject: Subject, paths: Mapping[str, Compile]
) -> tuple[dict[str, float], dict[str, Artifact]]:
    """Best milliseconds of interleaved compilations after a first one, and what they made.

    Not processor time, as LLVM's path waits for its linker.
    """
    artifacts = {name: compiler(subject.candidate) for name, compiler in paths.items()}
    times: dict[str, list[float]] = {name: [] for name in paths}
    for _ in range(COMPILATIONS):
        for name, compiler in paths.items():
            start_ns = perf_counter_ns()
            compiler(subject.candidate)
            times[name].append((perf_counter_ns() - start_ns) / 1e6)
    return {name: min(samples) for name, samples in times.items()}, artifacts


def _named(path: str, artifact: Artifact) -> CompiledKernel:
    """Two paths may give the same bytes, so the path is part of the kernel's name."""
    return CompiledKernel(name=sha256(path.encode()).hexdigest()[:32], artifact=artifact)


def _contest(browser: BenchBrowser, request: ContestRequest) -> dict[str, Result]:
    with browser.page() as page:
        return {result.name: result for result in page.contest(request)}


def _gflops(result: Result) -> float:
    return result.flops / min(result.samples_ns)


def _row(finding: PathFinding) -> dict[str, Cell]:
    return {
        "workload": finding.subject.case.name,
        "schedule": finding.subject.schedule,
        "path": finding.path,
        "compile_ms": finding.compile_ms,
        "bytes": finding.size_bytes,
        "best_ms": finding.best_ns / 1e6,
        "median_ms": finding.median_ns / 1e6,
        "slow_page_ms": finding.slow_page_ns / 1e6,
        "gflops": finding.gflops,
        "of_limit": finding.of_limit,
    }


def _claims(found: list[PathFinding]) -> Iterator[Claim]:
    """Against the conventional path, where it was measured."""
    by_path = {(f.subject, f.path): f for f in found}
    for (subject, path), theirs in by_path.items():
        if path != CONVENTIONAL:
            continue
        ours = by_path[subject, ALL_STEPS]
        what = f"{subject.case.name} {subject.schedule}: faster than LLVM to"
        compiled, ran = theirs.compile_ms / ours.compile_ms, theirs.best_ns / ours.best_ns
        yield Claim.at_least(f"{what} compile", compiled, "×", FASTER_TO_COMPILE)
        yield Claim.at_least(f"{what} run", ran, "×", AS_FAST_TO_RUN)


if __name__ == "__main__":
    main()

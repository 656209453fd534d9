"""Whole networks in a page: our runtime beside onnxruntime-web and, where they have a form of the
network, LiteRT.js and TensorFlow.js, each in a worker, in turns.

Times are the page's, from its call to the outputs in the page. Outputs are compared with PyTorch's.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.busy import CpuUsage
from bench.kernels.peers import peer_versions
from bench.models.cases import OTHERS, TINY, NetworkCase
from bench.models.files import NetworkFiles, network_files, publish
from bench.models.memory import HeldByNetwork, ListeningSite, held_by_network
from bench.models.options import TUNED, add_untuned, chosen_cases, network_parser
from bench.models.ours import Prepared, prepare
from bench.models.page import (
    LITERT,
    OURS,
    PEER,
    TENSORFLOW,
    Cold,
    ContestAnswer,
    Entry,
    Timed,
    cold,
    contest,
)
from bench.models.tuning import Choices
from bench.options import run
from bench.report import CannotMeasure, Cell, Claim, Report, machine

ROUNDS = 9
COLDS = 3
TINY_OPTIONS = ("--only", TINY.name, "--rounds", "2", "--colds", "1", "--threads", "1", "--untuned")

NAMES = {
    "kernelzoo": OURS,
    "onnxruntime-web": PEER,
    "LiteRT.js": LITERT,
    "TensorFlow.js": TENSORFLOW,
}
"""The engines by what they are called in rows, without their releases."""

RIGHT = 1e-4
"""Differences to PyTorch, as a share of the largest magnitude."""
TWO_THREADS = 1.75
ABORT_MS = 5
PLAN_BYTES = 100_000
IMPORT_S = 30
MEMORY = 1.3
"""Peak memory over weights and activations, beyond what a page holds that has the inputs and no
engine, and what an empty worker adds to that (2.2 MB). What is mapped of the browser's own files
does not count: 12 to 18 MB of its compilers and workers, once for all pages of the browser."""


def main() -> None:
    options = network_parser(
        "Whole networks on our kernels and on onnxruntime-web, in one page.", OTHERS
    )
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--colds", type=int, default=COLDS, help="fresh browsers for each engine")
    options.add_argument("--threads", type=int, default=2)
    add_untuned(options)
    run(options, measure, tiny=TINY_OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkContest:
    """One network. `threaded` is the contest on several threads, None where there was none; `held`
    is empty where nothing was started cold."""

    case: NetworkCase
    prepared: Prepared
    alone: ContestAnswer
    threaded: ContestAnswer | None
    colds: Mapping[str, tuple[Cold, ...]]
    held: Mapping[str, HeldByNetwork]
    others_busy: float
    browser: str

    @property
    def limit_gflops(self) -> float:
        return max(self.alone.limit_gflops)


def measure(options: Namespace) -> Report:
    choices = Choices(file=options.folder / TUNED)
    held, failures = [], []
    for case in chosen_cases(options, OTHERS):
        try:
            with ListeningSite.serving() as site, TemporaryDirectory() as folder:
                held.append(_measured(site, case, choices, Path(folder), options))
        except CannotMeasure as failure:
            print(f"{case.name}: {failure}", flush=True)
            failures.append(f"{case.name}: {failure}")
        else:
            print(f"{case.name} is measured", flush=True)
    if not held:
        raise CannotMeasure("; ".join(failures))
    described = machine(
        browser=held[0].browser, rounds=options.rounds, colds=options.colds, **peer_versions()
    )
    return Report(
        name="models-wasm",
        machine=described,
        rows=[row for each in held for row in _rows(each)],
        claims=[
            *(claim for each in held for claim in _claims(each)),
            *(Claim.at_most(f"{failure}: failures", 1, "", 0) for failure in failures),
        ],
    )


def _measured(
    site: ListeningSite, case: NetworkCase, choices: Choices, folder: Path, options: Namespace
) -> NetworkContest:
    files = network_files(options.folder, case)
    prepared = prepare(site, files, choices, folder, tune=not options.untuned)
    address = publish(site, files, prepared.address)
    before = CpuUsage.now()
    alone, browser = contest(site.url, address, _entries(1, files), options.rounds)
    threaded = None
    if options.threads > 1:
        entries = (*_entries(options.threads, files), Entry(engine=OURS, threads=1))
        threaded, _ = contest(site.url, address, entries, options.rounds)
    colds: dict[str, list[Cold]] = {OURS: [], PEER: []}
    for _ in range(options.colds):
        for engine, found in colds.items():
            found.append(cold(site.url, address, engine))
    measured = colds if options.colds else ()
    return NetworkContest(
        case=case,
        prepared=prepared,
        alone=alone,
        threaded=threaded,
        colds={engine: tuple(found) for engine, found in colds.items()},
        held={engine: held_by_network(site, address, engine) for engine in measured},
        others_busy=CpuUsage.now().others_since(before),
        browser=browser,
    )


def _entries(threads: int, files: NetworkFiles) -> tuple[Entry, ...]:
    """TensorFlow.js keeps to one thread whatever it is asked."""
    engines = [OURS, PEER]
    if files.tflite is not None:
        engines.append(LITERT)
    if files.tensorflow is not None and threads == 1:
        engines.append(TENSORFLOW)
    return tuple(Entry(engine=engine, threads=threads) for engine in engines)


def _median_ms(timed: Timed) -> float:
    return median(timed.samples_ms)


def _share(held: NetworkContest, timed: Timed) -> float:
    """The share of what as many cores reach at the register-only limit."""
    gflops = held.prepared.flops / _median_ms(timed) / 1e6
    return gflops / (held.limit_gflops * timed.threads)


def _rows(held: NetworkContest) -> Iterator[dict[str, Cell]]:
    """`faster`: the peer's median over ours, on as many threads."""
    answers = (held.alone, held.threaded) if held.threaded else (held.alone,)
    for answer in answers:
        peer_ms = _median_ms(answer.timed[1])
        for timed in answer.timed:
            first = answer is held.alone
            engine = NAMES[timed.name.partition(" ")[0]]
            colds = held.colds.get(engine, ()) if first else ()
            peak = held.held.get(engine) if first else None
            yield {
                "network": held.case.name,
                "engine": timed.name,
                "threads": timed.threads,
                "median_ms": _median_ms(timed),
                "least_ms": min(timed.samples_ms),
                "gflop": held.prepared.flops / 1e9,
                "of_limit": _share(held, timed),
                "faster": peer_ms / _median_ms(timed),
                "difference": timed.difference,
                "abort_ms": median(timed.aborts_ms) if timed.aborts_ms else None,
                "cold_ms": median(each.first_output_ms for each in colds) if colds else None,
                "peak_mb": peak.network.peak_bytes / 1e6 if peak else None,
                "code_mb": peak.network.code_bytes / 1e6 if peak else None,
                "worker_mb": peak.worker.own_bytes / 1e6 if peak else None,
                "others_busy": held.others_busy,
            }


def _claims(held: NetworkContest) -> Iterator[Claim]:
    case, prepared = held.case, held.prepared
    ours, peer, *_ = held.alone.timed
    if case.warm is not None:
        ratio = _median_ms(peer) / _median_ms(ours)
        yield Claim.at_least(f"{case.name}: faster than onnxruntime-web", ratio, "×", case.warm)
    if case.share is not None:
        share = _share(held, ours)
        yield Claim.at_least(f"{case.name}: of the limit", share, "of it", case.share)
    if held.threaded is not None:
        both, *_, alone = held.threaded.timed
        gain = _median_ms(alone) / _median_ms(both)
        what = f"{case.name}: {both.threads} threads against one"
        yield Claim.at_least(what, gain, "×", TWO_THREADS)
    for timed in (ours, *(held.threaded.timed[:1] if held.threaded is not None else ())):
        if timed.aborts_ms:
            what = f"{case.name}: abort, threads: {timed.threads}"
            yield Claim.at_most(what, median(timed.aborts_ms), "ms", ABORT_MS)
    if case.cold is not None and held.colds[OURS]:
        first = {name: median(c.first_output_ms for c in all_) for name, all_ in held.colds.items()}
        ratio = first[OURS] / first[PEER]
        yield Claim.at_most(f"{case.name}: first output", ratio, "of its time", case.cold)
    yield Claim.at_most(f"{case.name}: difference to PyTorch", ours.difference, "", RIGHT)
    yield Claim.at_most(f"{case.name}: import", prepared.import_s, "s", IMPORT_S)
    yield Claim.at_most(f"{case.name}: plan, gzip", prepared.plan_gzip_bytes, "bytes", PLAN_BYTES)
    if (peak := held.held.get(OURS)) is not None:
        what = f"{case.name}: peak memory without the browser's code and an empty worker"
        share = (peak.network.own_bytes - peak.worker.own_bytes) / prepared.memory_bytes
        yield Claim.at_most(what, share, "of weights and activations", MEMORY)


if __name__ == "__main__":
    main()

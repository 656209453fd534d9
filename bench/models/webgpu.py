"""Whole networks on WebGPU: our runtime beside onnxruntime-web, each in a worker, in turns.

The page first screens the kernels of each network's workloads on its GPU, those that may matter
most first, as agents would have done before. Here it runs on Chromium's SwiftShader, which is a CPU
and says nothing of a GPU's times. For a GPU, `--export FOLDER` writes all but the weights;
`python -m bench.models.gpu_site FOLDER` makes these by a seed on the machine where the folder is
served with cross-origin isolation, and `--import FILE` reports what the page answered there.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from bench.gpu.answer import PageAnswer
from bench.gpu.elsewhere import GpuPage, add_ways
from bench.gpu.report import adapter_facts
from bench.models.cases import TINY, NetworkCase
from bench.models.files import network_files
from bench.models.gpu_site import (
    BRIEFLY,
    DTYPES,
    F32,
    MOST_ERROR,
    ON_GPU,
    SCRIPT,
    WEIGHTS,
    ZOO,
    GpuNetwork,
    MemoryForm,
    export,
    fill_all,
    planned_network,
)
from bench.models.offering import offered
from bench.models.options import chosen_cases, network_parser
from bench.models.wasm import RIGHT
from bench.options import run
from bench.page_json import PageJson
from bench.report import Cell, Claim, Report
from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.graph.models import ModelCall

WARM = 3.0
"""Wanted: the peer's time over ours."""

WORTH_TUNING = 0.005
"""Share of a network's estimated time below which a workload keeps its default kernel."""

LARGE_SHARE = 0.05
MOST_CANDIDATES, FEW_CANDIDATES = 70, 16
"""So many are screened of a workload with so large a share, and of others."""

DISPATCH_S, FLOPS_S, BYTES_S = 3e-6, 20e12, 2e12
"""A large GPU takes so long for a kernel that does nothing, and does in a second: norms and gathers
have few operations and yet their share of a run."""

FIGURES = (
    *("median_ms", "least_ms", "overlapped_ms", "into_ms", "reading_ms", "limit_ms"),
    *("calls", "gpu_ms", "gflops", "faster", "at_most"),
)

TINY_OPTIONS = ("--only", TINY.name)


class TimedEngine(PageJson, frozen=True, kw_only=True):
    """Mirrors the times of `page/src/models-webgpu.ts`. Milliseconds of a run alone, of one among
    nine that are under way at once, and of one that writes its outputs to the memory of those
    before. The peer allows neither of the latter. `difference` is null where an output is no
    number, as sums in f16 may overflow."""

    name: str
    samples_ms: tuple[float, ...]
    overlapped_ms: tuple[float, ...]
    into_ms: tuple[float, ...] = ()
    difference: float | None


class RunParts(PageJson, frozen=True, kw_only=True):
    """Mirrors the parts of `page/src/models/run-parts.ts`: medians of a run that is awaited."""

    name: str
    encode_ms: float
    gpu_ms: float | None
    mapped_ms: float
    total_ms: float


class Reading(PageJson, frozen=True, kw_only=True):
    """Mirrors the reading of `page/src/models/run-parts.ts`: a run that computes nothing and reads
    the outputs."""

    piece_bytes: int
    reused: bool
    ms: float


class ProfiledKernel(PageJson, frozen=True, kw_only=True):
    """Microseconds of one of its calls, where they follow each other without a gap."""

    workload: str
    calls: int
    us: float


class GpuProfile(PageJson, frozen=True, kw_only=True):
    """`token_ms`: of a run among many that follow each other without a gap."""

    token_ms: float
    kernels: tuple[ProfiledKernel, ...]


class GpuNetworkAnswer(PageJson, frozen=True, kw_only=True):
    """`failures`: by engine. `times`: nanoseconds of each screened candidate, by workload. `calls`
    of a run; `parts` in several ways of submitting one; `weights` as ours are stored, `dtype` as
    values lie in memory."""

    name: str
    flops: int
    calls: int = 0
    weights: str = F32
    dtype: str = F32
    times: dict[str, tuple[tuple[str, float], ...]]
    timed: tuple[TimedEngine, ...]
    parts: tuple[RunParts, ...] = ()
    readings: tuple[Reading, ...] = ()
    profile: GpuProfile | None = None
    failures: dict[str, str]


class GpuModelsAnswer(PageAnswer, frozen=True, kw_only=True):
    contests: tuple[GpuNetworkAnswer, ...]


def main() -> None:
    options = network_parser("Whole networks on WebGPU, on our kernels and on onnxruntime-web's.")
    options.add_argument(
        "--weights",
        choices=WEIGHTS,
        default=F32,
        help="how ours are stored; the peer has f32",
    )
    options.add_argument(
        "--dtype", choices=DTYPES, default=F32, help="what values lie as in memory, ours and theirs"
    )
    add_ways(options)
    run(options, PAGE.measure, tiny=TINY_OPTIONS)


def _write(folder: Path, options: Namespace, gpu: GpuModel, elsewhere: bool) -> None:
    networks = [_network(folder / ZOO, options, case, gpu) for case in chosen_cases(options)]
    export(folder, networks, ON_GPU if elsewhere else BRIEFLY)


def _network(zoo: Path, options: Namespace, case: NetworkCase, gpu: GpuModel) -> GpuNetwork:
    file = network_files(options.folder, case).onnx
    form = MemoryForm(dtype=options.dtype, weights=options.weights)
    planned = planned_network(file, case.dimensions, case.name, form)
    (plan,), (calls,) = planned.plans, planned.calls
    tuned = dict(_worth_tuning(calls))
    return GpuNetwork(
        name=case.name,
        dimensions=case.dimensions,
        onnx=file,
        flops=sum(call.flops for call in calls),
        spaces=offered(zoo, plan, planned.workloads, gpu, tuned),
        form=form,
    )


def _worth_tuning(calls: tuple[ModelCall, ...]) -> Iterator[tuple[str, int]]:
    """Keys of workloads, those that take the most time first, and how many candidates of each."""
    total_s = sum(map(_estimated_s, calls))
    for call in sorted(calls, key=_estimated_s, reverse=True):
        share = _estimated_s(call) / total_s
        if share >= WORTH_TUNING:
            most = MOST_CANDIDATES if share >= LARGE_SHARE else FEW_CANDIDATES
            yield call.workload.key, most


def _estimated_s(call: ModelCall) -> float:
    # A lookup reads few rows of its table.
    most = 4 * call.workload.flops
    moved = sum(min(tensor.size_bytes, most) for tensor in call.workload.tensors)
    return call.flops / FLOPS_S + call.calls * (DISPATCH_S + moved / BYTES_S)


def gpu_models_report(answer: GpuModelsAnswer, described_as: Mapping[str, Cell]) -> Report:
    rates = _product_rates(answer.contests)
    limits = [_limit_ms(each, rates.get(each.dtype)) for each in answer.contests]
    pairs = tuple(zip(answer.contests, limits, strict=True))
    return Report(
        name="models-webgpu",
        machine={**described_as, **adapter_facts(answer)},
        rows=[row for each, limit_ms in pairs for row in _rows(each, limit_ms)],
        claims=[claim for each, limit_ms in pairs for claim in _claims(each, limit_ms)],
    )


def _product_rates(contests: Sequence[GpuNetworkAnswer]) -> dict[str, float]:
    """Operations in a millisecond of the fastest product of all networks, by dtype."""
    rates: dict[str, float] = {}
    for found in contests:
        for kernel in found.profile.kernels if found.profile else ():
            if not kernel.workload.startswith("program:"):
                rate = Workload.parse(kernel.workload).flops / kernel.us * 1e3
                rates[found.dtype] = max(rate, rates.get(found.dtype, 0.0))
    return rates


def _limit_ms(found: GpuNetworkAnswer, rate: float | None) -> float | None:
    """Computes what no kernels would undercut: all operations at the rate of the fastest product,
    and then the outputs read to memory that is there; or just reading them to fresh memory, which
    may be touched while the GPU computes."""
    reused, fresh = (_reading_ms(found, reused=reused) for reused in (True, False))
    if rate is None or reused is None or fresh is None:
        return None
    return max(fresh, found.flops / rate + reused)


def _rows(found: GpuNetworkAnswer, limit_ms: float | None) -> Iterator[dict[str, Any]]:
    """`faster`: the peer's median over ours; `gpu_ms`: what the GPU computes in a run that is
    awaited; `reading_ms`: a run that computes nothing takes so long to read the outputs; `limit_ms`
    and `at_most`: what no kernels would undercut, and how much faster than the peer that is."""
    peer = next((each for each in found.timed if each.name != "kernelzoo"), None)
    awaited = next((each for each in found.parts if each.name == "awaited"), None)
    for timed in found.timed:
        median_ms = median(timed.samples_ms)
        ours = timed.name == "kernelzoo"
        reading_ms = _reading_ms(found, reused=False) if ours else None
        yield {
            "network": found.name,
            "engine": timed.name,
            "median_ms": median_ms,
            "least_ms": min(timed.samples_ms),
            "overlapped_ms": median(timed.overlapped_ms) if timed.overlapped_ms else None,
            "into_ms": median(timed.into_ms) if timed.into_ms else None,
            "reading_ms": reading_ms,
            "limit_ms": limit_ms if ours else None,
            "calls": found.calls if ours else None,
            "weights": found.weights if ours else F32,
            "dtype": found.dtype,
            "gpu_ms": awaited.gpu_ms if ours and awaited else None,
            "gflops": found.flops / median_ms / 1e6,
            "faster": median(peer.samples_ms) / median_ms if peer else None,
            "at_most": median(peer.samples_ms) / limit_ms if ours and peer and limit_ms else None,
            "difference": timed.difference,
            "screened": len(found.times),
            "note": "" if timed.difference is not None else "outputs are no numbers",
        }
    for engine, failure in found.failures.items():
        empty = dict.fromkeys(FIGURES)
        yield {
            "network": found.name,
            "engine": engine,
            **empty,
            "weights": found.weights,
            "dtype": found.dtype,
            "difference": None,
            "screened": len(found.times),
            "note": failure,
        }


def _reading_ms(found: GpuNetworkAnswer, *, reused: bool) -> float | None:
    """The least of all sizes of staging buffers."""
    return min((each.ms for each in found.readings if each.reused == reused), default=None)


def _claims(found: GpuNetworkAnswer, limit_ms: float | None) -> Iterator[Claim]:
    engines = {each.name == "kernelzoo": each for each in found.timed}
    ours, peer = engines.get(True), engines.get(False)
    if ours is None:
        yield Claim.at_least(f"{found.name}: runs", 0, "", 1)
        return
    name = found.name if found.dtype == F32 else f"{found.name} in {found.dtype}"
    right = RIGHT if found.dtype == F32 else MOST_ERROR[found.dtype]
    difference = inf if ours.difference is None else ours.difference
    yield Claim.at_most(f"{name}: difference to NumPy in f32", difference, "", right)
    if peer is None:
        return
    peer_ms = median(peer.samples_ms)
    what = f"{name}: faster than onnxruntime-web"
    factor = peer_ms / median(ours.samples_ms)
    if limit_ms is None or peer_ms / limit_ms >= WARM or not ours.into_ms:
        yield Claim.at_least(what, factor, "×", WARM)
        return
    yield Claim.at_least(f"{what} (at most {peer_ms / limit_ms:.3g} ×)", factor, "×", WARM)
    into = f"{what}, outputs in given memory"
    yield Claim.at_least(into, peer_ms / median(ours.into_ms), "×", WARM)


PAGE = GpuPage(
    script=SCRIPT, answer=GpuModelsAnswer, write=_write, report=gpu_models_report, fill=fill_all
)

if __name__ == "__main__":
    main()

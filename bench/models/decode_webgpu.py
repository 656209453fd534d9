"""Language models on WebGPU, beside onnxruntime-web as transformers.js drives it.

Both decode the same weights of 4 bits, made by a seed. The page also takes from our decoder what
makes it fast, one thing at a time: what it reuses, what it awaits, how much it submits at once.
Here it runs on Chromium's SwiftShader, which is a CPU and says nothing of a GPU's times. For a GPU,
`--export FOLDER` writes all but the weights; `python -m bench.models.decode_site FOLDER` makes them
on the machine where the folder is served, and `--import FILE` reports what the page answered there.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.gpu.answer import PageAnswer
from bench.gpu.elsewhere import GpuPage, add_ways
from bench.gpu.report import adapter_facts
from bench.models.decode_site import (
    F16_ERROR,
    GPU_PAGE,
    ExportedDecoder,
    export,
    fill_all,
    plan_without_golden,
)
from bench.models.decoders import CASES, FEW_VARIANTS, TINY, VARIANTS
from bench.models.gpu_site import DTYPES, F32, ON_GPU, ZOO, ContestEffort
from bench.models.offering import offered
from bench.options import parser, run
from bench.page_json import PageJson
from bench.report import Cell, Claim, Report
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.operators.decoding import STATE, attention_shape
from kernelzoo.domain.operators.prefill import block_attention_shape
from kernelzoo.domain.workload import ProgramWorkload, Workload

PREFILL_MS = 12.0
TOKEN_MS = 1.0
LONE_FETCH_MS = 1.1
FASTER = 8.0
RIGHT = 1e-4
"""Wanted: 128 tokens of a prompt, a token with overlapped fetches, a token a fetch, the peer's time
over ours, the difference of logits as a share of the largest."""

UNTUNED = ContestEffort(rounds=1, tune_ms=0)
EFFORT = replace(ON_GPU, rounds=7, tune_ms=30_000)
MOST_CANDIDATES = 40
"""So many of a workload are screened."""
TINY_OPTIONS = ("--only", TINY)
OURS, PEER = "kernelzoo", "onnxruntime-web"


class Decoded(PageJson, frozen=True, kw_only=True):
    """Mirrors the answer of `page/src/decode/request.ts`. Samples of each round: milliseconds until
    the first token was there, and of a token after it. `threads`: on WebAssembly."""

    engine: str
    threads: int = 1
    context: int
    interval: int
    prefill_ms: tuple[float, ...]
    token_ms: tuple[float, ...]


class Varied(PageJson, frozen=True, kw_only=True):
    """Our decoder without some of what makes it fast. `flights`: fetches that are not awaited."""

    name: str
    reuse: str
    flights: int
    interval: int
    submission: str
    token_ms: tuple[float, ...]


class KernelShare(PageJson, frozen=True, kw_only=True):
    """`us`: the mean of its calls in a token, back to back."""

    workload: str
    calls: int
    us: float


class Profile(PageJson, frozen=True, kw_only=True):
    """Times on the GPU alone: of a token, and of each kernel in it."""

    context: int
    token_ms: float
    kernels: tuple[KernelShare, ...]


class DecoderAnswer(PageJson, frozen=True, kw_only=True):
    """`cache`: what keys and values of ours are in memory. `differences`: of logits to NumPy's, by
    engine, as a share of the largest. `same_tokens`: of those that both engines generated, how many
    are equal from the first on. `calls`: of a token. `block_profiles`: of the last block of a
    prompt, in place of a token."""

    name: str
    cache: str = F32
    calls: int
    tokens: int
    same_tokens: int
    differences: dict[str, float]
    decoded: tuple[Decoded, ...]
    varied: tuple[Varied, ...]
    profiles: tuple[Profile, ...]
    block_profiles: tuple[Profile, ...] = ()
    times: dict[str, tuple[tuple[str, float], ...]]
    by_sum: tuple[str, ...] = ()
    failures: dict[str, str]


class DecodingAnswer(PageAnswer, frozen=True, kw_only=True):
    decoders: tuple[DecoderAnswer, ...]


def main() -> None:
    options = parser("Language models on WebGPU, decoded by us and by onnxruntime-web.")
    usual = [name for name in CASES if name != TINY]
    options.add_argument("--only", nargs="+", choices=list(CASES), default=usual)
    options.add_argument(
        "--cache",
        choices=DTYPES,
        default=F32,
        help="what keys and values of ours are in memory; the peer's are f32",
    )
    add_ways(options)
    run(options, PAGE.measure, tiny=TINY_OPTIONS)


def _write(folder: Path, options: Namespace, gpu: GpuModel, elsewhere: bool) -> None:
    cache = DType(options.cache)
    decoders = [_decoder(folder / ZOO, name, cache, gpu, tuned=elsewhere) for name in options.only]
    variants = FEW_VARIANTS if options.only == [TINY] else VARIANTS
    export(folder, decoders, variants, EFFORT if elsewhere else UNTUNED)


def _decoder(zoo: Path, name: str, cache: DType, gpu: GpuModel, *, tuned: bool) -> ExportedDecoder:
    case = CASES[name]
    case = replace(case, config=replace(case.config, cache=cache))
    plan, workloads = plan_without_golden(name, case)
    screened = {workload.key: MOST_CANDIDATES for workload in workloads if tuned}
    spaces = offered(zoo, plan, workloads, gpu, screened)
    return ExportedDecoder(
        name=name, case=case, spaces=spaces, words=dict(_words(workloads, case.config.length))
    )


POSITION_PLACE = 3
"""The index of the position among the inputs of attention over a cache."""


def _words(
    workloads: Sequence[Workload], length: int
) -> Iterator[tuple[str, Mapping[int, tuple[int, ...]]]]:
    """Attention is timed where it works in the benchmark: a token in the middle of its context, a
    block in the middle of a long prompt."""
    for workload in workloads:
        if not isinstance(workload, ProgramWorkload):
            continue
        if attention_shape(workload.program):
            place = length // 2
        elif block_attention_shape(workload.program):
            place = length // 4
        else:
            continue
        yield workload.key, {POSITION_PLACE: (place, length, *(0,) * (STATE - 2))}


def decoding_report(answer: DecodingAnswer, described_as: Mapping[str, Cell]) -> Report:
    return Report(
        name="decode-webgpu",
        machine={**described_as, **adapter_facts(answer)},
        rows=[row for each in answer.decoders for row in _rows(each)],
        claims=[claim for each in answer.decoders for claim in _claims(each)],
    )


def _rows(found: DecoderAnswer) -> Iterator[dict[str, Any]]:
    """`what`: an engine, what our decoder goes without, or a kernel of a token."""
    empty = {
        "model": found.name,
        "cache": found.cache,
        "calls": found.calls,
        **dict.fromkeys(("context", "interval", "flights", "token_ms", "prefill_ms")),
        "note": "",
    }
    for each in found.decoded:
        yield empty | {
            "what": each.engine,
            "cache": found.cache if each.engine == OURS else F32,
            "context": each.context,
            "interval": each.interval,
            "token_ms": median(each.token_ms),
            "prefill_ms": median(each.prefill_ms),
        }
    for varied in found.varied:
        yield empty | {
            "what": varied.name,
            "interval": varied.interval,
            "flights": varied.flights,
            "token_ms": median(varied.token_ms),
            "note": f"{varied.reuse}; submitted by {varied.submission}",
        }
    for column, profiles in (
        ("token_ms", found.profiles),
        ("prefill_ms", found.block_profiles),
    ):
        for profile in profiles:
            alone = empty | {"context": profile.context}
            yield alone | {"what": "on the GPU alone", column: profile.token_ms}
            for kernel in profile.kernels:
                yield alone | {
                    "what": kernel.workload,
                    "calls": kernel.calls,
                    column: kernel.calls * kernel.us / 1e3,
                    "note": f"{kernel.us:.2f} µs a call",
                }
    for what, failure in found.failures.items():
        yield empty | {"what": what, "note": failure}


def _claims(found: DecoderAnswer) -> Iterator[Claim]:
    name = found.name if found.cache == F32 else f"{found.name} with a cache of {found.cache}"
    ours = [each for each in found.decoded if each.engine == OURS]
    peers = {each.context: each for each in found.decoded if each.engine == PEER}
    if not ours:
        yield Claim.at_least(f"{name}: runs", 0, "", 1)
        return
    for engine, difference in found.differences.items():
        right = _right(found.cache if engine == OURS else F32)
        yield Claim.at_most(f"{name}: logits of {engine} to NumPy's", difference, "", right)
    if peers:
        yield Claim.at_least(f"{name}: equal tokens", found.same_tokens, "", found.tokens)
    for each in ours:
        told, token_ms = f"{name} behind {each.context}", median(each.token_ms)
        if each.interval == 1:
            yield Claim.at_most(f"{told}: a token, one a fetch", token_ms, "ms", LONE_FETCH_MS)
            continue
        yield Claim.at_most(f"{told}: a token", token_ms, "ms", TOKEN_MS)
        if each.context in peers:
            ratio = median(peers[each.context].token_ms) / token_ms
            yield Claim.at_least(f"{told}: faster than {PEER}", ratio, "×", FASTER)
        if each.context == min(case.context for case in ours):
            prefill_ms = median(each.prefill_ms)
            yield Claim.at_most(f"{told}: its prompt", prefill_ms, "ms", PREFILL_MS)


def _right(cache: str) -> float:
    """Logits may differ so much from NumPy's, whose cache is f32."""
    return RIGHT if cache == F32 else F16_ERROR


PAGE = GpuPage(
    script=GPU_PAGE.script,
    answer=DecodingAnswer,
    write=_write,
    report=decoding_report,
    fill=fill_all,
)

if __name__ == "__main__":
    main()

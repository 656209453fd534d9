"""Language models on WebGPU, beside onnxruntime-web as transformers.js drives it.

Both decode the same weights of 4 bits, made by a seed. The page also takes from our decoder what
makes it fast, one thing at a time: what it reuses, what it awaits, how much it submits at once.
Here it runs on Chromium's SwiftShader, which is a CPU and says nothing of a GPU's times. For a GPU,
`--export FOLDER` writes all but the weights; `python -m bench.models.decode_site FOLDER` makes them
on the machine where the folder is served, and `--import FILE` reports what the page answered there.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from bench.gpu.answer import PageAnswer
from bench.gpu.browser import answered
from bench.gpu.report import adapter_facts
from bench.models.decode_site import (
    SCRIPT,
    ExportedDecoder,
    export,
    fill_all,
    plan_without_golden,
)
from bench.models.decoders import CASES, FEW_VARIANTS, TINY, VARIANTS
from bench.models.gpu_site import ON_GPU, ZOO, ContestEffort
from bench.models.ours import learn_roundings
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from fixtures.model_site import Files, SiteKernels, described, write_model
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.gpu import GPU_MODELS, GpuModel
from kernelzoo.domain.operators.decoding import STATE, attention_shape
from kernelzoo.domain.operators.prefill import block_attention_shape
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload, Workload
from services.tuner.schedules.registry import lite_space

PREFILL_MS = 12.0
TOKEN_MS = 1.0
LONE_FETCH_MS = 1.1
FASTER = 8.0
RIGHT = 1e-4
"""Wanted: 128 tokens of a prompt, a token with overlapped fetches, a token a fetch, the peer's time
over ours, the difference of logits as a share of the largest."""

DEVICE_CLASS = "0123456789abcdef:r101-0:webgpu"
"""A class of which nothing is known."""
UNTUNED = ContestEffort(rounds=1, tune_ms=0)
MOST_CANDIDATES = 32
"""How many are screened of a workload, the most promising first."""
TINY_OPTIONS = ("--only", TINY)
OURS, PEER = "kernelzoo", "onnxruntime-web"


class _Camel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Named in JSON as TypeScript names it."""


class Decoded(_Camel, frozen=True, kw_only=True):
    """As in `page/src/decode/request.ts`. Samples of each round: milliseconds until the first token
    was there, and of a token after it."""

    engine: str
    context: int
    interval: int
    prefill_ms: tuple[float, ...]
    token_ms: tuple[float, ...]


class Varied(_Camel, frozen=True, kw_only=True):
    """Our decoder without some of what makes it fast. `flights`: fetches that are not awaited."""

    name: str
    reuse: str
    flights: int
    interval: int
    submission: str
    token_ms: tuple[float, ...]


class KernelShare(_Camel, frozen=True, kw_only=True):
    """`us`: the mean of its calls in a token, back to back."""

    workload: str
    calls: int
    us: float


class Profile(_Camel, frozen=True, kw_only=True):
    """Times on the GPU alone: of a token, and of each kernel in it."""

    context: int
    token_ms: float
    kernels: tuple[KernelShare, ...]


class DecoderAnswer(_Camel, frozen=True, kw_only=True):
    """`differences`: of logits to NumPy's, by engine, as a share of the largest. `same_tokens`: of
    those that both engines generated, how many are equal from the first on. `calls`: of a token."""

    name: str
    calls: int
    tokens: int
    same_tokens: int
    differences: dict[str, float]
    decoded: tuple[Decoded, ...]
    varied: tuple[Varied, ...]
    profiles: tuple[Profile, ...]
    times: dict[str, tuple[tuple[str, float], ...]]
    failures: dict[str, str]


class DecodingAnswer(PageAnswer, frozen=True, kw_only=True):
    decoders: tuple[DecoderAnswer, ...]


def main() -> None:
    options = parser("Language models on WebGPU, decoded by us and by onnxruntime-web.")
    usual = [name for name in CASES if name != TINY]
    options.add_argument("--only", nargs="+", choices=list(CASES), default=usual)
    options.add_argument("--model", choices=list(GPU_MODELS), help="whose space is exported")
    way = options.add_mutually_exclusive_group()
    way.add_argument("--export", type=Path, metavar="FOLDER", help="write the page there, only")
    way.add_argument("--import", type=Path, metavar="FILE", dest="answer", help="what it answered")
    options.add_argument("--gpu", default="", help="with --import: its name, as browsers hide it")
    run(options, measure, tiny=TINY_OPTIONS)


def measure(options: Namespace) -> Report | None:
    if options.answer is not None:
        return decoding_report(_parsed(options.answer), {"gpu": options.gpu})
    if options.export is not None:
        _export(options.export, options, options.model or "any", ON_GPU)
        return None
    with TemporaryDirectory() as made:
        folder = Path(made)
        _export(folder, options, options.model or "swiftshader", UNTUNED)
        fill_all(folder)
        files = {str(each.relative_to(folder)): each for each in folder.rglob("*.*")}
        answer = msgspec.json.decode(answered(files, SCRIPT), type=DecodingAnswer)
        return decoding_report(answer, machine())


def _export(folder: Path, options: Namespace, model: str, effort: ContestEffort) -> None:
    most = MOST_CANDIDATES if effort.tune_ms else 0
    decoders = [_decoder(folder / ZOO, name, GPU_MODELS[model], most) for name in options.only]
    variants = FEW_VARIANTS if options.only == [TINY] else VARIANTS
    export(folder, decoders, variants, effort)


def _decoder(zoo: Path, name: str, gpu: GpuModel, most: int) -> ExportedDecoder:
    """`most`: candidates of a workload to choose from."""
    case = CASES[name]
    plan, workloads = plan_without_golden(name, case)
    for workload in workloads:
        learn_roundings(workload)
    spaces = {each.key: lite_space(each, TargetKind.WEBGPU, gpu) for each in workloads}
    kernels = {
        key: SiteKernels(candidate=space[0], fallback=space[0]) for key, space in spaces.items()
    }
    write_model(zoo, DEVICE_CLASS, plan, Files(weights=b"", golden=b""), kernels)
    artifacts: dict[str, Artifact] = {}
    offered = {
        key: [described(candidate, None, artifacts) for candidate in islice(space, most)]
        for key, space in spaces.items()
        if most > 0 and len(space) > 1
    }
    for artifact, made in artifacts.items():
        (zoo / "v1" / "artifacts" / f"{artifact}.{made.manifest.target}").write_bytes(made.body)
    for kind in ("weights", "golden"):
        (zoo / f"{name}.{kind}").unlink()
    print(f"{name} is exported", flush=True)
    return ExportedDecoder(
        name=name, case=case, spaces=offered, words=dict(_words(workloads, case.config.length))
    )


POSITION_PLACE = 3
"""The index of the position among the inputs of attention over a cache."""


def _words(
    workloads: Sequence[Workload], length: int
) -> Iterator[tuple[str, Mapping[int, tuple[int, ...]]]]:
    """Attention is timed in the middle of its context: there is a token, or a block begins."""
    words = (length // 2, length, *(0,) * (STATE - 2))
    for workload in workloads:
        if isinstance(workload, ProgramWorkload) and (
            attention_shape(workload.program) or block_attention_shape(workload.program)
        ):
            yield workload.key, {POSITION_PLACE: words}


def _parsed(path: Path) -> DecodingAnswer:
    if not path.is_file():
        raise CannotMeasure(f"{path} does not exist; save there what the page answered")
    try:
        return msgspec.json.decode(path.read_bytes(), type=DecodingAnswer)
    except msgspec.DecodeError as error:
        raise CannotMeasure(f"{path} is no answer of the page: {error}") from error


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
        "calls": found.calls,
        **dict.fromkeys(("context", "interval", "flights", "token_ms", "prefill_ms")),
        "note": "",
    }
    for each in found.decoded:
        yield empty | {
            "what": each.engine,
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
    for profile in found.profiles:
        yield empty | {
            "what": "on the GPU alone",
            "context": profile.context,
            "token_ms": profile.token_ms,
        }
        for kernel in profile.kernels:
            yield empty | {
                "what": kernel.workload,
                "calls": kernel.calls,
                "context": profile.context,
                "token_ms": kernel.calls * kernel.us / 1e3,
                "note": f"{kernel.us:.2f} µs a call",
            }
    for what, failure in found.failures.items():
        yield empty | {"what": what, "note": failure}


def _claims(found: DecoderAnswer) -> Iterator[Claim]:
    name = found.name
    ours = [each for each in found.decoded if each.engine == OURS]
    peers = {each.context: each for each in found.decoded if each.engine == PEER}
    if not ours:
        yield Claim.at_least(f"{name}: runs", 0, "", 1)
        return
    for engine, difference in found.differences.items():
        yield Claim.at_most(f"{name}: logits of {engine} to NumPy's", difference, "", RIGHT)
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


if __name__ == "__main__":
    main()

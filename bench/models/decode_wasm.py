"""Language models on WebAssembly, beside onnxruntime-web as transformers.js drives it.

Both decode the same weights of 4 bits, made by a seed, in one page, in turns. Ours run on the
kernels that a zoo hands out before any agent has measured: the first of their spaces.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.gpu.browser import answered
from bench.gpu.elsewhere import parsed
from bench.models.decode_site import (
    DecoderPage,
    ExportedDecoder,
    fill_all,
    plan_without_golden,
    write_job,
)
from bench.models.decode_webgpu import OURS, PEER, RIGHT, Decoded
from bench.models.decoders import CASES, TINY
from bench.models.gpu_site import ZOO
from bench.models.offering import write_unfilled
from bench.models.ours import CLASS
from bench.models.tuning import contenders
from bench.options import parser, run
from bench.page_json import PageJson
from bench.report import Cell, Claim, Report, machine
from fixtures.language_onnx import OnnxForm
from fixtures.model_site import SiteKernels

PAGE = DecoderPage(name="decode-wasm", script="kernelzooWasmDecoding.run()")
USUAL = "smollm-135m"
THREADS = (1, 2)
CONTEXTS, TOKENS, ROUNDS = (16, 128), 16, 5
FORM = OnnxForm(dense_table=True)
"""onnxruntime-web has no GatherBlockQuantized on WebAssembly."""

FASTER = 1.0
"""The peer's time over ours."""


class WasmDecoded(PageJson, frozen=True, kw_only=True):
    """Mirrors the answer of `page/src/decode/request.ts`. `difference`: of the peer's logits to
    NumPy's, as a share of the largest; ours are held to NumPy's when they are opened."""

    name: str
    tokens: int
    same_tokens: int
    difference: float
    decoded: tuple[Decoded, ...]


class WasmDecodingAnswer(PageJson, frozen=True, kw_only=True):
    decoders: tuple[WasmDecoded, ...]


def main() -> None:
    options = parser("Language models on WebAssembly, decoded by us and by onnxruntime-web.")
    options.add_argument("--only", nargs="+", choices=list(CASES), default=[USUAL])
    options.add_argument("--rounds", type=int, default=ROUNDS)
    run(options, _measure, tiny=("--only", TINY, "--rounds", "1"))


def _measure(options: Namespace) -> Report:
    with TemporaryDirectory() as made:
        folder = Path(made)
        _write(folder, options.only, options.rounds)
        fill_all(folder, FORM)
        files = {str(each.relative_to(folder)): each for each in folder.rglob("*.*")}
        answer = parsed(answered(files, PAGE.script, ()), WasmDecodingAnswer)
    return Report(
        name="decode-wasm",
        machine=machine(),
        rows=[row for each in answer.decoders for row in _rows(each)],
        claims=[claim for each in answer.decoders for claim in _claims(each)],
    )


def _write(folder: Path, names: Sequence[str], rounds: int) -> None:
    decoders = [_decoder(folder / ZOO, name) for name in names]
    write_job(folder, PAGE, decoders, {"rounds": rounds, "threads": THREADS})


def _decoder(zoo: Path, name: str) -> ExportedDecoder:
    case = CASES[name]
    if name != TINY:
        case = replace(case, contexts=CONTEXTS, tokens=TOKENS)
    plan, workloads = plan_without_golden(name, case)
    first = {each.key: contenders(each)[0] for each in workloads}
    kernels = {key: SiteKernels(candidate=each, fallback=each) for key, each in first.items()}
    write_unfilled(zoo, CLASS, plan, kernels)
    return ExportedDecoder(name=name, case=case, spaces={}, words={})


def _rows(found: WasmDecoded) -> Iterator[dict[str, Cell]]:
    for each in found.decoded:
        yield {
            "model": found.name,
            "what": each.engine,
            "threads": each.threads,
            "context": each.context,
            "token_ms": median(each.token_ms),
            "prefill_ms": median(each.prefill_ms),
        }


def _claims(found: WasmDecoded) -> Iterator[Claim]:
    name = found.name
    yield Claim.at_most(f"{name}: logits of {PEER} to NumPy's", found.difference, "", RIGHT)
    yield Claim.at_least(f"{name}: equal tokens", found.same_tokens, "", found.tokens)
    peers = {(each.threads, each.context): each for each in found.decoded if each.engine == PEER}
    for each in found.decoded:
        if each.engine != OURS:
            continue
        peer = peers[each.threads, each.context]
        told = f"{name} behind {each.context}, threads: {each.threads}"
        token = median(peer.token_ms) / median(each.token_ms)
        yield Claim.at_least(f"{told}: a token, faster than {PEER}", token, "×", FASTER)
        prompt = median(peer.prefill_ms) / median(each.prefill_ms)
        yield Claim.at_least(f"{told}: its prompt, faster than {PEER}", prompt, "×", FASTER)


if __name__ == "__main__":
    main()

"""Decoders and the WebGPU kernels of their workloads as a folder of static files.

It is made in two steps, as that of `bench.models.gpu_site`: the export needs the compiler and
leaves the weights out. `python -m bench.models.decode_site FOLDER` makes them by a seed on the
machine where the folder is served, with the plan, the golden logits and the peer's ONNX file.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bench.models.decoders import CASES, TINY, WEIGHTS, DecoderCase, Variant
from bench.models.gpu_site import ZOO, ContestEffort, fill_answer, fill_models, write_page
from bench.report import commit
from fixtures.language_onnx import OnnxForm, decoder_onnx
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import Golden, GoldenPart, Plan
from kernelzoo.domain.workload import Workload
from services.tuner.graph.models import model_calls
from services.tuner.graph.planning import planned
from services.tuner.graph.weights import weight_file
from services.tuner.language.decoder import LOGITS, decoder_graph
from services.tuner.language.operands import POSITION, PROMPT
from services.tuner.language.planning import TOLERANCE, plan_decoder

PEER_SCRIPT = "onnxruntime-decoder.js"
USUAL = OnnxForm()
F16_ERROR = 5e-3
"""By how much logits may differ with a cache of f16, as a share of the largest. NumPy's differ by
5e-4 with these weights, and a GPU may round in either direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderPage:
    """`name`: of its document and its script. `script`: a promise of what it answers."""

    name: str
    script: str


GPU_PAGE = DecoderPage(name="decode-webgpu", script="kernelzooDecoding.run()")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedDecoder:
    """`spaces`: the kernels to choose from, as a manifest has them, by workload. `words`: what
    inputs of i32 hold while they are timed, by workload and place."""

    name: str
    case: DecoderCase
    spaces: Mapping[str, Sequence[Mapping[str, Any]]]
    words: Mapping[str, Mapping[int, Sequence[int]]]


def plan_without_golden(name: str, case: DecoderCase) -> tuple[Plan, tuple[Workload, ...]]:
    """Plans with golden outputs that nobody computed, as they take long. The workloads are those of
    a token and of a block of the prompt in turns, of either the ones with most operations first."""
    config = case.config
    made = decoder_graph(config, WEIGHTS)
    graph = made.graph
    file, (parts,) = weight_file([graph])
    sizes = {port.name: prod(graph.values[port.value].shape) for port in graph.inputs}
    golden = Golden(
        sha256="0" * 64,
        inputs=tuple(GoldenPart(name=n, offset=0, bytes=4 * size) for n, size in sizes.items()),
        outputs=(GoldenPart(name=LOGITS, offset=0, bytes=4 * config.vocabulary),),
        tolerance=TOLERANCE,
    )
    plan = planned(graph, name, {"context": config.length}, parts, file, golden)
    token, block = (
        model_calls(replace(graph, nodes=nodes))
        for nodes in (graph.nodes[made.step :], graph.nodes[: made.step])
    )
    pairs = zip_longest(token, block)
    found = {call.workload.key: call.workload for pair in pairs for call in pair if call}
    return plan, tuple(found.values())


def export(
    folder: Path,
    decoders: Sequence[ExportedDecoder],
    variants: Sequence[Variant],
    effort: ContestEffort,
) -> None:
    """Besides what `fixtures.model_site.write_model` wrote to the folder of the zoo. Raises
    CannotMeasure where the page is not built."""
    told = {
        "commit": commit() or "",
        "rounds": effort.rounds,
        "tuneMs": effort.tune_ms,
        "variants": [asdict(each) for each in variants],
    }
    write_job(folder, GPU_PAGE, decoders, told)


def write_job(
    folder: Path,
    page: DecoderPage,
    decoders: Sequence[ExportedDecoder],
    told: Mapping[str, Any],
) -> None:
    """A page, and what it is asked of decoders besides what is `told`."""
    scripts = (f"{page.name}.js", PEER_SCRIPT)
    write_page(folder, f"{page.name}.html", scripts, page.script)
    job = {**told, "decoders": [_asked(each) for each in decoders]}
    (folder / "job.json").write_text(json.dumps(job))


def _asked(decoder: ExportedDecoder) -> dict[str, Any]:
    config = decoder.case.config
    return {
        "name": decoder.name,
        "cache": config.cache,
        "contexts": decoder.case.contexts,
        "tokens": decoder.case.tokens,
        "layers": config.layers,
        "kvHeads": config.kv_heads,
        "headDim": config.head_dim,
        "vocabulary": config.vocabulary,
        "spaces": decoder.spaces,
        "words": decoder.words,
        "onnx": f"{decoder.name}.onnx",
        # Rows of the tiny one are too short for activations of 8 bits.
        "exact": f"{decoder.name}{'' if decoder.name == TINY else '.exact'}.onnx",
        "zoo": f"{ZOO}/{decoder.name}.json",
    }


def fill(folder: Path, asked: Mapping[str, Any], form: OnnxForm) -> dict[str, Any]:
    """Makes the weights of a decoder and what is made of them: the plan, the golden logits, the
    ONNX file in a form. Gives what the job says of the golden prompt."""
    name, cache = asked["name"], DType(asked["cache"])
    config = replace(CASES[name].config, cache=cache)
    model = decoder_onnx(config, WEIGHTS, form).SerializeToString()
    (folder / f"{name}.onnx").write_bytes(model)
    (folder / f"{name}.exact.onnx").write_bytes(_exact(model))
    made = plan_decoder(config, WEIGHTS, name, max_error=F16_ERROR)
    plan, golden = fill_answer(folder / ZOO, name, made)
    parts = {part.name: part for part in (*plan.golden.inputs, *plan.golden.outputs)}
    position, prompt, logits = (parts[part] for part in (POSITION, PROMPT, LOGITS))
    _, count, *_ = np.frombuffer(golden, np.int32, 4, position.offset).tolist()
    (folder / f"{name}.logits.bin").write_bytes(
        golden[logits.offset : logits.offset + logits.bytes]
    )
    return {
        "prompt": np.frombuffer(golden, np.int32, count, prompt.offset).tolist(),
        "logits": f"{name}.logits.bin",
    }


_LEVEL = b"accuracy_level\x18"
"""The name of the attribute, and what precedes its value in protobuf."""


def _exact(model: bytes) -> bytes:
    """The model with activations that stay numbers of f32: level 1 of onnxruntime. Copies of
    hundreds of megabytes differ in a byte a product."""
    return model.replace(_LEVEL + b"\x04", _LEVEL + b"\x01")


def fill_all(folder: Path, form: OnnxForm = USUAL) -> None:
    fill_models(folder, "decoders", partial(fill, form=form))


if __name__ == "__main__":
    fill_all(Path(sys.argv[1]))

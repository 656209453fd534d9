"""A language model as what a registration needs: its decoder's plan, weights, golden outputs."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import USUAL_FORM, Form
from kernelzoo.domain.plan import Golden, GoldenPart, Plan, PlanDecoder
from kernelzoo.domain.plan_checking import validated
from kernelzoo.errors import InvalidInput
from services.tuner.graph.models import (
    PlannedModel,
    allowing_f16,
    model_calls,
    refuse_f16_error,
)
from services.tuner.graph.planning import planned
from services.tuner.graph.storing import output_error
from services.tuner.graph.weights import weight_file
from services.tuner.language.block import BLOCK_ROWS
from services.tuner.language.checkpoint import Checkpoint, Safetensors
from services.tuner.language.config import LanguageConfig
from services.tuner.language.config_file import read_config
from services.tuner.language.decoder import CHOSEN, LOGITS, DecoderGraph, decoder_graph
from services.tuner.language.onnx_decoder import read_decoder
from services.tuner.language.operands import POSITION, PROMPT, TOKEN
from services.tuner.language.reference import Reference

GOLDEN_TOKENS = 8
SEED = 20_201
TOLERANCE = 1e-4


def plan_language_model(
    path: Path,
    name: str,
    lengths: Sequence[int] = (),
    form: Form = USUAL_FORM,
    cache: DType = DType.F32,
    max_error: float = 0.0,
) -> PlannedModel:
    """Plans of a folder with config.json and safetensors, or of a file of ONNX: one for each of
    `lengths`, the room for tokens, and one for as many as are usual where none is told. Matrices
    that are not quantised become so in the form. Raises InvalidInput for what is no sound model or
    does not fit a page, and UnsupportedModel for a model that cannot be imported."""
    longest = max(lengths, default=None)
    if path.is_file():
        config, read = read_decoder(path, longest)
        weights: Checkpoint = replace(read, form=form)
    else:
        config = read_config(path, longest)
        weights = Safetensors(path, config, form)
    config = replace(config, cache=cache)
    return plan_decoder(config, weights, name, lengths=lengths, max_error=max_error)


def plan_decoder(
    config: LanguageConfig,
    weights: Checkpoint,
    name: str,
    block_rows: int = BLOCK_ROWS,
    lengths: Sequence[int] = (),
    max_error: float = 0.0,
) -> PlannedModel:
    """Prompts are taken in blocks of so many rows. There is a plan for each of `lengths`, the
    shortest first; for the config's where none is told. The file of weights is the same for each
    dtype of the cache. Raises InvalidInput for a model that no page could hold, and where golden
    outputs with its cache differ by more than `max_error` of their largest magnitude."""
    lengths = sorted(lengths or [config.length])
    configs = [replace(config, length=each) for each in lengths]
    made = [decoder_graph(each, weights, block_rows) for each in configs]
    golden = [golden_file(each, weights, max_error) for each in configs]
    file, parts = weight_file([each.graph for each in made])
    plans = []
    for each, decoder, own, (told, _) in zip(configs, made, parts, golden, strict=True):
        plan = planned(decoder.graph, name, {"context": each.length}, own, file, told)
        plans.append(validated(replace(plan, decoder=_decoder(each, decoder, plan))))
    return PlannedModel(
        plans=tuple(plans),
        golden=tuple(body for _, body in golden),
        calls=tuple(model_calls(each.graph) for each in made),
        weights=file,
    )


def golden_file(
    config: LanguageConfig, weights: Checkpoint, max_error: float = 0.0
) -> tuple[Golden, bytes]:
    """A seeded prompt, and the logits behind its last token with a cache of f32. Raises
    InvalidInput for weights that make logits of it which are no numbers, and where those with the
    config's own cache differ by more than `max_error` of their largest magnitude."""
    random = np.random.default_rng(SEED)
    tokens = random.integers(0, config.vocabulary, min(GOLDEN_TOKENS, config.length))
    prompt = np.zeros(config.length, np.int32)
    prompt[: len(tokens)] = tokens
    position = np.array([0, len(tokens), 0, 0], np.int32)
    logits = Reference(replace(config, cache=DType.F32), weights).logits(tokens.tolist())
    if not np.isfinite(logits).all():
        raise InvalidInput(
            "the model's logits of a seeded prompt are infinite or no numbers, so its weights are "
            "damaged; fetch them again"
        )
    given = ((TOKEN, prompt[:1]), (POSITION, position), (PROMPT, prompt))
    golden, body = written_text(given, logits)
    if config.cache is DType.F16:
        halved = Reference(config, weights).logits(tokens.tolist())
        error = output_error({LOGITS: halved}, {LOGITS: logits})
        refuse_f16_error(error, max_error, "the cache")
        golden = allowing_f16(golden, error)
    return golden, body


def written_text(
    inputs: Sequence[tuple[str, NDArray[np.generic]]], logits: NDArray[np.float32]
) -> tuple[Golden, bytes]:
    """The file of the inputs of a text, by their names, and of the logits behind its last token."""
    parts, body = [], b""
    for name, entries in (*inputs, (LOGITS, logits)):
        data = entries.tobytes()
        parts.append(GoldenPart(name=name, offset=len(body), bytes=len(data)))
        body += data
    golden = Golden(
        sha256=sha256(body).hexdigest(),
        inputs=tuple(parts[:-1]),
        outputs=tuple(parts[-1:]),
        tolerance=TOLERANCE,
    )
    return golden, body


def _decoder(config: LanguageConfig, made: DecoderGraph, plan: Plan) -> PlanDecoder:
    names = [node.output for node in made.graph.nodes]
    token, position, prompt = (port.tensor for port in plan.inputs)
    head = names.index(LOGITS)
    return PlanDecoder(
        length=config.length,
        vocabulary=config.vocabulary,
        token=token,
        position=position,
        prompt=prompt,
        logits=plan.calls[head].tensors[-1],
        chosen=plan.calls[names.index(CHOSEN)].tensors[-1],
        rows=made.rows,
        step=made.step,
        head=head,
        stop=tuple(each for each in config.stop if each < config.vocabulary),
    )

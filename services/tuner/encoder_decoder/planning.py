"""A model of an encoder and a decoder as what a registration needs: plans, weights, golden
outputs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.quantised import Form
from kernelzoo.domain.plan import (
    Golden,
    Need,
    Plan,
    PlanDecoder,
    PlanEncoder,
)
from kernelzoo.domain.plan_checking import validated
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from kernelzoo.numerics.operators import NUMPY_DTYPES
from services.tuner.encoder_decoder.config import EncoderDecoderConfig
from services.tuner.encoder_decoder.config_file import read_config
from services.tuner.encoder_decoder.decoder import EncoderDecoderGraph, encoder_decoder_graph
from services.tuner.encoder_decoder.encoder import SOURCE
from services.tuner.encoder_decoder.layers import SPARE
from services.tuner.encoder_decoder.tensors import NamedTensors, safetensors
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.graph import Graph
from services.tuner.graph.models import PlannedModel, model_calls
from services.tuner.graph.planning import planned
from services.tuner.graph.weights import weight_file
from services.tuner.language.decoder import CHOSEN, LOGITS
from services.tuner.language.operands import POSITION, PROMPT, TOKEN
from services.tuner.language.planning import SEED, written_text

GOLDEN_TOKENS = 4
TEXT_ROWS = 32
"""The tokens of a text for which the encoder runs once, as kernels are tuned for both."""


def plan_encoder_decoder(
    folder: Path, name: str, lengths: Sequence[tuple[int | None, int | None]], form: Form
) -> PlannedModel:
    """Plans of a folder with config.json and safetensors, one for each of `lengths`: the room of
    the decoder and of the encoder. Raises InvalidInput for what is no sound model or does not fit a
    page, and UnsupportedModel for a model that cannot be imported."""
    configs = [read_config(folder, *each) for each in lengths]
    return plan_stacks(configs, safetensors(folder, form), name)


def plan_stacks(
    configs: Sequence[EncoderDecoderConfig], tensors: NamedTensors, name: str
) -> PlannedModel:
    """A plan of each config of one model, the shortest first. Raises as `plan_encoder_decoder`."""
    configs = sorted(configs, key=lambda each: (each.length, each.source_length))
    made = [encoder_decoder_graph(each, tensors) for each in configs]
    golden = [_golden_file(*each) for each in zip(configs, made, strict=True)]
    file, parts = weight_file([each.graph for each in made])
    plans = []
    for config, model, own, (told, _) in zip(configs, made, parts, golden, strict=True):
        dimensions = {"context": config.length, SOURCE: config.source_length}
        plan = planned(model.graph, name, dimensions, own, file, told)
        plans.append(validated(_with_decoder(config, model, plan)))
    return PlannedModel(
        plans=tuple(plans),
        golden=tuple(body for _, body in golden),
        calls=tuple(model_calls(each.graph) for each in made),
        weights=file,
    )


def _with_decoder(config: EncoderDecoderConfig, made: EncoderDecoderGraph, plan: Plan) -> Plan:
    calls = [node for node in made.graph.nodes if isinstance(node.op, Workload)]
    names = [node.output for node in calls]
    encoded = sum(isinstance(node.op, Workload) for node in made.graph.nodes[: made.encoder_nodes])
    token, position, prompt, source, spare = (port.tensor for port in plan.inputs)
    head = names.index(LOGITS)
    return replace(
        plan,
        needs=(*plan.needs, Need.ENCODER),
        decoder=PlanDecoder(
            length=config.length,
            vocabulary=config.vocabulary,
            token=token,
            position=position,
            prompt=prompt,
            logits=plan.calls[head].tensors[-1],
            chosen=plan.calls[names.index(CHOSEN)].tensors[-1],
            rows=TEXT_ROWS,
            step=encoded,
            head=head,
            stop=config.stop,
            encoder=PlanEncoder(
                source=source,
                spare=spare,
                length=config.source_length,
                vocabulary=config.source_vocabulary,
                cache=_cache(made, plan),
                start=config.start,
                suppressed=config.suppressed,
            ),
        ),
    )


def _cache(made: EncoderDecoderGraph, plan: Plan) -> tuple[int, ...]:
    """The tensors of the decoder's own keys and values."""
    states = {
        plan.states[tensor.state].name: number
        for number, tensor in enumerate(plan.tensors)
        if tensor.state is not None
    }
    return tuple(states[name] for name in made.caches)


def _golden_file(config: EncoderDecoderConfig, made: EncoderDecoderGraph) -> tuple[Golden, bytes]:
    """A seeded source and text, and the logits behind the text's last token. Raises InvalidInput
    for weights that make logits of them which are no numbers."""
    random = np.random.default_rng(SEED)
    states = _states(made.graph)
    if config.spectrogram is None:
        length = min(2 * GOLDEN_TOKENS, config.source_length)
        states[SOURCE][:length] = random.integers(0, config.source_vocabulary, length)
        states[SPARE][0] = config.source_length - length
    else:
        states[SOURCE][...] = random.uniform(-1, 1, states[SOURCE].shape)
    tokens = random.integers(0, config.vocabulary, GOLDEN_TOKENS)
    states[PROMPT][: len(tokens)] = tokens
    states[POSITION][1] = len(tokens)
    states[TOKEN][0] = tokens[0]
    given = [(name, states[name].copy()) for name in (TOKEN, POSITION, PROMPT, SOURCE, SPARE)]
    logits = text_logits(made, states)
    if not np.isfinite(logits).all():
        raise InvalidInput(
            "the model's logits of a seeded text are infinite or no numbers, so its weights are "
            "damaged; fetch them again"
        )
    return written_text(given, logits)


def _states(graph: Graph) -> dict[str, NDArray[np.generic]]:
    return {
        name: np.zeros(graph.values[name].shape, NUMPY_DTYPES[graph.values[name].dtype])
        for name in graph.states
    }


def text_logits(
    made: EncoderDecoderGraph, states: dict[str, NDArray[np.generic]]
) -> NDArray[np.float32]:
    """Runs the encoder, and the decoder on the tokens of its prompt, in NumPy. `states` are written
    in place. float32[vocabulary]"""
    graph = made.graph
    nodes = graph.nodes[made.encoder_nodes :]
    head = next(n for n, node in enumerate(nodes) if node.output == LOGITS)
    feeds = {port.name: states[port.value] for port in graph.inputs}
    evaluate(replace(graph, nodes=graph.nodes[: made.encoder_nodes], outputs=()), feeds, states)
    body = replace(graph, nodes=nodes[:head], outputs=())
    whole = replace(graph, nodes=nodes[: head + 1])
    prompt, end = states[PROMPT], int(states[POSITION][1])
    for place in range(end):
        states[POSITION][0], states[TOKEN][0] = place, prompt[place]
        found = evaluate(whole if place == end - 1 else body, feeds, states)
    return np.asarray(found[LOGITS].reshape(-1), np.float32)

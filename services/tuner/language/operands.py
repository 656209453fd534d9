"""Names what the calls of a decoder read, whether they take one token or a block: states and
weights."""

from dataclasses import dataclass

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.decoding import LANES, STATE, AttentionShape
from services.tuner.language.building import GraphBuilding, Matrix
from services.tuner.language.checkpoint import Checkpoint
from services.tuner.language.config import LanguageConfig
from services.tuner.language.quantise import Quantised

TOKEN, POSITION, PROMPT = "token", "position", "prompt"
BRANCH_NORMS = ("post_attention_layernorm", "post_feedforward_layernorm")
"""Norms of what attention and gate add to a row, as files name them."""


def gate_norm(config: LanguageConfig) -> str:
    """The norm before the gate: files of models that normalise branches name it otherwise."""
    return "pre_feedforward_layernorm" if config.normed_branches else "post_attention_layernorm"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerOperands:
    """`told` is the layer in names. `bias`, `head_gammas` and `branch_gammas` are () where the
    model has none."""

    told: str
    attention: AttentionShape
    tables: tuple[str, str]
    """Cosines and sines of the rotary embedding."""
    gamma: str
    projection: Matrix
    """Weights of the queries, then the keys, then the values."""
    bias: tuple[str, ...]
    head_gammas: tuple[str, ...]
    keys: str
    values: str
    output: Matrix
    gate_gamma: str
    gate: Matrix
    """The gate's rows, then those of what it lets through."""
    down: Matrix
    branch_gammas: tuple[str, ...]
    """Norms of what attention adds to a row, then of what the gate adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderOperands:
    token: str
    position: str
    prompt: str
    embedding: Matrix
    layers: tuple[LayerOperands, ...]
    gamma: str
    head: Matrix


def decoder_operands(
    made: GraphBuilding, config: LanguageConfig, weights: Checkpoint
) -> DecoderOperands:
    rows, width = config.vocabulary, config.width
    token = made.state(TOKEN, DType.I32, (1,))
    position = made.state(POSITION, DType.I32, (STATE,))
    prompt = made.state(PROMPT, DType.I32, (config.length,))
    tables = {False: _tables(made, config, weights, "")}
    if config.windowed_rotary is not None:
        tables[True] = _tables(made, config, weights, "windowed ")
    embedding = made.matrix("embedding", weights.matrix("model.embed_tokens.weight", rows, width))
    head = (
        embedding
        if config.tied
        else made.matrix("head", weights.matrix("lm_head.weight", rows, width))
    )
    return DecoderOperands(
        token=token,
        position=position,
        prompt=prompt,
        embedding=embedding,
        layers=tuple(
            _layer(made, config, weights, number, tables[config.has_windowed_rotary(number)])
            for number in range(config.layers)
        ),
        gamma=made.constant("norm", weights.vector("model.norm.weight", width)),
        head=head,
    )


def _tables(
    made: GraphBuilding, config: LanguageConfig, weights: Checkpoint, kind: str
) -> tuple[str, str]:
    cosines, sines = weights.rotation(config, windowed=bool(kind))
    return made.constant(f"{kind}cosines", cosines), made.constant(f"{kind}sines", sines)


def _layer(
    made: GraphBuilding,
    config: LanguageConfig,
    weights: Checkpoint,
    number: int,
    tables: tuple[str, str],
) -> LayerOperands:
    width, hidden, head_dim = config.width, config.hidden, config.head_dim
    told, stored = f"layer {number}", f"model.layers.{number}."

    def gamma(name: str, entries: int = width) -> str:
        return made.constant(f"{told} {name}", weights.vector(f"{stored}{name}.weight", entries))

    def matrix(name: str, rows: int, columns: int) -> Quantised:
        return weights.matrix(f"{stored}{name}.weight", rows, columns)

    parts = (("q", config.heads), ("k", config.kv_heads), ("v", config.kv_heads))
    names = [(f"self_attn.{part}_proj", heads * head_dim) for part, heads in parts]
    projection = Quantised.stacked(*(matrix(name, rows, width) for name, rows in names))
    gate = Quantised.stacked(
        matrix("mlp.gate_proj", hidden, width), matrix("mlp.up_proj", hidden, width)
    )
    bias: tuple[str, ...] = ()
    if config.bias:
        biases = [weights.vector(f"{stored}{name}.bias", rows) for name, rows in names]
        bias = (made.constant(f"{told} qkv bias", np.concatenate(biases)),)
    normed = ("q", "k") if config.normed_heads else ()
    branches = BRANCH_NORMS if config.normed_branches else ()
    cached = (config.kv_heads, head_dim // LANES, config.length, LANES)
    return LayerOperands(
        told=told,
        attention=config.attention(number),
        tables=tables,
        gamma=gamma("input_layernorm"),
        projection=made.matrix(f"{told} qkv", projection),
        bias=bias,
        head_gammas=tuple(gamma(f"self_attn.{part}_norm", head_dim) for part in normed),
        keys=made.state(f"{told} keys", config.cache, cached),
        values=made.state(
            f"{told} values", config.cache, (config.kv_heads, config.length, head_dim)
        ),
        output=made.matrix(
            f"{told} output", matrix("self_attn.o_proj", width, config.heads * head_dim)
        ),
        gate_gamma=gamma(gate_norm(config)),
        gate=made.matrix(f"{told} gate", gate),
        down=made.matrix(f"{told} down", matrix("mlp.down_proj", width, hidden)),
        branch_gammas=tuple(gamma(name) for name in branches),
    )

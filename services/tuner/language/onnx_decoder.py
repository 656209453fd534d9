"""A language model in a file of ONNX, as transformers.js and onnxruntime-genai have them.

What they write is a chain of layers. It is followed from the logits back to the embedding: each sum
on the way adds the output of a gate or of attention to the row before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.quantised import USUAL_FORM, Form
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.dataflow import Dataflow
from services.tuner.graph.reading import Array, OnnxModel, read_model
from services.tuner.language.config import (
    USUAL_LENGTH,
    LanguageConfig,
    Rotary,
    refuse_shape,
)
from services.tuner.language.config_file import stop_tokens
from services.tuner.language.onnx_parts import (
    Attention,
    Linear,
    Norm,
    Rotation,
    attention,
    capped,
    embedding,
    gated,
    is_linear,
    is_norm,
    linear,
    norm,
    refusal,
    source_of,
    sum_of,
)
from services.tuner.language.operands import BRANCH_NORMS, gate_norm
from services.tuner.language.packed import DenseMatrix, Matrix, is_same
from services.tuner.language.quantise import Quantised
from services.tuner.language.rotation import Table

ATTENTION = "GroupQueryAttention"
LOGITS = "logits"
EMBEDDING, HEAD, FINAL_NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """`branch_norms`: of what attention adds to a row, then of what the gate adds; None where
    nothing is normalised."""

    attention: Attention
    input_norm: Norm
    output: Linear
    gate_norm: Norm
    activation: str
    gate: Linear
    up: Linear
    down: Linear
    branch_norms: tuple[Norm | None, Norm | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decoder:
    """`table`: of tokens, whose rows are multiplied by `embedding_scale`. `logit_cap`: 0 for
    none."""

    table: Matrix
    embedding_scale: float
    layers: tuple[_Layer, ...]
    norm: Norm
    head: Linear
    logit_cap: float

    def rotation(self, *, windowed: bool) -> Rotation | None:
        """Returns the rotation of the first layer that sees a window, or all; None where no layer
        does."""
        own = (each.attention for each in self.layers)
        return next((each.rotation for each in own if bool(each.window) == windowed), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxCheckpoint:
    """Weights by the names that config.json's models have for them."""

    matrices: Mapping[str, Matrix]
    vectors: Mapping[str, Array]
    plain: Rotation
    windowed: Rotation
    """The rotation of layers that see a window."""
    form: Form = USUAL_FORM
    """Matrices of 16 and 32 bits are quantised to this."""

    def matrix(self, name: str, rows: int, columns: int) -> Quantised:
        held = self.matrices[name]
        if (held.rows, held.columns) != (rows, columns):
            raise UnsupportedModel(
                f"{name} has {held.rows} rows of {held.columns} entries; {rows} of {columns} are "
                "expected of the other layers"
            )
        return held.quantised(self.form)

    def vector(self, name: str, entries: int) -> NDArray[np.float32]:
        return self.vectors[name].astype(np.float32).reshape(entries)

    def rotation(self, config: LanguageConfig, *, windowed: bool = False) -> tuple[Table, Table]:
        held = self.windowed if windowed else self.plain
        cosines, sines = (
            np.ascontiguousarray(table[: config.length], np.float32)
            for table in (held.cosines, held.sines)
        )
        return cosines, sines


def is_decoder(path: Path) -> bool:
    """Returns whether a file has attention that reads a cache, as decoders do."""
    return any(node.op_type == ATTENTION for node in read_model(path).graph.node)


def read_decoder(path: Path, length: int | None = None) -> tuple[LanguageConfig, OnnxCheckpoint]:
    """Raises InvalidInput for a file that is no sound model, and UnsupportedModel for a model of
    another shape. `length` is the room for tokens that is asked for."""
    model = read_model(path)
    try:
        return _read(model, path, length)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise InvalidInput(
            f"{path.name} has a node that is not made as its operator demands: {error}; export "
            "the model again"
        ) from error


def _read(
    model: OnnxModel, path: Path, length: int | None
) -> tuple[LanguageConfig, OnnxCheckpoint]:
    made = _followed(Dataflow(model), _logits(model))
    tied = is_same(made.table, made.head.matrix)
    if tied and isinstance(made.table, DenseMatrix):
        made = replace(made, table=made.head.matrix)
    config = _config(made, length, tied=tied)
    refuse_shape(config, _room(made))
    # transformers.js has the files of ONNX in a folder of their own.
    folders = (path.parent, path.parent.parent) if path.parent.name == "onnx" else (path.parent,)
    return replace(config, stop=stop_tokens(*folders)), _checkpoint(made, config)


def _logits(model: OnnxModel) -> str:
    names = [each.name for each in model.graph.output]
    if LOGITS not in names:
        raise UnsupportedModel(
            f"the model has no output {LOGITS!r}; it has {', '.join(names[:4])}: export the whole "
            "decoder, with its head"
        )
    return LOGITS


def _followed(flow: Dataflow, logits: str) -> _Decoder:
    product, cap = capped(flow, logits)
    head = linear(flow, product, "the head's product")
    if head.bias is not None:
        raise refusal(flow.made(product), product, "a head without a bias")
    final = norm(flow, _last_token(flow, head.source), "the last norm")
    layers: list[_Layer] = []
    row = final.source
    while len(row) == 2:
        layer, row = _layer(flow, row)
        layers.append(layer)
    table, scale = embedding(flow, row[0])
    if not layers:
        raise refusal(flow.made(row[0]), row[0], "a layer")
    return _Decoder(
        table=table,
        embedding_scale=scale,
        layers=tuple(reversed(layers)),
        norm=final,
        head=head,
        logit_cap=cap,
    )


def _last_token(flow: Dataflow, value: str) -> str:
    """The rows of which the head reads the last one alone."""
    made = flow.made(value)
    return made.input(0) if made is not None and made.op in ("Gather", "Slice") else value


def _layer(flow: Dataflow, row: tuple[str, ...]) -> tuple[_Layer, tuple[str, ...]]:
    """The layer whose output is the sum of `row`, and the row that it is given."""
    between, branch, gated_norm = _branched(flow, row)
    down = linear(flow, branch, "the product behind a gate")
    activation, gate, up = gated(flow, down.source)
    both = sum_of(flow, between)
    if both is None:
        raise refusal(flow.made(between), between, "the sum of a row and its attention")
    before, branch, attended_norm = _branched(flow, both)
    output = linear(flow, branch, "the product behind attention")
    attended = attention(flow, output.source)
    layer = _Layer(
        attention=attended,
        input_norm=norm(flow, attended.queries.source, "the norm before attention"),
        output=output,
        gate_norm=norm(flow, gate.source, "the norm before a gate"),
        activation=activation,
        gate=gate,
        up=up,
        down=down,
        branch_norms=(attended_norm, gated_norm),
    )
    given = source_of(flow, before)
    _refuse_branches(flow, layer, given, source_of(flow, between))
    return layer, given


def _branched(flow: Dataflow, row: tuple[str, ...]) -> tuple[str, str, Norm | None]:
    """The row that goes on, the product that is added to it, and the norm of that product."""
    found = [(other, *held) for each, other in (row, row[::-1]) if (held := _branch(flow, each))]
    if len(found) != 1:
        raise refusal(flow.made(row[0]), row[0], "the sum of a row and a product")
    return found[0]


def _branch(flow: Dataflow, value: str) -> tuple[str, Norm | None] | None:
    """A product, and its norm where it has one; None for another value."""
    if is_linear(flow, value):
        return value, None
    if not is_norm(flow, value):
        return None
    own = norm(flow, value, "the norm of a product")
    is_product = len(own.source) == 1 and is_linear(flow, own.source[0])
    return (own.source[0], own) if is_product else None


def _refuse_branches(
    flow: Dataflow, layer: _Layer, given: tuple[str, ...], between: tuple[str, ...]
) -> None:
    """The products of a layer read one norm each, of the row that goes on."""
    attended = layer.attention
    sources = {each.source for each in (attended.queries, attended.keys, attended.values)}
    if len(sources) != 1 or layer.gate.source != layer.up.source:
        raise refusal(flow.made(layer.output.source), "", "products of one norm")
    if layer.input_norm.source != given or layer.gate_norm.source != between:
        raise refusal(flow.made(layer.output.source), "", "a norm of the row that goes on")


def _room(made: _Decoder) -> int:
    """Places that all tables of rotary embeddings have."""
    return min(len(each.attention.rotation.cosines) for each in made.layers)


def _config(made: _Decoder, length: int | None, *, tied: bool) -> LanguageConfig:
    layers = made.layers
    first = layers[0].attention
    windows = tuple(each.attention.window for each in layers)
    plain, windowed = (made.rotation(windowed=each) for each in (False, True))
    own_tables = plain is not None and windowed is not None and not plain.equals(windowed)
    config = LanguageConfig(
        vocabulary=made.table.rows,
        width=made.table.columns,
        layers=len(layers),
        heads=first.heads,
        kv_heads=first.kv_heads,
        head_dim=first.queries.matrix.rows // first.heads,
        hidden=layers[0].gate.matrix.rows,
        length=length or min(_room(made), USUAL_LENGTH),
        epsilon=made.norm.epsilon,
        theta=None,
        bias=first.queries.bias is not None,
        normed_heads=first.query_norm is not None,
        tied=tied,
        gate=layers[0].activation,
        embedding_scale=made.embedding_scale,
        windows=windows if any(windows) else (),
        windowed_rotary=Rotary(theta=None) if own_tables else None,
        score_scale=first.scale,
        score_cap=first.cap,
        logit_cap=made.logit_cap,
        normed_branches=layers[0].branch_norms[0] is not None,
    )
    for number, layer in enumerate(layers):
        rotation = made.rotation(windowed=bool(layer.attention.window))
        _refuse_differences(config, number, layer, rotation)
    return config


def _refuse_differences(
    config: LanguageConfig, number: int, layer: _Layer, rotation: Rotation | None
) -> None:
    """`rotation`: that of layers of its kind."""
    own = layer.attention
    norms = [layer.input_norm, layer.gate_norm, own.query_norm, own.key_norm, *layer.branch_norms]
    projected = (own.queries, own.keys, own.values)
    others = (layer.output, layer.gate, layer.up, layer.down)
    differences = {
        "other heads": (own.heads, own.kv_heads) != (config.heads, config.kv_heads),
        "another scale or cap of its scores": (own.scale, own.cap)
        != (config.score_scale, config.score_cap),
        "another activation of its gate": layer.activation != config.gate,
        "another epsilon": any(n is not None and n.epsilon != config.epsilon for n in norms),
        "biases of a part of it": any(each.bias is not None for each in others)
        or any((each.bias is not None) != config.bias for each in projected),
        "norms of a part of its heads": any(
            (each is not None) != config.normed_heads for each in (own.query_norm, own.key_norm)
        ),
        "norms of a part of its branches": any(
            (each is not None) != config.normed_branches for each in layer.branch_norms
        ),
        "another rotary embedding": rotation is None or not own.rotation.equals(rotation),
    }
    for what, there in differences.items():
        if there:
            raise UnsupportedModel(f"layer {number} of the model has {what}, which is not known")


def _checkpoint(made: _Decoder, config: LanguageConfig) -> OnnxCheckpoint:
    matrices: dict[str, Matrix] = {EMBEDDING: made.table, HEAD: made.head.matrix}
    vectors: dict[str, Array] = {FINAL_NORM: made.norm.gamma}
    for number, layer in enumerate(made.layers):
        own, name = layer.attention, f"model.layers.{number}."
        projected = {
            "self_attn.q_proj": own.queries,
            "self_attn.k_proj": own.keys,
            "self_attn.v_proj": own.values,
            "self_attn.o_proj": layer.output,
            "mlp.gate_proj": layer.gate,
            "mlp.up_proj": layer.up,
            "mlp.down_proj": layer.down,
        }
        for part, product in projected.items():
            matrices[f"{name}{part}.weight"] = product.matrix
            if product.bias is not None:
                vectors[f"{name}{part}.bias"] = product.bias
        # Where branches have norms, the gate's is named otherwise, and theirs as it is elsewhere.
        norms = dict(zip(BRANCH_NORMS, layer.branch_norms, strict=True)) | {
            "input_layernorm": layer.input_norm,
            gate_norm(config): layer.gate_norm,
            "self_attn.q_norm": own.query_norm,
            "self_attn.k_norm": own.key_norm,
        }
        for part, each in norms.items():
            if each is not None:
                vectors[f"{name}{part}.weight"] = each.gamma
    plain, windowed = (made.rotation(windowed=each) for each in (False, True))
    usual = made.layers[0].attention.rotation
    return OnnxCheckpoint(
        matrices=matrices, vectors=vectors, plain=plain or usual, windowed=windowed or usual
    )

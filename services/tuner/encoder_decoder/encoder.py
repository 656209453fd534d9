"""The calls of an encoder: they read the source, and leave the keys and values that each layer of
the decoder attends to as states."""

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.encoding import (
    distance_biases,
    kept_rows,
    placed_rows,
    windows,
)
from kernelzoo.domain.operators.quantised import ROW_STEP
from services.tuner.encoder_decoder.config import EncoderDecoderConfig, Positions, Spectrogram
from services.tuner.encoder_decoder.layers import Product, Side
from services.tuner.encoder_decoder.naming import DECODER, ENCODER
from services.tuner.encoder_decoder.positions import distance_rows, position_rows
from services.tuner.encoder_decoder.tensors import NamedTensors
from services.tuner.language.building import GraphBuilding, Matrix
from services.tuner.language.quantise import quantised

SOURCE = "source"
TAPS = 3


def encoder_calls(
    made: GraphBuilding,
    config: EncoderDecoderConfig,
    tensors: NamedTensors,
    embedding: Matrix | None,
) -> tuple[str, ...]:
    """Returns the states with keys and values, one of each layer of the decoder. `embedding` is
    None for an encoder of a spectrogram."""
    side = Side(name=ENCODER, config=config, tensors=tensors, made=made, rows=config.source_length)
    naming = config.naming
    if embedding is None:
        assert config.spectrogram is not None
        x = _convolved(side, config.spectrogram)
    else:
        key = embedding.form.key(
            "gather", f"m{side.rows}k{config.source_vocabulary}n{config.width}"
        )
        x = side.called(key, (*embedding.tensors, SOURCE), "source embedded")
        x = _placed(side, x)
    if config.normed_embedding:
        x = side.normed(x, naming.part(naming.embedding_norm, ENCODER), "source normed")
    biases = _distance_biases(side)
    for number in range(config.encoder.layers):
        x = _layer(side, number, x, biases)
    if config.normed_last:
        x = side.normed(x, naming.part(naming.last_norm, ENCODER), "encoded")
    return tuple(_kept(side, number, x) for number in range(config.decoder.layers))


def _placed(side: Side, x: str) -> str:
    config = side.config
    if config.positions is Positions.RELATIVE:
        return x
    rows = position_rows(config, side.tensors, ENCODER)
    places = side.made.constant("source places", rows)
    program = placed_rows(side.rows, config.width, config.embedding_scale)
    return side.program("placed_rows", program, (x, places), "source placed")


def _convolved(side: Side, read: Spectrogram) -> str:
    """Two convolutions of three taps, the second with a stride of two, and a gelu behind each."""
    config, made, width = side.config, side.made, side.config.width
    frames = Side(name=ENCODER, config=config, tensors=side.tensors, made=made, rows=2 * side.rows)
    x = SOURCE
    for number, (part, bands, stride) in enumerate(((frames, read.bands, 1), (side, width, 2)), 1):
        columns = -(-TAPS * bands // ROW_STEP) * ROW_STEP
        name = f"model.encoder.conv{number}"
        taps = side.tensors.first((f"{name}.weight",), (width, bands, TAPS))
        rows = taps.transpose(0, 2, 1).reshape(width, TAPS * bands)
        rows = np.pad(rows, ((0, 0), (0, columns - TAPS * bands)))
        product = Product(
            matrix=made.matrix(f"convolution {number}", quantised(rows, side.tensors.form)),
            bias=(
                made.constant(
                    f"convolution {number} bias", side.tensors.vector(f"{name}.bias", width)
                ),
            ),
        )
        program = windows(part.rows, bands, columns, stride=stride, transposed=stride == 1)
        window = made.program("windows", program, (x,), f"convolution {number} windows")
        key = product.matrix.form.key("matmul+bias+gelu", f"m{part.rows}k{columns}n{width}")
        given = (window, *product.matrix.tensors, *product.bias)
        x = made.named(key, given, f"convolved {number}")
    return _placed(side, x)


def _distance_biases(side: Side) -> str:
    """Makes what T5 adds to scores; "" for other models."""
    config = side.config
    if config.positions is not Positions.RELATIVE:
        return ""
    length = config.source_length
    rows = distance_rows(config, side.tensors, ENCODER, np.arange(1 - length, length))
    table = side.made.constant("source distances", rows)
    program = distance_biases(config.encoder.heads, length)
    return side.made.program("distance_biases", program, (table,), "source biases")


def _layer(side: Side, number: int, x: str, biases: str) -> str:
    naming = side.config.naming
    told, layer = f"encoder {number}", naming.layer_of(ENCODER, number)

    def attended(projected: str) -> str:
        return side.attended((projected, 0), (projected, side.inner), biases, told)

    x = side.self_attention(x, layer, told, attended)
    norm = layer + naming.part(naming.feed_norm, ENCODER)
    x = side.fed_forward(side.branch(x, norm, f"{told} feed"), x, layer, told)
    return side.joined(x, norm, f"{told} feed")


def _kept(side: Side, number: int, encoded: str) -> str:
    """Keys and values of what was encoded, as a layer of the decoder attends to them."""
    config, naming, made = side.config, side.config.naming, side.made
    told, layer = f"layer {number} source", naming.layer_of(DECODER, number)
    inner = config.inner(config.decoder)
    _, keys, values, _ = (layer + naming.cross_attention + each for each in naming.projections)
    product = side.product(f"{told} kv", (keys, values), inner, config.width)
    projected = side.multiplied(encoded, product, f"{told} projected")
    kept = made.state(f"{told} kept", DType.F32, (side.rows, 2 * inner))
    made.program("kept_rows", kept_rows(side.rows, 2 * inner), (projected, kept), f"{told} is kept")
    return kept

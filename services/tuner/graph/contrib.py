"""Operators of com.microsoft, which onnxruntime's optimiser, Optimum and transformers.js write, of
ai.onnx.ml, and some of ONNX's own, as functions of ONNX's other operators.

Each function here is given one node whose shapes are known and writes the nodes that stand in its
place. Weights of 4 and 8 bits are brought to f32, as the graph has nothing narrower.
Definitions: onnxruntime, docs/ContribOperators.md, release 1.30.
"""

from collections.abc import Callable, Mapping

import numpy as np
from onnx import FunctionProto, NodeProto

from kernelzoo.errors import InvalidInput
from services.tuner.graph.attention import OPERATORS as ATTENTION
from services.tuner.graph.features import OPERATORS as FEATURES
from services.tuner.graph.functions import Body
from services.tuner.graph.network import Array, TensorType
from services.tuner.graph.quantised import MAIN_OPERATORS as QUANTISED_MAIN
from services.tuner.graph.quantised import OPERATORS as QUANTISED
from services.tuner.graph.random import OPERATORS as RANDOM
from services.tuner.graph.reading import MAIN_DOMAINS, told_node
from services.tuner.graph.sampling import OPERATORS as SAMPLING
from services.tuner.graph.signal import OPERATORS as SIGNAL
from services.tuner.graph.trees import OPERATORS as TREES
from services.tuner.graph.unpooling import OPERATORS as UNPOOLING

DOMAIN, ML_DOMAIN = "com.microsoft", "ai.onnx.ml"
SKIP_EPSILON = 1e-12


def written(
    node: NodeProto,
    types: Mapping[str, TensorType],
    constants: Mapping[str, Array],
    version: int,
    *,
    known_to_onnx: bool,
) -> tuple[FunctionProto, Mapping[str, Array]] | None:
    """The function that stands in the place of a node, and constants that it reads by name; None
    for a node that needs none. onnxruntime writes some of its operators without their domain.

    Raises UnsupportedModel for a form that is not carried over, InvalidInput for a node that is not
    made as its operator demands.
    """
    own = node.domain == DOMAIN or (node.domain in MAIN_DOMAINS and not known_to_onnx)
    table = OPERATORS if own else MAIN_OPERATORS
    write = (ML_OPERATORS if node.domain == ML_DOMAIN else table).get(node.op_type)
    if write is None or node.domain not in (DOMAIN, ML_DOMAIN, *MAIN_DOMAINS):
        return None
    body = Body(node, types, constants, version)
    try:
        outputs = write(body)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{told_node(node)} is not made as its operator demands; export the model again"
        ) from error
    asked = [number for number, name in enumerate(node.output) if name]
    if any(number >= len(outputs) or not outputs[number] for number in asked):
        raise body.refusal("an output of it is for training", "export the model without it")
    return body.function(outputs), body.weights


def _layer_norm(body: Body) -> tuple[str, ...]:
    return _normalised(body, "i0", "i1", "i2" if body.has(2) else "", 1e-5)


def _normalised(
    body: Body, x: str, gamma: str, beta: str, default: float, axis: int | None = None
) -> tuple[str, ...]:
    return body.nodes(
        "LayerNormalization", (x, gamma, beta), 3,
        axis=body.integer("axis", -1) if axis is None else axis,
        epsilon=body.real("epsilon", default),
    )  # fmt: skip


def _simplified(body: Body) -> tuple[str, ...]:
    return (
        body.node(
            "RMSNormalization", "i0", "i1",
            axis=body.integer("axis", -1), epsilon=body.real("epsilon", 1e-5),
        ),
    )  # fmt: skip


def _skipped(body: Body, bias: int) -> str:
    total = body.node("Add", "i0", "i1")
    return body.node("Add", total, f"i{bias}") if body.has(bias) else total


def _skip_layer_norm(body: Body) -> tuple[str, ...]:
    total = _skipped(body, 4)
    beta = "i3" if body.has(3) else ""
    return *_normalised(body, total, "i2", beta, SKIP_EPSILON, -1), total


def _skip_simplified(body: Body) -> tuple[str, ...]:
    total = _skipped(body, 3)
    epsilon = body.real("epsilon", SKIP_EPSILON)
    made = body.node("RMSNormalization", total, "i2", axis=-1, epsilon=epsilon)
    return made, "", "", total


def _gelu(approximate: str) -> Callable[[Body], tuple[str, ...]]:
    def write(body: Body) -> tuple[str, ...]:
        x = body.node("Add", "i0", "i1") if body.has(1) else "i0"
        return (body.node("Gelu", x, approximate=approximate),)

    return write


def _quick_gelu(body: Body) -> tuple[str, ...]:
    return (body.node("Swish", "i0", alpha=body.real("alpha", 1.702)),)


def _fused_matmul(body: Body) -> tuple[str, ...]:
    if body.integer("transBatchA") or body.integer("transBatchB"):
        raise body.refusal("it transposes batches", "export it without transBatchA and transBatchB")
    a, b = (
        body.swapped(f"i{n}", len(body.shape(n))) if body.integer(name) else f"i{n}"
        for n, name in enumerate(("transA", "transB"))
    )
    product, alpha = body.node("MatMul", a, b), body.real("alpha", 1.0)
    return (product if alpha == 1.0 else body.node("Mul", product, body.number(alpha)),)


def _activated(body: Body, x: str, parameters: tuple[float, ...]) -> str:
    """`parameters` in the order of the activation's attributes."""
    name = body.text("activation")
    match name, parameters:
        case ("", _):
            return x
        case ("Relu" | "Tanh" | "Sigmoid", _):
            return body.node(name, x)
        case ("LeakyRelu", (alpha, *_)):
            return body.node(name, x, alpha=alpha)
        case ("HardSigmoid", (alpha, beta, *_)):
            return body.node(name, x, alpha=alpha, beta=beta)
        case ("Clip", (least, most, *_)):
            return body.node(name, x, body.number(least), body.number(most))
    raise body.refusal(
        f"its activation {name} is not known", "export the model without onnxruntime's optimiser"
    )


def _fused_convolution(body: Body) -> tuple[str, ...]:
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    kept = {each.name: body.value(each.name) for each in body.attributes if each.name in names}
    inputs = [name for name in ("i0", "i1", "i2" if body.has(2) else "") if name]
    made = body.node("Conv", *inputs, **kept)
    if body.has(3):
        made = body.node("Add", made, "i3")
    return (_activated(body, made, body.reals("activation_params")),)


def _fused_gemm(body: Body) -> tuple[str, ...]:
    names = ("alpha", "beta", "transA", "transB")
    kept = {each.name: body.value(each.name) for each in body.attributes if each.name in names}
    made = body.node("Gemm", *(f"i{n}" for n in range(body.inputs)), **kept)
    parameters = (body.real("activation_alpha"), body.real("activation_beta"))
    return (_activated(body, made, parameters),)


def _embedded(body: Body) -> tuple[str, ...]:
    """Words, positions and segments, summed and normalised; and how many words each text has."""
    batch, sequence = body.shape(0)
    places = "i8" if body.has(8) else body.integers(*range(sequence), shape=(1, sequence))
    total = body.node(
        "Add", body.node("Gather", "i2", "i0", axis=0), body.node("Gather", "i3", places, axis=0)
    )
    if body.has(1) and body.has(4):
        total = body.node("Add", total, body.node("Gather", "i4", "i1", axis=0))
    made = _normalised(body, total, "i5", "i6", SKIP_EPSILON, -1)[0]
    if body.has(7):
        mask = body.node("Cast", "i7", to=body.I32)
        words = body.node("ReduceSum", mask, body.integers(1), keepdims=0)
    else:
        words = body.weight(np.zeros(batch, np.int32))
    return made, words, total


def _unpacked(packed: Array, bits: int, count: int) -> Array:
    """Numbers of so many bits in bytes, those of lower bits first, along the last axis."""
    if bits == 8:
        return packed[..., :count]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], -1)[..., :count]


def _bits(body: Body) -> int:
    bits = body.integer("bits", 4)
    if bits not in (2, 4, 8):
        raise body.refusal(f"its weights have {bits} bits", "export it with 4 or 8 bits")
    return bits


def _zero_points(body: Body, place: int, rows: int, blocks: int, bits: int) -> Array:
    """f32[rows, blocks]"""
    if not body.has(place):
        return np.full((rows, blocks), 1 << (bits - 1), np.float32)
    zero = body.constant(place, "zero points")
    if zero.dtype == np.uint8:
        zero = _unpacked(zero.reshape(rows, -1), bits, blocks)
    return zero.reshape(rows, blocks).astype(np.float32)


def _matmul_of_bits(body: Body) -> tuple[str, ...]:
    """Weights of N rows, each of K numbers in blocks that have a scale and a zero point."""
    k, n, size = body.integer("K"), body.integer("N"), body.integer("block_size")
    bits, blocks = _bits(body), -(-k // size)
    if body.has(4) and np.any(np.diff(body.constant(4, "order of columns")) < 0):
        raise body.refusal("its columns are in another order", "quantise it without act_order")
    packed = body.constant(1, "weight").reshape(n, blocks, -1)
    values = _unpacked(packed, bits, size).astype(np.float32)
    values -= _zero_points(body, 3, n, blocks, bits)[..., None]
    values *= body.constant(2, "scale").reshape(n, blocks, 1).astype(np.float32)
    weights = np.ascontiguousarray(values.reshape(n, blocks * size)[:, :k].T)
    made = body.node("MatMul", "i0", body.weight(weights.astype(body.dtype(0))))
    return (body.node("Add", made, "i5") if body.has(5) else made,)


def _gather_of_bits(body: Body) -> tuple[str, ...]:
    """Rows of a table whose numbers stand in blocks along the last axis."""
    if body.integer("gather_axis") or body.integer("quantize_axis", 1) not in (1, -1):
        raise body.refusal("it does not gather rows", "quantise the table along its rows")
    bits, size = _bits(body), body.integer("block_size", 128)
    packed, scales = body.constant(0, "table"), body.constant(2, "scale")
    if packed.dtype != np.uint8 or packed.ndim != 2:
        raise body.refusal(
            "its table is not of uint8", "quantise it with onnxruntime 1.22 or later"
        )
    rows, columns = len(packed), packed.shape[1] * 8 // bits
    blocks = scales.shape[1]
    zero = _zero_points(body, 3, rows, blocks, bits)
    values = _unpacked(packed, bits, columns).astype(np.float32)
    values -= np.repeat(zero, size, 1)[:, :columns]
    values *= np.repeat(scales.astype(np.float32), size, 1)[:, :columns]
    table = body.weight(values.astype(scales.dtype))
    return (body.node("Gather", table, "i1", axis=0),)


def _compressed(body: Body) -> tuple[str, ...]:
    """Rows that a condition keeps, which must be known: how many there are depends on it."""
    at = np.flatnonzero(body.constant(1, "condition"))
    axis = body.value("axis")
    x = "i0" if axis is not None else body.reshaped("i0", -1)
    return (body.node("Gather", x, body.weight(at.astype(np.int64)), axis=axis or 0),)


def _quantised_lstm(body: Body) -> tuple[str, ...]:
    """Weights of 8 bits, [directions, entering, gates · size]. onnxruntime also rounds what is
    multiplied with them to 8 bits; here that stays f32."""

    def dequantised(place: int, scale: int) -> str:
        weights, scales, zeros = (
            body.constant(number, what).astype(np.float32)
            for number, what in ((place, "weight"), (scale, "scale"), (scale + 1, "zero points"))
        )
        weights -= zeros.reshape(len(weights), 1, -1)
        weights *= scales.reshape(len(weights), 1, -1)
        return body.weight(np.ascontiguousarray(weights.transpose(0, 2, 1)))

    kept = {each.name: body.value(each.name) for each in body.attributes}
    others = (f"i{place}" if body.has(place) else "" for place in range(3, 8))
    weights = (dequantised(1, 8), dequantised(2, 10))
    return body.nodes("LSTM", ("i0", *weights, *others), 3, **kept)


def _distances(body: Body) -> tuple[str, ...]:
    """Between each row of one table and each of another, as nearest neighbours ask."""
    one, other = (body.node("Unsqueeze", f"i{n}", body.integers(1 - n)) for n in range(2))
    rest = body.node("Sub", one, other)
    square = body.node("ReduceSumSquare", rest, body.integers(2), keepdims=0)
    metric = body.text("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise body.refusal(f"its metric is {metric}", "export it with euclidean distances")
    return (body.node("Sqrt", square) if metric == "euclidean" else square,)


OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {
    **ATTENTION,
    "CDist": _distances,
    **QUANTISED,
    "BiasGelu": _gelu("none"),
    "DynamicQuantizeLSTM": _quantised_lstm,
    "EmbedLayerNormalization": _embedded,
    "FastGelu": _gelu("tanh"),
    "FusedConv": _fused_convolution,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "GatherBlockQuantized": _gather_of_bits,
    "Gelu": _gelu("none"),
    "LayerNormalization": _layer_norm,
    "MatMulNBits": _matmul_of_bits,
    "QuickGelu": _quick_gelu,
    "SimplifiedLayerNormalization": _simplified,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_simplified,
}

MAIN_OPERATORS = {
    "Compress": _compressed,
    **QUANTISED_MAIN,
    **RANDOM,
    **SAMPLING,
    **SIGNAL,
    **UNPOOLING,
}
"""Operators of ONNX itself."""
ML_OPERATORS = {**FEATURES, **TREES}

"""Operators of narrow integers, exactly as onnxruntime computes them, in ONNX's other operators.

Products with constant matrices of 8 bits are those of bytes. All others are those of real numbers:
a sum of products of bytes is a whole number that f32 has exactly as long as no part of it can reach
2²⁴. Where it could, it is computed in parts, which are added as integers. What a sum can reach
follows from constant weights, and from types where there are none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from kernelzoo.domain.operators.integer_products import PER_WORD
from kernelzoo.errors import InvalidInput
from services.tuner.graph.functions import Body
from services.tuner.graph.network import Array, TensorType
from services.tuner.graph.own_schemas import OWN_DOMAIN
from services.tuner.graph.reading import told_node

EXACT = 1 << 24
"""Whole numbers below it are those of f32."""
MOST_BYTE = 255


@dataclass(frozen=True, slots=True)
class Bytes:
    """A tensor of narrow integers less its zero point, as f32 or where it is known.

    `reach` is the largest of its sizes; `entries` are there if all is constant. `raw` are the
    names of the integers themselves and of their one zero point, '' where that is 0.
    """

    name: str
    shape: tuple[int, ...]
    reach: int
    entries: NDArray[np.float32] | None = None
    raw: tuple[str, str] | None = None

    @property
    def is_of_8_bits(self) -> bool:
        """True of constants that 8 bits have, less one zero point where they need it."""
        if self.entries is None:
            return False
        least, most = self.entries.min(initial=0), self.entries.max(initial=0)
        return bool(most - least <= MOST_BYTE)

    @property
    def narrow(self) -> NDArray[np.int8] | NDArray[np.int16]:
        """Such constants as integers."""
        assert self.entries is not None
        held = np.iinfo(np.int8)
        small = held.min <= self.entries.min() and self.entries.max() <= held.max
        return self.entries.astype(np.int8) if small else self.entries.astype(np.int16)


@dataclass(frozen=True, slots=True)
class Total:
    """Sums of products: f32, or i32 where `whole`; `reach` bounds their sizes."""

    name: str
    reach: int
    whole: bool = False


def _shaped(body: Body, place: int, shape: Sequence[int] | None = None) -> str:
    """A parameter as f32, in another shape where one is told."""
    known = body.known(place)
    if known is not None:
        real = known.astype(np.float32)
        return body.weight(real if shape is None else real.reshape(shape))
    made = body.node("Cast", f"i{place}", to=body.F32)
    return made if shape is None else body.reshaped(made, *shape)


def _bytes(body: Body, place: int, zero: int, zero_shape: Sequence[int] = ()) -> Bytes:
    """The input `place` less the zero point `zero`, which may be left out; `zero_shape` is that of
    a zero point with several entries."""
    info = np.iinfo(body.dtype(place))
    shape, entries = body.shape(place), body.known(place)
    given = body.has(zero)
    known = body.known(zero) if given else np.zeros(1, body.dtype(place))
    several = given and int(np.prod(body.shape(zero))) > 1
    ends = (info.min, info.max) if known is None else (int(known.min()), int(known.max()))
    reach = max(ends[1] - info.min, info.max - ends[0])
    if entries is not None and known is not None:
        points = known.reshape(zero_shape) if several else known.reshape(())
        rest = entries.astype(np.float32) - points.astype(np.float32)
        return Bytes(body.weight(rest), shape, int(np.abs(rest).max(initial=0)), rest)
    made = body.node("Cast", f"i{place}", to=body.F32)
    if not given or (known is not None and not known.any()):
        return Bytes(made, shape, reach, raw=(f"i{place}", ""))
    points_name = _shaped(body, zero, zero_shape if several else ())
    raw = None if several else (f"i{place}", f"i{zero}")
    return Bytes(body.node("Sub", made, points_name), shape, reach, raw=raw)


def _parts(reaches: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of terms, each of which has a sum below 2²⁴ if the terms are what they can reach."""
    parts, start, total = [], 0, 0
    for place, reach in enumerate(reaches):
        if place > start and total + reach >= EXACT:
            parts.append((start, place))
            start, total = place, 0
        total += reach
    return [*parts, (start, len(reaches))]


def _added(body: Body, sums: Sequence[str], reaches: Sequence[int]) -> Total:
    if len(sums) == 1:
        return Total(sums[0], reaches[0])
    whole = [body.node("Cast", each, to=body.I32) for each in sums]
    return Total(reduce(lambda a, b: body.node("Add", a, b), whole), sum(reaches), whole=True)


def _product(body: Body, a: Bytes, b: Bytes) -> Total:
    """[…, M, K] · […, K, N]"""
    terms = a.shape[-1]
    if a.raw and b.entries is not None and b.entries.ndim == 2 and b.is_of_8_bits:
        inputs = (a.raw[0], body.weight(b.narrow), *filter(None, a.raw[1:]))
        made = body.node("ByteMatMul", *inputs, domain=OWN_DOMAIN)
        return Total(made, a.reach * int(np.abs(b.entries).sum(axis=0).max()), whole=True)
    if b.entries is None:
        each = [a.reach * b.reach] * terms
    else:
        sizes = np.abs(b.entries) if b.entries.ndim > 1 else np.abs(b.entries)[:, None]
        largest = sizes.max(axis=(*range(sizes.ndim - 2), sizes.ndim - 1))
        each = [a.reach * int(size) for size in largest]
    parts = _parts(each)
    reaches = [sum(each[slice(*part)]) for part in parts]
    if len(parts) == 1:
        return _added(body, [body.node("MatMul", a.name, b.name)], reaches)
    axis_a, axis_b = len(a.shape) - 1, max(0, len(b.shape) - 2)
    sums = []
    for start, stop in parts:
        left = body.sliced(a.name, axis_a, start, stop)
        right = body.sliced(b.name, axis_b, start, stop)
        sums.append(body.node("MatMul", left, right))
    return _added(body, sums, reaches)


def _windows(body: Body, x: Bytes, w: Bytes, *, scaled: bool = False) -> Total:
    """A convolution, in parts of the channels. Kernels may compute it by way of transforms, whose
    results are brought back to whole numbers. What is `scaled` next is rounded to f32 in any case,
    and need not have parts where kernels multiply bytes."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    kept = {name: body.value(name) for name in names if body.value(name) is not None}
    group = body.integer("group", 1)
    window = int(np.prod(w.shape[2:]))
    if w.entries is None:
        each = [x.reach * w.reach * window] * w.shape[1]
    else:
        sizes = np.abs(w.entries).sum(axis=tuple(range(2, w.entries.ndim)))
        each = [x.reach * int(size) for size in sizes.max(axis=0)]
    in_bytes = scaled and group == 1 and x.raw and w.is_of_8_bits and x.shape[1] % PER_WORD == 0
    parts = [(0, len(each))] if in_bytes else _parts(each)
    sums = []
    for start, stop in parts:
        image, filters = x.name, w.name
        if len(parts) > 1 and group == 1:
            image, filters = (body.sliced(each, 1, start, stop) for each in (x.name, w.name))
        elif len(parts) > 1:
            # Channels of all groups at once: the others count 0 times.
            own = np.zeros((w.shape[1], *(1,) * len(w.shape[2:])), np.float32)
            own[start:stop] = 1
            filters = body.node("Mul", filters, body.weight(own))
        sums.append(body.node("Round", body.node("Conv", image, filters, **kept)))
    return _added(body, sums, [sum(each[slice(*part)]) for part in parts])


def _with_bias(body: Body, total: Total, place: int, shape: Sequence[int]) -> Total:
    """Plus an input of i32, where it is there."""
    if not body.has(place):
        return total
    known = body.known(place)
    reach = (1 << 31) if known is None else int(np.abs(known.astype(np.int64)).max(initial=0))
    if not total.whole and total.reach + reach < EXACT:
        made = body.node("Add", total.name, _shaped(body, place, shape))
        return replace(total, name=made, reach=total.reach + reach)
    bias = body.reshaped(f"i{place}", *shape)
    return Total(body.node("Add", _whole(body, total), bias), total.reach + reach, whole=True)


def _whole(body: Body, total: Total) -> str:
    return total.name if total.whole else body.node("Cast", total.name, to=body.I32)


def _real(body: Body, total: Total) -> str:
    return body.node("Cast", total.name, to=body.F32) if total.whole else total.name


def _scale(
    body: Body, factors: Sequence[tuple[int, Sequence[int]]], divisor: int | None, alpha: float = 1
) -> str:
    """The product of parameters, each by its place and shape, divided by another, in f32. Raises
    UnsupportedModel for constants whose product is beyond f32."""
    places = [place for place, _ in factors] + ([] if divisor is None else [divisor])
    known = [body.known(place) for place in places]
    if all(each is not None for each in known):
        made: NDArray[np.float32] = np.array(alpha, np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for (_, shape), entries in zip(factors, known, strict=False):
                assert entries is not None
                made = made * entries.astype(np.float32).reshape(shape)
            if divisor is not None:
                assert known[-1] is not None
                made = made / known[-1].astype(np.float32).reshape(())
        if not np.isfinite(made).all():
            # Sums of 0 would be NaN, of which onnxruntime makes the least byte.
            raise body.refusal(
                "its scales together are beyond the range of f32", "quantise the model again"
            )
        return body.weight(np.asarray(made, np.float32))
    names = [_shaped(body, place, shape) for place, shape in factors]
    if alpha != 1:
        names = [body.weight(np.array(alpha, np.float32)), *names]
    total = reduce(lambda a, b: body.node("Mul", a, b), names)
    return total if divisor is None else body.node("Div", total, _shaped(body, divisor, ()))


def _quantised(body: Body, real: str, zero: int, like: int) -> str:
    """Rounded, moved by a zero point and kept within its type, or that of the input `like`."""
    one = body.weight(np.ones((), np.float32))
    return body.node("QuantizeLinear", real, one, _zero(body, zero, like))


def _zero(body: Body, place: int, like: int) -> str:
    if not body.has(place):
        return body.weight(np.zeros((), body.dtype(like)))
    known = body.known(place)
    return f"i{place}" if known is None else body.weight(known.reshape(()))


def _line(body: Body, place: int, rank: int, axis: int) -> tuple[int, ...]:
    """The shape of a parameter with an entry for each place along an axis, or with one."""
    count = int(np.prod(body.shape(place))) if body.has(place) else 1
    return () if count == 1 else tuple(count if n == axis % rank else 1 for n in range(rank))


def _matmul(body: Body) -> tuple[str, ...]:
    """QLinearMatMul: scales and zero points of rows on the left, of columns on the right."""
    left, right = len(body.shape(0)), len(body.shape(3))
    a = _bytes(body, 0, 2, _line(body, 2, left, -2))
    b = _bytes(body, 3, 5, _line(body, 5, right, -1))
    total = _real(body, _product(body, a, b))
    factors = [(1, _line(body, 1, left, -2)), (4, _line(body, 4, right, -1))]
    return (_quantised(body, body.node("Mul", total, _scale(body, factors, 6)), 7, 0),)


def _matmul_integer(body: Body) -> tuple[str, ...]:
    a = _bytes(body, 0, 2, _line(body, 2, len(body.shape(0)), -2))
    b = _bytes(body, 1, 3, _line(body, 3, len(body.shape(1)), -1))
    return (_whole(body, _product(body, a, b)),)


def _matmul_to_float(body: Body) -> tuple[str, ...]:
    """A, B, their scales, their zero points, and a bias."""
    right = len(body.shape(1))
    a = _bytes(body, 0, 4)
    b = _bytes(body, 1, 5, _line(body, 5, right, -1))
    total = _real(body, _product(body, a, b))
    scale = _scale(body, [(2, ()), (3, _line(body, 3, right, -1))], None)
    made = body.node("Mul", total, scale)
    return (body.node("Add", made, "i6") if body.has(6) else made,)


def _dynamic_matmul(body: Body) -> tuple[str, ...]:
    """A of f32, which is quantised first; B, its scale and zero point, and a bias."""
    narrow, scale, zero = body.nodes("DynamicQuantizeLinear", ("i0",), 3)
    real = body.node("Sub", *(body.node("Cast", each, to=body.F32) for each in (narrow, zero)))
    a = Bytes(real, body.shape(0), 255, raw=(narrow, zero))
    right = len(body.shape(1))
    b = _bytes(body, 1, 3, _line(body, 3, right, -1))
    total = _real(body, _product(body, a, b))
    other = _shaped(body, 2, _line(body, 2, right, -1))
    made = body.node("Mul", total, body.node("Mul", scale, other))
    return (body.node("Add", made, "i4") if body.has(4) else made,)


def _gemm(body: Body) -> tuple[str, ...]:
    """A, scale, zero; B, scale, zero; C of i32; scale and zero of what is made, f32 without."""
    transposed = bool(body.integer("transB"))
    a, b = _bytes(body, 0, 2), _bytes(body, 3, 5, _line(body, 5, 2, 0 if transposed else -1))
    a = _transposed(body, a) if body.integer("transA") else a
    b = _transposed(body, b) if transposed else b
    bias = (1, 1, *body.shape(6))[-2:] if body.has(6) else ()
    total = _with_bias(body, _product(body, a, b), 6, bias)
    factors = [(1, ()), (4, _line(body, 4, 2, -1))]
    alpha = body.real("alpha", 1.0)
    if not body.has(7):
        return (body.node("Mul", _real(body, total), _scale(body, factors, None, alpha)),)
    made = body.node("Mul", _real(body, total), _scale(body, factors, 7, alpha))
    return (_quantised(body, made, 8, 0),)


def _transposed(body: Body, x: Bytes) -> Bytes:
    if x.entries is not None:
        entries = np.ascontiguousarray(x.entries.T)
        return Bytes(body.weight(entries), entries.shape, x.reach, entries)
    return replace(x, name=body.swapped(x.name, 2), shape=x.shape[::-1], raw=None)


def _convolution(body: Body) -> tuple[str, ...]:
    """X, scale, zero; W, scale, zero, of each channel or of all; scale, zero; bias of i32."""
    if body.integer("channels_last"):
        raise body.refusal("its channels come last", "export the model before it is optimised")
    rank = len(body.shape(0))
    x, w = _bytes(body, 0, 2), _bytes(body, 3, 5, _line(body, 5, rank, 0))
    channels = (1, w.shape[0], *(1,) * (rank - 2))
    total = _with_bias(body, _windows(body, x, w, scaled=True), 8, channels)
    scale = _scale(body, [(1, ()), (4, _line(body, 4, rank, 1))], 6)
    return (_quantised(body, body.node("Mul", _real(body, total), scale), 7, 0),)


def _convolution_integer(body: Body) -> tuple[str, ...]:
    rank = len(body.shape(0))
    x, w = _bytes(body, 0, 2), _bytes(body, 1, 3, _line(body, 3, rank, 0))
    return (_whole(body, _windows(body, x, w)),)


def _both(operator: str) -> Callable[[Body], tuple[str, ...]]:
    """A, scale, zero; B, scale, zero; scale, zero of what is made. As onnxruntime orders them."""

    def write(body: Body) -> tuple[str, ...]:
        if operator == "Mul":
            a, b = _bytes(body, 0, 2), _bytes(body, 3, 5)
            made = body.node("Mul", a.name, b.name)
            made = body.node("Mul", made, _scale(body, [(1, ()), (4, ())], 6))
            return (_quantised(body, made, 7, 0),)
        terms = []
        for place in (0, 3):
            entries = _bytes(body, place, place + 2)
            terms.append(body.node("Mul", entries.name, _scale(body, [(place + 1, ())], 6)))
        return (_quantised(body, body.node("Add", *terms), 7, 0),)

    return write


def _dequantised(body: Body, place: int, scale: int, zero: int) -> str:
    held = _bytes(body, place, zero)
    if held.raw is None:
        return body.node("Mul", held.name, _shaped(body, scale, ()))
    entries, *points = filter(None, held.raw)
    return body.node("DequantizeLinear", entries, f"i{scale}", *points)


def _requantised(body: Body, real: str, scale: int, zero: int) -> str:
    divided = body.node("Div", real, _shaped(body, scale, ()))
    return _quantised(body, divided, zero, 0)


def _entrywise(operator: str, **defaults: float) -> Callable[[Body], tuple[str, ...]]:
    def write(body: Body) -> tuple[str, ...]:
        more = {name: body.real(name, value) for name, value in defaults.items()}
        made = body.node(operator, _dequantised(body, 0, 1, 2), **more)
        return (_requantised(body, made, 3, 4),)

    return write


def _average_pool(body: Body) -> tuple[str, ...]:
    names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
    kept = {name: body.value(name) for name in names if body.value(name) is not None}
    x = _channels_first(body, _dequantised(body, 0, 1, 2))
    made = _channels_back(body, body.node("AveragePool", x, **kept))
    return (_requantised(body, made, 3, 4),)


def _channels_first(body: Body, x: str) -> str:
    rank = len(body.shape(0))
    return body.transposed(x, 0, rank - 1, *range(1, rank - 1)) if _last(body) else x


def _channels_back(body: Body, x: str) -> str:
    rank = len(body.shape(0))
    return body.transposed(x, 0, *range(2, rank), 1) if _last(body) else x


def _last(body: Body) -> bool:
    return bool(body.integer("channels_last"))


def _global_average_pool(body: Body) -> tuple[str, ...]:
    x, shape = _bytes(body, 0, 2), body.shape(0)
    axes = range(1, len(shape) - 1) if _last(body) else range(2, len(shape))
    count = int(np.prod([shape[axis] for axis in axes]))
    total = body.node("ReduceSum", x.name, body.integers(*axes))
    scale = _scale(body, [(1, ())], 3, 1 / count)
    return (_quantised(body, body.node("Mul", total, scale), 4, 0),)


def _concat(body: Body) -> tuple[str, ...]:
    """Scale and zero of what is made, then a tensor, its scale and its zero, again and again."""
    parts = []
    for place in range(2, body.inputs, 3):
        same = all(
            body.known(a) is not None and np.array_equal(body.known(a), body.known(b))  # type: ignore[arg-type]
            for a, b in ((0, place + 1), (1, place + 2))
        )
        real = _dequantised(body, place, place + 1, place + 2)
        divided = body.node("Div", real, _shaped(body, 0, ()))
        parts.append(f"i{place}" if same else _quantised(body, divided, 1, place))
    return (body.node("Concat", *parts, axis=body.integer("axis")),)


def _softmax(body: Body) -> tuple[str, ...]:
    axis = body.integer("axis", -1)
    rank = len(body.shape(0))
    x = _dequantised(body, 0, 1, 2)
    if body.integer("opset") < 13 and axis % rank != rank - 1:
        rows = int(np.prod(body.shape(0)[: axis % rank]))
        flat = body.node("Softmax", body.reshaped(x, rows, -1), axis=-1)
        made = body.reshaped(flat, *body.shape(0))
    else:
        made = body.node("Softmax", x, axis=axis)
    return (_requantised(body, made, 3, 4),)


def _attention(body: Body) -> tuple[str, ...]:
    """Input, weight, bias, their scales, a mask, their zero points, and what was before."""
    x = _dequantised(body, 0, 3, 6)
    weight = _bytes(body, 1, 7, _line(body, 7, 2, -1))
    scale = _shaped(body, 4, _line(body, 4, 2, -1))
    w = body.node("Mul", weight.name, scale)
    mask, past = ("i5" if body.has(5) else ""), ("i8" if body.has(8) else "")
    names = ("num_heads", "unidirectional", "mask_filter_value", "scale", "do_rotary")
    kept = {name: body.value(name) for name in names if body.value(name) is not None}
    inputs = (x, w, "i2", mask, past) if past else (x, w, "i2", mask) if mask else (x, w, "i2")
    return body.nodes("Attention", inputs, body.outputs, domain="com.microsoft", **kept)


def _as_onnx(operator: str) -> Callable[[Body], tuple[str, ...]]:
    """Reads operators of ONNX, which onnxruntime's tools also write for 16 and 4 bits and older
    opsets."""

    def write(body: Body) -> tuple[str, ...]:
        kept = {each.name: body.value(each.name) for each in body.attributes}
        inputs = [f"i{place}" if body.has(place) else "" for place in range(body.inputs)]
        return (body.node(operator, *inputs, **kept),)

    return write


SCALES: Mapping[str, Sequence[int]] = {
    "DequantizeLinear": (1,),
    "DynamicQuantizeMatMul": (2,),
    "MatMulIntegerToFloat": (2, 3),
    "QAttention": (3, 4),
    "QGemm": (1, 4, 7),
    "QLinearAdd": (1, 4, 6),
    "QLinearAveragePool": (1, 3),
    "QLinearConv": (1, 4, 6),
    "QLinearGlobalAveragePool": (1, 3),
    "QLinearLeakyRelu": (1, 3),
    "QLinearMatMul": (1, 4, 6),
    "QLinearMul": (1, 4, 6),
    "QLinearSigmoid": (1, 3),
    "QLinearSoftmax": (1, 3),
    "QuantizeLinear": (1,),
}
"""The inputs of operators that are scales, where there are as many in each node."""
ZERO_POINTS: Mapping[str, Mapping[int, int]] = {
    "ConvInteger": {2: 0, 3: 1},
    "DequantizeLinear": {2: 0},
    "DynamicQuantizeMatMul": {3: 1},
    "MatMulInteger": {2: 0, 3: 1},
    "MatMulIntegerToFloat": {4: 0, 5: 1},
    "QAttention": {6: 0, 7: 1},
    "QGemm": {2: 0, 5: 3},
    "QLinearAdd": {2: 0, 5: 3},
    "QLinearConv": {2: 0, 5: 3},
    "QLinearMatMul": {2: 0, 5: 3},
    "QLinearMul": {2: 0, 5: 3},
}
"""The inputs that are zero points, each with the one of integers that it belongs to."""


def _scales_of(node: NodeProto) -> Sequence[int]:
    """The inputs of a node that are scales; of QLinearConcat one for each tensor."""
    if node.op_type == "QLinearConcat":
        return (0, *range(3, len(node.input), 3))
    return SCALES.get(node.op_type, ())


def refuse_parameters(
    node: NodeProto, types: Mapping[str, TensorType], constants: Mapping[str, Array]
) -> None:
    """Raises InvalidInput for a constant scale that is 0 or no number, and for a zero point of
    another type than what it belongs to, which may be out of its range."""
    names = dict(enumerate(node.input))
    for place in _scales_of(node):
        scales = constants.get(names.get(place, ""))
        if scales is None:
            continue
        wrong = scales[~np.isfinite(scales) | (scales == 0)]
        if wrong.size:
            raise InvalidInput(
                f"{told_node(node)} has the scale {wrong.reshape(-1)[0]} in {names[place]!r}; a "
                "scale is a finite number other than 0. Quantise the model again"
            )
    for place, of in ZERO_POINTS.get(node.op_type, {}).items():
        point, entries = (types.get(names.get(each, "")) for each in (place, of))
        if point is not None and entries is not None and point.dtype != entries.dtype:
            raise InvalidInput(
                f"{told_node(node)} has a zero point {names[place]!r} of {point.dtype} for "
                f"{names[of]!r} of {entries.dtype}, whose range it may exceed; quantise the model "
                "again"
            )


MAIN_OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {
    "ConvInteger": _convolution_integer,
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _convolution,
    "QLinearMatMul": _matmul,
}
OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {
    "DequantizeLinear": _as_onnx("DequantizeLinear"),
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulIntegerToFloat": _matmul_to_float,
    "QAttention": _attention,
    "QGemm": _gemm,
    "QLinearAdd": _both("Add"),
    "QuantizeLinear": _as_onnx("QuantizeLinear"),
    "QLinearAveragePool": _average_pool,
    "QLinearConcat": _concat,
    "QLinearConv": _convolution,
    "QLinearGlobalAveragePool": _global_average_pool,
    "QLinearLeakyRelu": _entrywise("LeakyRelu", alpha=0.01),
    "QLinearMul": _both("Mul"),
    "QLinearSigmoid": _entrywise("Sigmoid"),
    "QLinearSoftmax": _softmax,
}

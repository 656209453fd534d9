"""Adds the workloads of bytes to a graph: what quantises, and products with their scales.

Sums are multiplied by one number of the network and by a constant for each column. Weights of which
all are from -64 to 64, as onnxruntime's `reduce_range` makes them, become weights of 7 bits: where
64 stands in a column, and -64 does not, that and its scale change their sign. Columns that leave 8
bits, as those of unsigned weights less their zero point, are moved back by a zero point.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.byte_layers import BYTES_OF_PRODUCT, BYTES_OF_WINDOWS
from kernelzoo.domain.operators.expressions import Cast, Expression, Integer, Read, Real
from kernelzoo.domain.operators.integer_products import PER_WORD
from kernelzoo.domain.workload import Workload
from services.tuner.graph.edit import Edit
from services.tuner.graph.graph import Node
from services.tuner.graph.steps import Row

EXACT = 1 << 24
"""Whole numbers below it are those of f32."""
SIGNED = (-128, 127)
SEVEN_BITS = (-64, 63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """Sums are multiplied by a row of constants, and by a number of the network, None for 1."""

    number: str | None = None
    row: Row


class ByteWorkloads:
    """Adds to an edit. Numbers are there once."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit
        self._ones: dict[str, str] = {}

    def one(self, number: np.float32 | np.int32 | str) -> str:
        """A constant, or a value of one entry, as a tensor of one axis."""
        key = number if isinstance(number, str) else f"{number.dtype} {number}"
        if key not in self._ones:
            if isinstance(number, str):
                self._ones[key] = self._edit.shaped(number, (1,))
            else:
                self._ones[key] = self._edit.constant("number", np.array([number]))
        return self._ones[key]

    def scale(self, value: Expression) -> str | None:
        """A scale as a value of f32 with one entry."""
        match value:
            case Real(number):
                return self.one(np.float32(number))
            case Read(tensor) if self._is_number(tensor, DType.F32):
                return self.one(tensor)
        return None

    def zero(self, value: Expression) -> str | None:
        """A zero point, which is added as a real number, as a value of i32 with one entry."""
        match value:
            case Cast(Integer(number)):
                return self.one(np.int32(number))
            case Real(number) if number.is_integer() and abs(number) < EXACT:
                return self.one(np.int32(number))
            case Cast(Read(tensor)) if self._is_number(tensor, DType.I32):
                return self.one(tensor)
        return None

    def _is_number(self, tensor: str, dtype: DType) -> bool:
        held = self._edit.values[tensor]
        return held.elements == 1 and held.dtype is dtype

    def quantised(self, source: str, scale: str, zero: str, words: str) -> Node:
        """`source`: f32[n]; `words`: i32[n / 4]."""
        (count,) = self._edit.values[source].shape
        return Node(Workload.of("quantise", (count,)), (source, scale, zero), words)

    def product(
        self,
        words: str,
        codes: NDArray[np.int32],
        zero: str,
        scales: Scales,
        output: str,
        name: str,
        label: str,
    ) -> Node:
        """`words`: i32[m, k / 4] of bytes whose zero point `zero` is; `codes`: [k, n], which may
        leave 8 bits where weights had a zero point. Constants are called after `name`."""
        edit = self._edit
        k, n = codes.shape
        m, line = edit.values[words].shape
        assert line * PER_WORD == k
        row = np.broadcast_to(scales.row, (n,)).astype(np.float32)
        zeros = _zero_points(codes)
        narrow, row, operator = _in_seven_bits(codes + zeros, row)
        number = self.one(np.float32(1) if scales.number is None else scales.number)
        inputs: tuple[str, ...] = (
            words,
            edit.constant(f"{name}.bytes", np.ascontiguousarray(narrow.T)),
            number,
            zero,
            edit.constant(f"{name}.scales", row),
            edit.constant(f"{name}.sums", narrow.sum(axis=0, dtype=np.int32)),
        )
        if zeros.any():
            operator += "z"
            inputs = (*inputs, edit.constant(f"{name}.zeros", zeros))
        return Node(Workload.of(operator, (m, k, n), constant=("b",)), inputs, output, label)

    def bytes_of_product(
        self, words: str, sums: "Sums", requantised: "Requantised", output: str, label: str
    ) -> Node:
        """`words`: i32[m, k / 4], `sums.codes`: [k, n]; `output`: i32[m, n / 4]."""
        edit = self._edit
        (m, _), (k, n) = edit.values[words].shape, sums.codes.shape
        totals = edit.constant(f"{output}.sums", sums.codes.sum(axis=0, dtype=np.int32))
        codes = np.ascontiguousarray(sums.codes.T.astype(np.int8))
        inputs = self._layer(words, codes, sums, requantised, output, totals)
        op = Workload.of(BYTES_OF_PRODUCT, (m, k, n), constant=("b",))
        return Node(op, inputs, output, label)

    def bytes_of_windows(
        self,
        sums: "Sums",
        extents: tuple[int, ...],
        requantised: "Requantised",
        output: str,
        label: str,
    ) -> Node:
        """`sums.words`: i32[b, h, w, c / 4], `sums.codes`: [kh, kw, c]; `extents` are those of a
        depthwise convolution, `output`: i32[b, y, x, c / 4]."""
        codes = sums.codes.astype(np.int8)
        inputs = self._layer(sums.words, codes, sums, requantised, output)
        return Node(Workload.of(BYTES_OF_WINDOWS, extents), inputs, output, label)

    def _layer(
        self,
        words: str,
        codes: NDArray[np.int8],
        sums: "Sums",
        requantised: "Requantised",
        name: str,
        *totals: str,
    ) -> tuple[str, ...]:
        edit = self._edit
        scales, columns = requantised.scales, (sums.codes.shape[-1],)
        row, bias = (
            np.broadcast_to(each, columns).astype(np.float32)
            for each in (scales.row, requantised.bias)
        )
        return (
            words,
            edit.constant(f"{name}.bytes", codes),
            self.one(np.float32(1) if scales.number is None else scales.number),
            sums.zero,
            edit.constant(f"{name}.scales", row),
            *totals,
            edit.constant(f"{name}.bias", bias),
            requantised.step,
            requantised.start,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Sums of products of bytes less their zero point with whole numbers, times scales."""

    words: str
    codes: NDArray[np.int32]
    zero: str
    scales: Scales


@dataclass(frozen=True, slots=True, kw_only=True)
class Requantised:
    """Sums become the bytes of the next layer: they are multiplied by scales, and moved by a
    bias, to steps of `step` from `start` on."""

    scales: Scales
    bias: Row
    step: str
    start: str


def both(one: Scales, two: Scales) -> Scales | None:
    """None for two numbers of the network, and where constants leave the range of f32 together:
    sums that are multiplied by one and then by the other need not."""
    if one.number is not None and two.number is not None:
        return None
    with np.errstate(over="ignore", under="ignore"):
        row = one.row * two.row
    tiny = (np.abs(row) < np.finfo(np.float32).tiny) & (one.row != 0) & (two.row != 0)
    if tiny.any() or not np.isfinite(row).all():
        return None
    return Scales(number=one.number or two.number, row=row)


def _zero_points(codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Returns for each column what moves it into 8 bits, which is 0 where it is there."""
    least, most = SIGNED
    up = np.maximum(least - codes.min(axis=0), 0)
    down = np.minimum(most - codes.max(axis=0), 0)
    return np.asarray(up + down, np.int32)


def _in_seven_bits(codes: NDArray[np.int32], row: Row) -> tuple[NDArray[np.int8], Row, str]:
    """The weights, their scales, and the operator that takes them."""
    least, most = SEVEN_BITS
    negated = np.where((codes.max(axis=0) > most) & (codes.min(axis=0) > least), -1, 1)
    seven = codes * negated
    if seven.min() >= least and seven.max() <= most:
        signs = negated.astype(np.float32)
        return seven.astype(np.int8), (row * signs).astype(np.float32), "matmul_u8i7"
    return codes.astype(np.int8), row, "matmul_u8i8"

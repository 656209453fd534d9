"""Maps functions, operations, comparisons and reducers of tensor expressions to NumPy's.

Operands decide in which numbers they compute: f32 and i32 as kernels do, float64 and int64 to check
kernels. Integers of 64 bits are brought back to 32 by `wrapped`.
"""

from collections.abc import Callable, Mapping
from math import erf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import BinaryOp, CompareOp, Function, Reducer

Array = NDArray[Any]
Indices = NDArray[np.int64]

NUMPY_DTYPES: Mapping[DType, np.dtype[Any]] = {
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.I32: np.dtype(np.int32),
    DType.I8: np.dtype(np.int8),
}
"""Element types of whole tensors. Booleans are 0 and 1 in I32, as are integers of every other size.
F16 is there once a network stores values in it, I8 where products are of bytes."""


def whole(x: Array) -> Array:
    """Rounds towards 0 and to the nearest i32; NaN becomes 0, as in WebAssembly."""
    smallest, largest = DType.I32.value_range
    clipped = np.clip(np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0)), smallest, largest)
    return np.asarray(clipped, dtype=np.int64)


def wrapped(values: Array) -> Array:
    """Keeps the low 32 bits of integers of 64, as signed numbers; others stay as they are."""
    values = np.asarray(values)
    return values.astype(np.int32).astype(np.int64) if values.dtype.kind == "i" else values


def order_keys(values: Array) -> Indices:
    """Returns integers that are ordered as the values are: NaN is the largest, zeros are equal."""
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    bits = np.where(np.isnan(values), np.nan, values).astype(np.float64).view(np.int64)
    return np.asarray(np.where(bits < 0, np.iinfo(np.int64).min - bits, bits))


_STEPS = 512
"""Entries of erf's table, for each 1. Cubic interpolation between them errs by less than 1e-12."""
_LAST = 6.0
"""erf is 1 from here on, in float64 too."""
_NODES = np.arange(_LAST * _STEPS + 2) / _STEPS
_ERF = np.array([erf(x) for x in _NODES])
_EXACT_ERF = np.vectorize(erf, otypes=[np.float64])
_SLOPE = 2 / np.sqrt(np.pi) * np.exp(-(_NODES**2)) / _STEPS


def _erf(x: Array) -> Array:
    """Looks f32 up in the table, which is a hundred times as fast; float64 is exact."""
    if x.dtype != np.float32:
        return np.asarray(_EXACT_ERF(x))
    size = np.minimum(np.abs(np.asarray(x, np.float64)), _LAST) * _STEPS
    node = np.nan_to_num(size).astype(np.int32)
    t = size - node
    rise = _ERF[node + 1] - _ERF[node]
    before, after = _SLOPE[node], _SLOPE[node + 1]
    cubic = before + t * ((3 * rise - 2 * before - after) + t * (before + after - 2 * rise))
    return np.asarray(np.copysign(_ERF[node] + t * cubic, x), np.float32)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _quotient(x: Array, y: Array) -> Array:
    """Floor division, and 1 more where it is below the quotient and that is negative."""
    floor = x // y
    return np.where((floor < 0) & (x - floor * y != 0), floor + 1, floor)


def _power(x: Array, y: Array) -> Array:
    """NumPy's, but that an integer to a negative power loses its fraction."""
    if x.dtype.kind == "f":
        return np.power(x, y)
    sign = np.where(np.bitwise_and(y, 1) == 1, x, 1)
    return np.where(y < 0, np.where(np.abs(x) == 1, sign, 0), np.power(x, np.maximum(y, 0)))


FUNCTIONS: Mapping[Function, Callable[[Array], Array]] = {
    Function.EXP: np.exp,
    Function.ERF: _erf,
    Function.TANH: np.tanh,
    Function.SQRT: np.sqrt,
    Function.RSQRT: lambda x: 1 / np.sqrt(x),
    Function.SIGMOID: _sigmoid,
    Function.LOG: np.log,
    Function.EXPM1: np.expm1,
    Function.LOG1P: np.log1p,
    Function.SIN: np.sin,
    Function.COS: np.cos,
    Function.FLOOR: np.floor,
    Function.CEIL: np.ceil,
    Function.ROUND: np.rint,
    Function.ABS: np.abs,
}
BINARY: Mapping[BinaryOp, Callable[[Array, Array], Array]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.FLOOR_DIV: np.floor_divide,
    BinaryOp.FLOOR_MOD: np.mod,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
    BinaryOp.POW: _power,
    BinaryOp.FMOD: np.fmod,
    BinaryOp.QUOTIENT: _quotient,
    BinaryOp.SHIFT_LEFT: lambda x, y: np.left_shift(x, np.bitwise_and(y, 31)),
    BinaryOp.SHIFT_RIGHT: lambda x, y: np.right_shift(x, np.bitwise_and(y, 31)),
    BinaryOp.BIT_AND: np.bitwise_and,
    BinaryOp.BIT_OR: np.bitwise_or,
    BinaryOp.BIT_XOR: np.bitwise_xor,
}
COMPARE: Mapping[CompareOp, np.ufunc] = {
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
}
REDUCERS: Mapping[Reducer, np.ufunc] = {
    Reducer.SUM: np.add,
    Reducer.MAX: np.maximum,
    Reducer.MIN: np.minimum,
    Reducer.PROD: np.multiply,
}

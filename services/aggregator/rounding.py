"""Bounds how far right results of a program may differ: each value with a bound of its rounding
error.

A kernel computes in f32, in any order, with or without multiply-add. The bound grows with each
operation as the errors do (a running error analysis: Wilkinson 1986; Higham, Accuracy and Stability
of Numerical Algorithms, section 3.3), to the first order, in units of one rounding:

    x + y     eₓ + eᵧ + |x + y|                    Σ of n terms     Σ e + n · Σ |x|
    x · y     |y| eₓ + |x| eᵧ + |x · y|            f(x)             |f'(x)| eₓ + 16 |f(x)|

Where a comparison, a floor or a cast of computed numbers may go either way, nobody can tell what is
right: the bound is infinite there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    BinaryOp,
    CompareOp,
    Function,
    Program,
    Reducer,
)
from kernelzoo.domain.target import UNIT, TargetKind
from kernelzoo.domain.tolerance import F16_STEP, F16_UNIT, FUNCTION_ROUNDINGS
from kernelzoo.numerics.entries import Floats, Lookup, Mask, evaluated
from kernelzoo.numerics.operators import (
    BINARY,
    COMPARE,
    FUNCTIONS,
    REDUCERS,
    Array,
    Indices,
    order_keys,
    whole,
    wrapped,
)

_REAL = np.dtype([("value", np.float64), ("error", np.float64)])
_WHOLE = np.dtype([("value", np.int64), ("error", np.float64)])
"""The error of an integer is 0, or inf where it is one of several."""

_NEAR = 4 * max(UNIT.values())
"""Two numbers whose bounds are so many units wide may compare either way on some target."""
_DIVISION_ROUNDINGS = 3
"""WGSL's division errs by 2.5 ulp."""
_EXACT_INTEGERS = 1 << 24
_WIDEST = {
    function: width / min(UNIT.values())
    for function, width in ((Function.TANH, 2), (Function.SIGMOID, 1), (Function.ERF, 2))
}
"""No two values of a bounded function are further apart, in roundings."""
_JUMPS = (Function.FLOOR, Function.CEIL, Function.ROUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """Right values and the bounds of their errors, in units of one rounding to f32."""

    values: Floats
    roundings: Floats


def bounded_entries(program: Program, positions: Indices, lookup: Lookup) -> Bounded:
    """Computes what `evaluation.entries` does, with how far a kernel's entries may be off."""
    with np.errstate(all="ignore"):
        found = evaluated(program, positions, lookup, _Rounded())
    return Bounded(values=_value(found).astype(np.float64), roundings=_error(found))


class _Rounded:
    """The arithmetic of pairs of a value and its error. What is a plain array is exact."""

    def constant(self, value: float) -> Array:
        exact = value == float(np.float32(value))
        return _pair(np.array([value]), np.array([0.0 if exact else abs(value)]))

    def loaded(self, values: Floats, *, integer: bool) -> Array:
        return _pair(values.astype(np.int64) if integer else values, np.zeros(values.shape))

    def positions(self, value: Array) -> Indices:
        return np.asarray(_value(value), dtype=np.int64)

    def binary(self, op: BinaryOp, left: Array, right: Array) -> Array:
        x, y = _value(left), _value(right)
        value = wrapped(BINARY[op](x, y))
        ex, ey = _error(left), _error(right)
        if value.dtype.kind != "f":
            return _pair(value, ex + ey)
        size = np.abs(value)
        match op:
            case BinaryOp.ADD | BinaryOp.SUB:
                return _pair(value, ex + ey + size)
            case BinaryOp.MUL:
                return _pair(value, _times(y, ex) + _times(x, ey) + size)
            case BinaryOp.DIV:
                error = (ex + _times(value, ey)) / np.abs(y)
                return _pair(value, error + _DIVISION_ROUNDINGS * size)
            case BinaryOp.POW:
                slopes = _times(size * y / x, ex) + _times(size * np.log(np.abs(x)), ey)
                return _pair(value, slopes + FUNCTION_ROUNDINGS * size)
            case BinaryOp.FMOD:
                error = ex + _times(np.trunc(x / y), ey)
                unsure = _is_near_a_jump(Function.FLOOR, x / y, error / np.abs(y))
                return _pair(value, np.where(unsure, np.inf, error))
        return _pair(value, np.maximum(ex, ey))

    def call(self, function: Function, argument: Array) -> Array:
        x, error = _value(argument), _error(argument)
        value = FUNCTIONS[function](x)
        if function in _JUMPS:
            return _pair(value, np.where(_is_near_a_jump(function, x, error), np.inf, 0.0))
        slope = np.abs(_SLOPES[function](x, value))
        own = 0 if function is Function.ABS else FUNCTION_ROUNDINGS
        carried = np.minimum(_times(slope, error), _WIDEST.get(function, np.inf))
        return _pair(value, carried + own * np.abs(value))

    def cast(self, argument: Array, dtype: DType) -> Array:
        x, error = _value(argument), _error(argument)
        if dtype is DType.I32:
            unsure = _is_near_a_jump(Function.FLOOR, x, error)
            return _pair(whole(x), np.where(unsure, np.inf, 0.0))
        value = x.astype(np.float64)
        rounded = np.where(np.abs(value) > _EXACT_INTEGERS, np.abs(value), 0.0)
        return _pair(value, error + rounded)

    def holds(self, op: CompareOp, left: Array, right: Array) -> tuple[Mask, Mask | None]:
        x, y, error = _value(left), _value(right), _error(left) + _error(right)
        holds = np.asarray(COMPARE[op](x, y))
        if not np.any(error):
            return holds, None
        return holds, (error > 0) & ~(np.abs(x - y) > _NEAR * error)

    def either(self, holds: Mask, unsure: Mask | None, then: Array, otherwise: Array) -> Array:
        value = np.where(holds, _value(then), _value(otherwise))
        error = np.where(holds, _error(then), _error(otherwise))
        return _pair(value, error if unsure is None else np.where(unsure, np.inf, error))

    def reduced(self, reducer: Reducer, values: Array) -> Array:
        x, error = _value(values), _error(values)
        value = wrapped(REDUCERS[reducer].reduce(x, axis=-1))
        if x.dtype.kind != "f" or reducer in (Reducer.MAX, Reducer.MIN):
            return _pair(value, error.max(axis=-1))
        terms = x.shape[-1]
        if reducer is Reducer.SUM:
            return _pair(value, error.sum(axis=-1) + terms * np.abs(x).sum(axis=-1))
        size = np.abs(value)
        return _pair(value, _times(size, (error / np.abs(x)).sum(axis=-1)) + terms * size)

    def multiplied(self, left: Array, right: Floats, sizes: Floats) -> Array:
        """Sums of products in any order, as `reduced` has it of what `binary` has of each."""
        x = np.ascontiguousarray(_value(left))
        errors = _error(left) + (x.shape[-1] + 1) * np.abs(x)
        return _pair(np.asarray(x @ right), np.asarray(errors @ sizes))

    def combined(self, reducer: Reducer, one: Array, other: Array) -> Array:
        """Runs of terms: what is rounded of one run is rounded again with each that follows."""
        pair = np.stack(np.broadcast_arrays(one, other), axis=-1)
        return self.reduced(reducer, pair)

    def running(self, reducer: Reducer, values: Array) -> Array:
        x, error = _value(values), _error(values)
        value = wrapped(REDUCERS[reducer].accumulate(x, axis=1))
        if x.dtype.kind != "f":
            return _pair(value, np.maximum.accumulate(error, axis=1))
        count = np.arange(1, x.shape[1] + 1)[:, np.newaxis]
        if reducer is Reducer.SUM:
            sizes = np.abs(x).cumsum(axis=1)
            return _pair(value, error.cumsum(axis=1) + count * sizes)
        size, shares = np.abs(value), _shares(x, error).cumsum(axis=1)
        return _pair(value, _times(size, shares) + count * size)

    def ordered(self, values: Array) -> Array:
        """Entries of inputs, which are exact."""
        return order_keys(_value(values))

    def updated(self, reducer: Reducer, initial: Array, updates: Array, at: Indices) -> Array:
        """Sums and products are rounded once with each update of an entry."""
        x, value = _value(updates), _value(initial).copy()
        error = np.broadcast_to(_error(initial), value.shape).copy()
        if reducer is Reducer.LAST:
            value[at], error[at] = x, _error(updates)
            return _pair(value, error)
        REDUCERS[reducer].at(value, at, x)
        if value.dtype.kind != "f" or reducer in (Reducer.MAX, Reducer.MIN):
            np.maximum.at(error, at, _error(updates))
            return _pair(wrapped(value), error)
        count = np.bincount(at, minlength=value.size)
        if reducer is Reducer.SUM:
            sizes = np.abs(_value(initial)).astype(np.float64)
            np.add.at(sizes, at, np.abs(x))
            np.add.at(error, at, _error(updates))
            return _pair(value, error + count * sizes)
        shares = _shares(_value(initial), error)
        np.add.at(shares, at, _shares(x, _error(updates)))
        return _pair(value, _times(np.abs(value), shares) + count * np.abs(value))

    def held_as_f16(self, values: Array) -> Array:
        """A kernel may read them rounded; what was f16 before is held as it is."""
        x = _value(values)
        with_step = (F16_UNIT * np.abs(x) + F16_STEP) / UNIT[TargetKind.WEBGPU]
        exact = x == x.astype(np.float16)
        return _pair(x, _error(values) + np.where(exact, 0.0, with_step))


def _pair(value: Array, error: Array) -> Array:
    dtype = _REAL if value.dtype.kind == "f" else _WHOLE
    made = np.empty(np.broadcast_shapes(value.shape, error.shape), dtype)
    made["value"], made["error"] = value, error
    return made


def _value(array: Array) -> Array:
    return np.asarray(array["value"]) if array.dtype.names else array


def _error(array: Array) -> Floats:
    return np.asarray(array["error"]) if array.dtype.names else np.zeros(array.shape)


def _times(slope: Array, error: Array) -> Floats:
    """No error is none however steep."""
    return np.where(error == 0, 0.0, np.abs(slope) * error)


def _shares(value: Array, error: Array) -> Floats:
    """Errors as shares of values; of an exact 0 there is none."""
    return np.where(error == 0, 0.0, error / np.abs(value))


def _is_near_a_jump(function: Function, x: Array, error: Array) -> Mask:
    place = x - 0.5 if function is Function.ROUND else x
    return np.asarray((error > 0) & ~(np.abs(place - np.rint(place)) > _NEAR * error))


_SLOPES: dict[Function, Callable[[Array, Array], Array]] = {
    Function.EXP: lambda _, y: y,
    Function.ERF: lambda x, _: np.exp(-x * x) * (2 / sqrt(pi)),
    Function.TANH: lambda _, y: 1 - y * y,
    Function.SQRT: lambda _, y: 0.5 / y,
    Function.RSQRT: lambda _, y: 0.5 * y**3,
    Function.SIGMOID: lambda _, y: y * (1 - y),
    Function.LOG: lambda x, _: 1 / x,
    Function.EXPM1: lambda _, y: y + 1,
    Function.LOG1P: lambda x, _: 1 / (1 + x),
    Function.SIN: lambda x, _: np.cos(x),
    Function.COS: lambda x, _: np.sin(x),
    Function.ABS: lambda x, _: np.ones(x.shape),
}

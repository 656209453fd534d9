"""What operators on rows compute, stage by stage, as values of the loop IR.

A stage reduces what `term` makes of each entry, `single` makes one value of that, and `kept` what
the next stage and the result see of each entry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from services.tuner.ir.build import binary, number
from services.tuner.ir.nodes import BinaryOp, Call, Expression, MathFunction
from services.tuner.operators.definitions import LOWEST, VARIANCE_FLOOR

Value = Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`single` also takes the length of a row."""

    op: BinaryOp
    start: float
    term: Callable[[Value], Value] = lambda entry: entry
    single: Callable[[Value, int], Value] = lambda value, _: value
    kept: Callable[[Value, Value], Value] = lambda entry, _: entry


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOperator:
    """`result` makes an entry of c of one that the stages leave and of the parameters' there; it is
    missing where c is the single value of the last stage."""

    stages: tuple[Stage, ...]
    result: Callable[[Value, Mapping[str, Value]], Value] | None = None


def _add(left: Value, right: Value) -> Value:
    return binary(BinaryOp.ADD, left, right)


def _less(left: Value, right: Value) -> Value:
    return binary(BinaryOp.SUB, left, right)


def _times(left: Value, right: Value) -> Value:
    return binary(BinaryOp.MUL, left, right)


def _square(value: Value) -> Value:
    return _times(value, value)


def _share(value: Value, _: int) -> Value:
    return binary(BinaryOp.DIV, number(1), value)


def _mean(value: Value, n: int) -> Value:
    return _times(value, number(1 / n))


def _root(value: Value, n: int) -> Value:
    """One over the root of a mean square."""
    mean = _add(_mean(value, n), number(VARIANCE_FLOOR))
    return Call(function=MathFunction.RSQRT, argument=mean)


def _power(entry: Value, largest: Value) -> Value:
    return Call(function=MathFunction.EXP, argument=_less(entry, largest))


_LARGEST = Stage(op=BinaryOp.MAX, start=LOWEST)
_TOTAL = Stage(op=BinaryOp.ADD, start=0)
_MEAN = Stage(op=BinaryOp.ADD, start=0, single=_mean)
_NORM = Stage(op=BinaryOp.ADD, start=0, term=_square, single=_root, kept=_times)

OPERATORS = {
    "softmax": RowOperator(
        stages=(
            Stage(op=BinaryOp.MAX, start=LOWEST, kept=_power),
            Stage(op=BinaryOp.ADD, start=0, single=_share, kept=_times),
        ),
        result=lambda entry, _: entry,
    ),
    "layer_norm": RowOperator(
        stages=(Stage(op=BinaryOp.ADD, start=0, single=_mean, kept=_less), _NORM),
        result=lambda entry, of: _add(_times(entry, of["gain"]), of["shift"]),
    ),
    "rms_norm": RowOperator(stages=(_NORM,), result=lambda entry, of: _times(entry, of["gain"])),
    "row_sum": RowOperator(stages=(_TOTAL,)),
    "row_mean": RowOperator(stages=(_MEAN,)),
    "row_max": RowOperator(stages=(_LARGEST,)),
}

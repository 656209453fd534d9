"""The value of one entry of a program in the loop IR, for templates written by hand.

What `Finish` (base/finish.py) does for epilogues of one sum by way of TVM, this does for any value
of real numbers that is read at sums of axes.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Expression,
    Function,
    Integer,
    Read,
    Real,
)
from kernelzoo.domain.workload import KEY_DTYPES
from services.tuner import ir

_OPERATIONS = {
    BinaryOp.ADD: ir.BinaryOp.ADD,
    BinaryOp.SUB: ir.BinaryOp.SUB,
    BinaryOp.MUL: ir.BinaryOp.MUL,
    BinaryOp.DIV: ir.BinaryOp.DIV,
    BinaryOp.MIN: ir.BinaryOp.MINIMUM,
    BinaryOp.MAX: ir.BinaryOp.MAXIMUM,
}
_FUNCTIONS = {
    Function.EXP: ir.MathFunction.EXP,
    Function.ERF: ir.MathFunction.ERF,
    Function.TANH: ir.MathFunction.TANH,
    Function.SQRT: ir.MathFunction.SQRT,
    Function.RSQRT: ir.MathFunction.RSQRT,
    Function.SIGMOID: ir.MathFunction.SIGMOID,
    Function.ABS: ir.MathFunction.ABS,
}


def is_plain(value: Expression, inputs: Mapping[str, str], made: AbstractSet[str]) -> bool:
    """Returns whether `entry_value` takes it: `inputs` are dtypes by name, `made` what else it may
    read."""
    match value:
        case Real():
            return True
        case Read(tensor, at):
            if tensor in made:
                return True
            real = DType(inputs.get(tensor, DType.I32)) in KEY_DTYPES
            return real and all(_place(place, None) is not None for place in at)
        case Binary(op, left, right) if op in _OPERATIONS:
            return is_plain(left, inputs, made) and is_plain(right, inputs, made)
        case Call(function, argument) if function in _FUNCTIONS:
            return is_plain(argument, inputs, made)
    return False


def entry_value(
    value: Expression,
    places: Mapping[str, ir.Affine],
    held: Mapping[str, tuple[ir.Buffer, tuple[int, ...]]],
    made: Mapping[str, ir.Expression],
) -> ir.Expression:
    """`places` are those along axes; `held` are buffers with their shapes; `made` are values that
    the kernel has at this place already."""

    def inside(part: Expression) -> ir.Expression:
        return entry_value(part, places, held, made)

    match value:
        case Real(constant):
            return ir.number(constant)
        case Read(tensor, _) if tensor in made:
            return made[tensor]
        case Read(tensor, at):
            buffer, shape = held[tensor]
            index = ir.ZERO
            for place, size in zip(at, shape, strict=True):
                found = _place(place, places)
                if found is None:
                    raise ir.unsupported(value, "the value of an entry")
                index = index * size + found
            return buffer[index]
        case Binary(op, left, right):
            return ir.Binary(op=_OPERATIONS[op], left=inside(left), right=inside(right))
        case Call(function, argument):
            return ir.call(_FUNCTIONS[function], inside(argument))
    raise ir.unsupported(value, "the value of an entry")


def _place(place: Expression, places: Mapping[str, ir.Affine] | None) -> ir.Affine | None:
    """A sum of axes and multiples of them; without `places` each stands for itself."""
    match place:
        case Integer(value):
            return ir.constant(value)
        case Axis(name):
            return ir.variable(name) if places is None else places[name]
        case Binary(BinaryOp.ADD | BinaryOp.SUB as op, left, right):
            one, other = _place(left, places), _place(right, places)
            if one is None or other is None:
                return None
            return one + other * (1 if op is BinaryOp.ADD else -1)
        case Binary(BinaryOp.MUL, left, Integer(factor)):
            one = _place(left, places)
            return None if one is None else one * factor
    return None

"""The value of one entry of a program in the loop IR, for templates written by hand.

What `Finish` (base/finish.py) does for epilogues of one sum by way of TVM, this does for any value
of real numbers that is read at sums of axes.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Binary,
    BinaryOp,
    Call,
    Expression,
    Function,
    Read,
    Real,
)
from kernelzoo.domain.workload import KEY_DTYPES
from services.tuner import ir
from services.tuner.schedules.base.places import affine, row_major

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
            return real and all(affine(place) is not None for place in at)
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
            indices = [index for place in at if (index := affine(place, places)) is not None]
            if len(indices) < len(at):
                raise ir.unsupported(value, "the value of an entry")
            return buffer[row_major(indices, shape)]
        case Binary(op, left, right):
            return ir.Binary(op=_OPERATIONS[op], left=inside(left), right=inside(right))
        case Call(function, argument):
            return ir.call(_FUNCTIONS[function], inside(argument))
    raise ir.unsupported(value, "the value of an entry")

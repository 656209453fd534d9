"""From where to where a result may reach, given where its operands may."""

from itertools import product
from operator import floordiv, mul

from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Range
from services.tuner.ir.nodes import BinaryOp


def combined(op: BinaryOp, left: Range, right: Range) -> Range:
    """Raises UnsupportedProgram for a divisor that may not be positive."""
    match op:
        case BinaryOp.MIN:
            return min(left[0], right[0]), min(left[1], right[1])
        case BinaryOp.MAX:
            return max(left[0], right[0]), max(left[1], right[1])
        case BinaryOp.MUL:
            corners = [mul(*pair) for pair in product(left, right)]
            return min(corners), max(corners)
        case BinaryOp.FLOOR_DIV if right[0] > 0:
            corners = [floordiv(*pair) for pair in product(left, right)]
            return min(corners), max(corners)
        case BinaryOp.FLOOR_MOD if right[0] > 0:
            return 0, right[1] - 1
    raise UnsupportedProgram(
        f"an index is {op} of values from {left[0]} to {left[1]} and {right[0]} to {right[1]}; "
        "restate it with a positive divisor"
    )

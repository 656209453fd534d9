"""Places in tensors of the domain's expressions, as affine forms of the loop IR."""

from collections.abc import Iterable, Mapping

from kernelzoo.domain.operators.expressions import Axis, Binary, BinaryOp, Expression, Integer
from services.tuner import ir


def affine(place: Expression, axes: Mapping[str, ir.Affine] | None = None) -> ir.Affine | None:
    """A sum of axes and their multiples, where `axes` says what each stands for; without them each
    is the variable of its name. None for any other index."""
    match place:
        case Integer(value):
            return ir.constant(value)
        case Axis(name):
            return ir.variable(name) if axes is None else axes[name]
        case Binary(BinaryOp.MUL, part, Integer(factor)) | Binary(
            BinaryOp.MUL, Integer(factor), part
        ):
            whole = affine(part, axes)
            return None if whole is None else whole * factor
        case Binary(BinaryOp.ADD | BinaryOp.SUB as op, left, right):
            one, other = affine(left, axes), affine(right, axes)
            if one is None or other is None:
                return None
            return one + other * (1 if op is BinaryOp.ADD else -1)
    return None


def row_major(places: Iterable[ir.Affine], shape: Iterable[int]) -> ir.Affine:
    """The flat index of a place: the last axis is the innermost."""
    index = ir.ZERO
    for place, size in zip(places, shape, strict=True):
        index = index * size + place
    return index

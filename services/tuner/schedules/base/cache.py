"""What kernels of attention over a cache do alike: where its entries lie, and how scores become
powers."""

from kernelzoo.domain.operators.decoding import LANES, AttentionShape
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import ZERO, Frame, binary, plus, whole
from services.tuner.ir.nodes import (
    BinaryOp,
    Bound,
    Buffer,
    Call,
    Expression,
    ExtractLane,
    Load,
    MathFunction,
)


def position(frame: Frame, state: Buffer, shape: AttentionShape) -> Affine:
    """The place of the first new token, which the first word of the state holds."""
    last = binary(BinaryOp.MIN, Load(buffer=state, index=ZERO), whole(shape.length - 1))
    return frame.let("here", binary(BinaryOp.MAX, last, whole(0)), shape.length - 1)


def key_at(shape: AttentionShape, group: Affine, quad: Affine, token: Affine) -> Affine:
    """Four entries of a key."""
    row = group.times(shape.head_dim // LANES).plus(quad)
    return row.times(shape.length).plus(token).times(LANES)


def value_at(shape: AttentionShape, group: Affine, quad: Affine, token: Affine) -> Affine:
    """Four entries of a value."""
    row = group.times(shape.length).plus(token)
    return row.times(shape.head_dim).plus(quad.times(LANES))


def before(index: Affine, limit: Affine) -> Bound:
    """index < limit"""
    return Bound(index=index.plus(limit.times(-1)), limit=0)


def all_lanes(value: Expression) -> Expression:
    """The sum of the four lanes."""
    x, y, z, w = (ExtractLane(value=value, lane=lane) for lane in range(LANES))
    return plus(plus(x, y), plus(z, w))


def exp_of_difference(value: Expression, most: Expression) -> Expression:
    return Call(function=MathFunction.EXP, argument=binary(BinaryOp.SUB, value, most))


def constant(value: int) -> Affine:
    return Affine(constant=value)

"""What kernels of attention over a cache do alike: where its entries lie, and how scores become
powers."""

from kernelzoo.domain.operators.decoding import LANES, AttentionShape
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import ZERO, Frame, binary, number, times, whole
from services.tuner.ir.nodes import (
    BinaryOp,
    Bound,
    Buffer,
    Call,
    Expression,
    IndexValue,
    Load,
    MathFunction,
)


def position(frame: Frame, state: Buffer, shape: AttentionShape) -> Affine:
    """The place of the first new token, which the first word of the state holds."""
    last = binary(BinaryOp.MIN, Load(buffer=state, index=ZERO), whole(shape.length - 1))
    return frame.let("here", binary(BinaryOp.MAX, last, whole(0)), shape.length - 1)


def first_seen(frame: Frame, place: Affine, shape: AttentionShape) -> Affine:
    """The first token that is seen from a place, whose text has no more tokens than the cache."""
    before_it = shape.span - 1
    most = shape.length - shape.span
    if not most:
        return ZERO
    within = binary(BinaryOp.MIN, IndexValue(index=place), whole(shape.length - 1))
    last = binary(BinaryOp.MAX, within, whole(before_it))
    return frame.let("seen_from", binary(BinaryOp.SUB, last, whole(before_it)), most)


def score_of(product: Expression, shape: AttentionShape) -> Expression:
    """The score that the product of a scaled query and a key is."""
    if not shape.cap:
        return product
    within = times(product, number(1.0 / shape.cap))
    return times(Call(function=MathFunction.TANH, argument=within), number(shape.cap))


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


def exp_of_difference(value: Expression, most: Expression) -> Expression:
    return Call(function=MathFunction.EXP, argument=binary(BinaryOp.SUB, value, most))

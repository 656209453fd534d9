"""Kernels of attention over a cache do this alike: where its entries lie, and how scores become
powers."""

from kernelzoo.domain.operators.decoding import LANES, AttentionShape
from services.tuner import ir


def position(frame: ir.Frame, state: ir.Buffer, shape: AttentionShape) -> ir.Affine:
    """The place of the first new token, which the first word of the state holds."""
    last = state[0].min(shape.length - 1)
    return frame.let("here", last.max(0), shape.length - 1)


def first_seen(frame: ir.Frame, place: ir.Affine, shape: AttentionShape) -> ir.Affine:
    """The first token that is seen from a place, whose text has no more tokens than the cache."""
    before_it = shape.span - 1
    most = shape.length - shape.span
    if not most:
        return ir.ZERO
    within = ir.value(place).min(shape.length - 1)
    last = within.max(before_it)
    return frame.let("seen_from", last - before_it, most)


def score_of(product: ir.Expression, shape: AttentionShape) -> ir.Expression:
    """The score that the product of a scaled query and a key is."""
    if not shape.cap:
        return product
    within = product * (1.0 / shape.cap)
    return ir.call(ir.MathFunction.TANH, within) * ir.number(shape.cap)


def key_at(shape: AttentionShape, group: ir.Affine, quad: ir.Affine, token: ir.Affine) -> ir.Affine:
    """Four entries of a key."""
    row = group * (shape.head_dim // LANES) + quad
    return (row * shape.length + token) * LANES


def value_at(
    shape: AttentionShape, group: ir.Affine, quad: ir.Affine, token: ir.Affine
) -> ir.Affine:
    """Four entries of a value."""
    row = group * shape.length + token
    return row * shape.head_dim + quad * LANES


def exp_of_difference(value: ir.Expression, most: ir.Expression) -> ir.Expression:
    return ir.call(ir.MathFunction.EXP, value - most)

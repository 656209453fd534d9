"""Random numbers by hashing places: RandomUnits.

Each number is the place, mixed with a key, mixed again with another. Keys are made of the seed and
of what tells nodes apart. A mix spreads every bit over all 32:

    x ^= x >>> 16; x *= 0x7feb352d; x ^= x >>> 15; x *= 0x846ca68b; x ^= x >>> 16

Constants: C. Wellons, "Prospecting for hash functions" (lowbias32). Steps are stages, as each reads
its operand twice.
"""

from collections.abc import Callable, Mapping, Sequence

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Cast,
    Expression,
    Integer,
)
from services.tuner.graph.building import Carried, Formula, Site

FIRST, SECOND = 0x7FEB352D, 0x846CA68B - (1 << 32)
SECOND_KEY = 0x2545F491
BITS = 24
"""Bits of an f32's significand, so that no number is rounded to 1."""


def _units(site: Site) -> Carried:
    seed, stream = site.needed(0), site.integer("stream")
    formula = Formula(site)
    (only,) = formula.axes((1,))
    start = _xor(formula.read(seed, (only,)), Integer(stream))
    key = _mixed(formula, (only,), start)
    second = _mixed(formula, (only,), key + SECOND_KEY)
    keys = [formula.stage((only,), each, DType.I32)[(Integer(0),)] for each in (key, second)]
    axes = formula.axes(site.shape)
    word = _mixed(formula, axes, _xor(axes[0], keys[0]))
    word = _mixed(formula, axes, word + keys[1])
    return formula.output(axes, Cast(_shifted(word, 32 - BITS)) * 2.0**-BITS)


def _mixed(formula: Formula, axes: Sequence[Axis], x: Expression) -> Expression:
    for shift, factor in ((16, FIRST), (15, SECOND)):
        held = formula.stage(axes, x, DType.I32)[tuple(axes)]
        x = _xor(held, _shifted(held, shift)) * factor
    held = formula.stage(axes, x, DType.I32)[tuple(axes)]
    return _xor(held, _shifted(held, 16))


def _xor(left: Expression, right: Expression) -> Expression:
    return Binary(BinaryOp.BIT_XOR, left, right)


def _shifted(x: Expression, count: int) -> Expression:
    """To the right, with zeros from the left."""
    moved = Binary(BinaryOp.SHIFT_RIGHT, x, Integer(count))
    return Binary(BinaryOp.BIT_AND, moved, Integer((1 << (32 - count)) - 1))


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {"RandomUnits": _units}

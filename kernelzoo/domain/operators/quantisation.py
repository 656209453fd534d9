"""Quantises activations when a network runs, as ONNX's DynamicQuantizeLinear does: their range
gives a scale and a zero point, by which they become bytes, four to a word."""

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    Expression,
    Extent,
    Function,
    Integer,
    Reducer,
    Stage,
    equal,
    largest,
    read,
    smallest,
)
from kernelzoo.domain.operators.integer_products import ACTIVATION_BITS, PER_WORD
from kernelzoo.domain.operators.operator import Derived, Family, Operator

MOST = 255.0
N = Extent("n")


def byte_of(value: Expression, scale: Expression, zero: Expression) -> Expression:
    """An activation as an integer from 0 to 255: the nearest, of two the even one."""
    steps = Call(Function.ROUND, value / scale) + Cast(zero)
    return Cast(smallest(largest(steps, 0.0), MOST), DType.I32)


def word_of(bytes_: tuple[Expression, ...]) -> Expression:
    """Four bytes as a word, the first in its lowest bits."""
    word, *others = bytes_
    for place, byte in enumerate(others, start=1):
        moved = Binary(BinaryOp.SHIFT_LEFT, byte, Integer(place * ACTIVATION_BITS))
        word = Binary(BinaryOp.BIT_OR, word, moved)
    return word


def _range() -> Operator:
    k, end = Axis("k", N), Axis("i", Extent("two"))
    least, most = (
        Stage(name=name, axes=(), value=read("a", k), reducer=reducer, over=(k,))
        for name, reducer in (("least", Reducer.MIN), ("most", Reducer.MAX))
    )
    value = Choice((equal(end, 0),), smallest(least[()], 0.0), largest(most[()], 0.0))
    return Operator(
        name="quantise_range",
        sentence="the least and the largest entry of a, and 0 where that is less or more",
        stages=(least, most, Stage(name="c", axes=(end,), value=value)),
        family=Family.REDUCTION,
        axes=("n",),
        inputs=(("a", ("n",)),),
        derived=(Derived(axis="two", extent=Integer(2)),),
    )


def _quantise() -> Operator:
    i = Axis("i", Extent("nw"))
    scale, zero = read("scale", 0), read("zero", 0)
    entries = (read("a", i * PER_WORD + place) for place in range(PER_WORD))
    value = word_of(tuple(byte_of(entry, scale, zero) for entry in entries))
    return Operator(
        name="quantise",
        sentence=(
            "min(max(round(a[n] / scale) + zero, 0), 255), of two nearest integers the even one, 4 "
            "in each word of c, the first in the lowest bits"
        ),
        stages=(Stage(name="c", axes=(i,), value=value, dtype=DType.I32),),
        family=Family.ELEMENTWISE,
        axes=("n",),
        inputs=(("a", ("n",)), ("scale", ("one",)), ("zero", ("one",))),
        derived=(
            Derived(axis="nw", extent=N // PER_WORD),
            Derived(axis="one", extent=Integer(1)),
        ),
        dtypes=(("zero", "i32"),),
        limits=(("zero", 1 << ACTIVATION_BITS),),
        multiples=(("n", PER_WORD),),
    )


QUANTISATIONS = (_range(), _quantise())

"""Operators of which every entry is made from a few others, and the functions of one entry."""

from collections.abc import Callable

from kernelzoo.domain.operators.expressions import (
    Axis,
    Call,
    Choice,
    Expression,
    Extent,
    Function,
    Real,
    Stage,
    largest,
    read,
    smallest,
)
from kernelzoo.domain.operators.operator import Axes, Derived, Family, Operator

K, M, N, X, Y = map(Extent, "kmnxy")
PAD, SIZE, START = map(Extent, ("pad", "size", "start"))


def gelu(value: Expression) -> Expression:
    root_half = 0.7071067811865476
    return 0.5 * value * (1.0 + Call(Function.ERF, value * root_half))


def gelu_tanh(value: Expression) -> Expression:
    root = 0.7978845608028654
    inner = root * (value + 0.044715 * (value * value * value))
    return 0.5 * value * (1.0 + Call(Function.TANH, inner))


UNARY: dict[str, tuple[str, Callable[[Expression], Expression]]] = {
    "relu": ("max(a, 0)", lambda value: largest(value, 0.0)),
    "relu6": ("min(max(a, 0), 6)", lambda value: smallest(largest(value, 0.0), 6.0)),
    "gelu": ("a · (1 + erf(a / √2)) / 2, not its approximation by tanh", gelu),
    "gelu_tanh": ("a · (1 + tanh(√(2/π) · (a + 0.044715 · a³))) / 2", gelu_tanh),
    "silu": ("a / (1 + exp(−a))", lambda value: value * Call(Function.SIGMOID, value)),
    "sigmoid": ("1 / (1 + exp(−a))", lambda value: Call(Function.SIGMOID, value)),
    "tanh": ("tanh(a)", lambda value: Call(Function.TANH, value)),
    "erf": ("erf(a)", lambda value: Call(Function.ERF, value)),
    "exp": ("exp(a)", lambda value: Call(Function.EXP, value)),
}
"""Maps each name to what it does to a value, for people and as an expression."""

BINARY: dict[str, tuple[str, Callable[[Expression, Expression], Expression]]] = {
    "add": ("a + b", lambda left, right: left + right),
    "sub": ("a − b", lambda left, right: left - right),
    "mul": ("a · b", lambda left, right: left * right),
    "max": ("max(a, b)", largest),
}


def _operator(
    name: str,
    sentence: str,
    axes: Axes,
    inputs: tuple[Axes, ...],
    entry: Stage,
    *derived: Derived,
) -> Operator:
    """Moving an entry counts as one operation."""
    return Operator(
        name=name,
        sentence=sentence,
        stages=(entry,),
        family=Family.ELEMENTWISE,
        axes=axes,
        inputs=tuple(zip("ab", inputs, strict=False)),
        derived=derived,
        attributes=tuple(axis for axis in axes if axis in ("start", "pad")),
    )


def _entries(value: Expression, *axes: Axis) -> Stage:
    return Stage(name="c", axes=axes, value=value)


def _unary(name: str) -> Operator:
    sentence, function = UNARY[name]
    i = Axis("i", N)
    return _operator(name, sentence, ("n",), (("n",),), _entries(function(read("a", i)), i))


def _binary(name: str) -> Operator:
    sentence, function = BINARY[name]
    i = Axis("i", N)
    value = function(read("a", i), read("b", i))
    return _operator(name, sentence, ("n",), (("n",), ("n",)), _entries(value, i))


def _gather() -> Operator:
    i, j = Axis("i", M), Axis("j", N)
    row = largest(smallest(read("indices", i), K - 1), 0)
    return Operator(
        name="gather",
        sentence="a[indices[m], n]; an index below 0 takes row 0, one of k or more the last row",
        stages=(_entries(read("a", row, j), i, j),),
        family=Family.ELEMENTWISE,
        axes=("m", "k", "n"),
        inputs=(("a", ("k", "n")), ("indices", ("m",))),
        dtypes=(("indices", "i32"),),
        indexed="k",
    )


def _transpose() -> Operator:
    i, j = Axis("i", N), Axis("j", M)
    entry = _entries(read("a", j, i), i, j)
    return _operator("transpose", "c[n, m] = a[m, n]", ("m", "n"), (("m", "n"),), entry)


def _concat() -> Operator:
    i, j = Axis("i", M), Axis("j", X)
    value = Choice((j < N,), read("a", i, j), read("b", i, j - N))
    return _operator(
        "concat",
        "the n columns of a, then the k columns of b",
        ("m", "n", "k"),
        (("m", "n"), ("m", "k")),
        _entries(value, i, j),
        Derived(axis="x", extent=N + K),
    )


def _slice() -> Operator:
    i, j = Axis("i", M), Axis("j", X)
    return _operator(
        "slice",
        "the columns of a from start on, size of them, or as many as there are",
        ("m", "n", "start", "size"),
        (("m", "n"),),
        _entries(read("a", i, j + START), i, j),
        Derived(axis="x", extent=smallest(SIZE, N - START)),
    )


def _pad() -> Operator:
    i, j = Axis("i", Y), Axis("j", X)
    inside = (i >= PAD, i < M + PAD, j >= PAD, j < N + PAD)
    return _operator(
        "pad",
        "a with pad zeros on every side",
        ("m", "n", "pad"),
        (("m", "n"),),
        _entries(Choice(inside, read("a", i - PAD, j - PAD), Real(0.0)), i, j),
        Derived(axis="y", extent=M + 2 * PAD),
        Derived(axis="x", extent=N + 2 * PAD),
    )


ELEMENTWISE = (
    *map(_unary, UNARY),
    *map(_binary, BINARY),
    _gather(),
    _transpose(),
    _concat(),
    _slice(),
    _pad(),
)

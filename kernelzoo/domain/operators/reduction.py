"""Operators on rows: every row of a[m, n] by itself."""

from collections.abc import Mapping

from kernelzoo.domain.operators.expressions import (
    Axis,
    Call,
    Cast,
    Expression,
    Extent,
    Function,
    Real,
    Reducer,
    Stage,
    power,
    read,
)
from kernelzoo.domain.operators.operator import Axes, Family, Operator

USUAL_EPS = 5
"""PyTorch's layer norm has this, too."""

M, N, EPS = Extent("m"), Extent("n"), Extent("eps")
i, j, k = Axis("i", M), Axis("j", N), Axis("k", N)
a, gamma, beta = read("a", i, j), read("gamma", j), read("beta", j)
SHARE = Real(1.0) / Cast(N)
"""The share of an entry in the mean of its row."""
EPSILON = power(Real(10.0), Real(0.0) - Cast(EPS))
"""Added to a variance or a mean square before its root."""


def _over_row(name: str, value: Expression, reducer: Reducer = Reducer.SUM) -> Stage:
    """A stage that reduces the entries at i, k."""
    return Stage(name=name, axes=(i,), reducer=reducer, value=value, over=(k,))


def _of_row(name: str, value: Expression) -> Stage:
    return Stage(name=name, axes=(i,), value=value)


def _entries(name: str, value: Expression) -> Stage:
    return Stage(name=name, axes=(i, j), value=value)


def _softmax() -> tuple[Stage, ...]:
    largest = _over_row("largest", read("a", i, k), Reducer.MAX)
    power = _entries("power", Call(Function.EXP, a - largest[i]))
    total = _over_row("total", power[i, k])
    return largest, power, total, _entries("c", power[i, j] / total[i])


def _factor(square: Stage) -> Stage:
    """Makes the factor that brings the entries of a row to a variance of 1, given the sum of their
    squares."""
    return _of_row("factor", Call(Function.RSQRT, square[i] * SHARE + EPSILON))


def _layer_norm() -> tuple[Stage, ...]:
    total = _over_row("total", read("a", i, k))
    rest = _entries("rest", a - total[i] * SHARE)
    square = _over_row("square", rest[i, k] * rest[i, k])
    factor = _factor(square)
    return total, rest, square, factor, _entries("c", rest[i, j] * factor[i] * gamma + beta)


def _rms_norm() -> tuple[Stage, ...]:
    square = _over_row("square", read("a", i, k) * read("a", i, k))
    factor = _factor(square)
    return square, factor, _entries("c", a * factor[i] * gamma)


def _row_mean() -> tuple[Stage, ...]:
    total = _over_row("total", read("a", i, k))
    return total, _of_row("c", total[i] * SHARE)


def epsilon(extents: Mapping[str, int]) -> float:
    """The number that attribute `eps` of a norm stands for."""
    return float(10.0 ** -extents["eps"])


def _operator(
    name: str, sentence: str, stages: tuple[Stage, ...], parameters: Axes, flops_per_point: int
) -> Operator:
    """`parameters` are inputs with a value for each column: those of norms."""
    attributes = ("eps",) if parameters else ()
    return Operator(
        name=name,
        sentence=sentence,
        stages=stages,
        family=Family.REDUCTION,
        axes=("m", "n", *attributes),
        attributes=attributes,
        usual=USUAL_EPS if parameters else None,
        inputs=(("a", ("m", "n")), *((parameter, ("n",)) for parameter in parameters)),
        flops_per_point=flops_per_point,
    )


REDUCTIONS = (
    _operator("softmax", "exp(a[m, n] − maxₙ a) / Σₙ exp(a[m, n] − maxₙ a)", _softmax(), (), 5),
    _operator(
        "layer_norm",
        "(a[m, n] − meanₙ a) / √(varₙ a + 10^−eps) · gamma[n] + beta[n]; the variance is "
        "divided by n, and eps is 5 where it is left out",
        _layer_norm(),
        ("gamma", "beta"),
        8,
    ),
    _operator(
        "rms_norm",
        "a[m, n] / √(meanₙ a² + 10^−eps) · gamma[n]; eps is 5 where it is left out",
        _rms_norm(),
        ("gamma",),
        5,
    ),
    _operator("row_sum", "Σₙ a[m, n]", (_over_row("c", read("a", i, k)),), (), 1),
    _operator("row_mean", "Σₙ a[m, n] / n", _row_mean(), (), 1),
    _operator("row_max", "maxₙ a[m, n]", (_over_row("c", read("a", i, k), Reducer.MAX),), (), 1),
)

"""The angles of a sine, cosine or tangent, by polynomials that err by less than 3 units in the last
place. GPUs have functions of these names that may err by thousands.

Polynomials and ranges: S. L. Moshier, Cephes, single precision: asinf.c, atanf.c.
"""

from collections.abc import Callable, Mapping
from math import pi

from kernelzoo.domain.operators.expressions import Call, Choice, Expression, Function, Real
from services.tuner.graph.building import Carried, Formula, Site

ARCSINE = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
ARCTANGENT = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
"""Coefficients of the powers of x² in (f(x) − x) / x³, the highest first."""
TANGENT_OF_EIGHTH, TANGENT_OF_THREE_EIGHTHS = 0.4142135623730951, 2.414213562373095
"""Tangents of π/8 and 3π/8, where the form changes."""


def _corrected(x: Expression, coefficients: tuple[float, ...]) -> Expression:
    """x + x³ · polynomial of x², which keeps -0."""
    square = x * x
    value: Expression = Real(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * square + coefficient
    return x * (1.0 + square * value)


def _root(x: Expression) -> Expression:
    return Call(Function.SQRT, x)


def arcsine(x: Expression) -> Expression:
    """Near ±1 by the angle of half the distance to it; NaN outside of -1 to 1."""
    size = Call(Function.ABS, x)
    near = pi / 2 - 2.0 * _corrected(_root((1.0 - size) * 0.5), ARCSINE)
    signed = Choice((x < 0.0,), near * -1.0, near)
    return Choice((size <= 0.5,), _corrected(x, ARCSINE), signed)


def arccosine(x: Expression) -> Expression:
    size = Call(Function.ABS, x)
    near = 2.0 * _corrected(_root((1.0 - size) * 0.5), ARCSINE)
    ends = Choice((x < 0.0,), pi - near, near)
    return Choice((size <= 0.5,), pi / 2 - _corrected(x, ARCSINE), ends)


def arctangent(x: Expression) -> Expression:
    """NaN and -0 go through the form for small numbers, which keeps them."""
    size = Call(Function.ABS, x)
    steep = pi / 2 + _corrected(-1.0 / size, ARCTANGENT)
    middle = pi / 4 + _corrected((size - 1.0) / (size + 1.0), ARCTANGENT)
    large = Choice((size > TANGENT_OF_THREE_EIGHTHS,), steep, middle)
    signed = Choice((x < 0.0,), large * -1.0, large)
    return Choice((size > TANGENT_OF_EIGHTH,), signed, _corrected(x, ARCTANGENT))


def _carried(angle: Callable[[Expression], Expression]) -> Callable[[Site], Carried]:
    def carry(site: Site) -> Carried:
        formula = Formula(site)
        axes = formula.axes(site.shape)
        return formula.output(axes, angle(formula.read(site.needed(0), axes)))

    return carry


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "Acos": _carried(arccosine),
    "Asin": _carried(arcsine),
    "Atan": _carried(arctangent),
}

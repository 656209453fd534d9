"""Quantisation by the range of what is quantised, and products of bytes."""

from collections.abc import Callable, Mapping

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Call,
    Cast,
    Choice,
    Expression,
    Function,
    Real,
    Reducer,
    equal,
    largest,
    smallest,
)
from kernelzoo.domain.workload import MAX_REDUCTION
from services.tuner.graph.building import Carried, Formula, Operand, Site

MOST = 255
"""Quantised numbers are from 0 to this."""
MOST_WIDTH = 1 << 16
"""Rows by which the range of a large tensor is found have so many entries at the most."""


def _dynamically_quantised(site: Site) -> Carried:
    """The bytes, their scale and their zero point. Where all is 0, the scale is 1, as onnxruntime
    has it; by ONNX's formula it would be 0."""
    x = site.needed(0)
    ends = _range(site, x)
    scale = _scale(site, ends)
    zero = _zero(site, ends, scale)
    formula = Formula(site)
    axes = formula.axes(x.shape)
    steps = Call(Function.ROUND, formula.read(x, axes) / formula.read(scale, ()))
    held = _within_bytes(steps + Cast(formula.read(zero, ())))
    return formula.output(axes, Cast(held, DType.I32), DType.I32), scale, zero


def _range(site: Site, x: Operand) -> Operand:
    """The least and the largest entry, 0 among them; of large tensors by way of rows."""
    width = 1 if x.elements <= MAX_REDUCTION else _row_width(x.elements)
    if width > 1:
        least, most = (_range_of_rows(site, x, width, each) for each in (Reducer.MIN, Reducer.MAX))
        formula = Formula(site)
        (end,) = formula.axes((2,))
        values = formula.read(least, (0,)), formula.read(most, (1,))
        return formula.output((end,), Choice((equal(end, 0),), *values))
    ends = site.workload("quantise_range", (x.elements,), site.view(x, (x.elements,)))
    if ends is None:
        raise site.refusal(f"it quantises {x.elements} entries at once", "give smaller dimensions")
    return ends


def _row_width(elements: int) -> int:
    """The largest width of rows that so many entries can be cut into."""
    return max(width for width in range(1, MOST_WIDTH + 1) if elements % width == 0)


def _range_of_rows(site: Site, x: Operand, width: int, reducer: Reducer) -> Operand:
    """The range of what each row has least, or largest."""
    rows = site.view(x, (x.elements // width, width))
    formula = Formula(site)
    (i,), (k,) = formula.axes(rows.shape[:1]), formula.axes((width,), first=1)
    ends = formula.output((i,), formula.read(rows, (i, k)), reducer=reducer, over=(k,))
    return _range(site, ends)


def _scale(site: Site, ends: Operand) -> Operand:
    formula = Formula(site)
    width = formula.read(ends, (1,)) - formula.read(ends, (0,))
    return formula.output((), Choice((equal(width, 0.0),), Real(1.0), width / float(MOST)))


def _zero(site: Site, ends: Operand, scale: Operand) -> Operand:
    formula = Formula(site)
    steps = 0.0 - formula.read(ends, (0,)) / formula.read(scale, ())
    value = Call(Function.ROUND, _within_bytes(steps))
    return formula.output((), Cast(value, DType.I32), DType.I32)


def _within_bytes(value: Expression) -> Expression:
    return smallest(largest(value, 0.0), float(MOST))


def _product(site: Site) -> Carried:
    """Sums of (a − zero) · b, whole numbers, of constant bytes b that have no zero point."""
    a, b, zero = site.needed(0), site.needed(1), site.input(2)
    assert b.constant is not None
    k, n = b.shape
    rows = site.view(a, (a.elements // k, k))
    formula = Formula(site)
    i, j = formula.axes((rows.shape[0], n))
    (term,) = formula.axes((k,), first=2)
    entry = formula.read(rows, (i, term))
    if zero is not None and (zero.constant is None or np.any(zero.constant)):
        entry = entry - formula.read(zero, (0,) * zero.rank)
    value = entry * formula.read(b, (term, j))
    made = formula.output((i, j), value, DType.I32, Reducer.SUM, (term,))
    return site.view(made, site.shape)


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "DynamicQuantizeLinear": _dynamically_quantised,
    "ByteMatMul": _product,
}

"""Operators of square matrices."""

from collections.abc import Callable, Mapping

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Call,
    Choice,
    Expression,
    Function,
    Integer,
    Real,
    Reducer,
    Stage,
    differs,
    equal,
    smallest,
)
from services.tuner.graph.building import Carried, Formula, Site

MOST_ROWS = 24
"""Two stages a row are in one program."""


def _eye(site: Site) -> Carried:
    rows, columns = site.shape
    return site.constant(np.eye(rows, columns, site.integer("k"), site.output.dtype))


def _determinant(site: Site) -> Carried:
    """Elimination, row by row, with the largest entry of a column as its pivot."""
    x = site.needed(0)
    rows, batch = x.shape[-1], x.elements // x.shape[-1] ** 2
    if rows > MOST_ROWS:
        raise site.refusal(
            f"its matrices have {rows} rows, of which at most {MOST_ROWS} are possible",
            "compute it in the page",
        )
    matrices = site.view(x, (batch, rows, rows))
    formula = Formula(site)
    axes = formula.axes(matrices.shape)
    b, i, j = axes
    read: Callable[..., Expression] = lambda *at: formula.read(matrices, at)  # noqa: E731
    made: Expression = Real(1.0)
    for row in range(rows):
        pivot = _pivot(formula, read, b, row, rows)
        at = pivot[b]
        head = read(b, at, Integer(row))
        made = made * Choice((differs(at, row),), head * -1.0, head)
        if row + 1 < rows:
            source = Choice((equal(i, row),), at, Choice((equal(i, at),), Integer(row), i))
            share = Choice((equal(head, 0.0),), Real(0.0), read(b, source, Integer(row)) / head)
            rest = read(b, source, j) - share * read(b, at, j)
            stage = formula.stage(axes, Choice((i > row,), rest, Real(0.0)))
            read = lambda *at, stage=stage: stage[at]  # noqa: E731
            if row % 2:
                total = formula.stage((b,), made)
                made = total[b]
    return site.view(formula.output((b,), made), site.shape)


def _pivot(
    formula: Formula, read: Callable[..., Expression], b: Axis, row: int, rows: int
) -> Stage:
    """The first row, from `row` on, that has the largest entry in column `row`."""
    (k,) = formula.axes((rows - row,), first=3)
    entry = Call(Function.ABS, read(b, k + row, Integer(row)))
    most = formula.stage((b,), entry, reducer=Reducer.MAX, over=(k,))
    place = Choice((equal(entry, most[b]),), k + row, Integer(rows))
    first = formula.stage((b,), place, DType.I32, Reducer.MIN, (k,))
    return formula.stage((b,), smallest(first[b], rows - 1), DType.I32)


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "Det": _determinant,
    "EyeLike": _eye,
}

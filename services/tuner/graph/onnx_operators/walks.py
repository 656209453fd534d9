"""Rows of a table led through decision trees, a level at a time, by tables of the trees' nodes:

    n0[row, tree] = roots[tree]
    n1[row, tree] = first[n0] if x[row, feature[n0]] <= threshold[n0] else second[n0]
    …

One program has a stage for each level, whatever the number of trees.
"""

from collections.abc import Callable, Mapping

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Choice,
    Expression,
    Integer,
    differs,
    equal,
)
from services.tuner.graph.building import Carried, Formula, Operand, Site


def _walk(site: Site) -> Carried:
    x, feature, threshold, children, roots = (site.needed(n) for n in range(5))
    kinds = site.input(5)
    _refuse_places(x, feature, children, roots)
    formula = Formula(site)
    axes = formula.axes(site.shape)
    node = formula.read(roots, axes[1:])
    for _ in range(site.integer("depth")):
        following = _following(formula, axes, x, feature, threshold, children, kinds, node)
        node = formula.stage(axes, following, DType.I32)[axes]
    return formula.output(axes, node, DType.I32)


def _refuse_places(x: Operand, feature: Operand, children: Operand, roots: Operand) -> None:
    for table, extent in (
        (feature, x.shape[1]), (children, feature.shape[0]), (roots, feature.shape[0]),
    ):  # fmt: skip
        entries = table.constant
        assert entries is not None
        assert entries.min() >= 0
        assert entries.max() < extent


def _following(
    formula: Formula,
    axes: tuple[Axis, ...],
    x: Operand,
    feature: Operand,
    threshold: Operand,
    children: Operand,
    kinds: Operand | None,
    node: Expression,
) -> Expression:
    entry = formula.read(x, (axes[0], formula.read(feature, (node,))))
    limit = formula.read(threshold, (node,))
    first, second = (formula.read(children, (node, Integer(n))) for n in (0, 1))
    below = Choice((entry <= limit,), first, second)
    if kinds is None:
        return below
    asks_equal, nan_first = (formula.read(kinds, (node, Integer(n))) for n in (0, 1))
    same = Choice((equal(entry, limit),), first, second)
    told = Choice((equal(asks_equal, 1),), same, below)
    return Choice((differs(entry, entry), equal(nan_first, 1)), first, told)


def _frames(site: Site) -> Carried:
    x, step = site.needed(0), site.integer("step", 1)
    formula = Formula(site)
    line, frame, place = axes = formula.axes(site.shape)
    return formula.output(axes, formula.read(x, (line, frame * step + place)), x.dtype)


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {"Frames": _frames, "TreeWalk": _walk}

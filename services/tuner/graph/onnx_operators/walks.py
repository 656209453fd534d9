"""Rows of a table led through decision trees, a level at a time, by tables of the trees' nodes:

    n0[row, tree] = roots[tree]
    n1[row, tree] = children[n0, 0 if x[row, feature[n0]] <= threshold[n0] else 1]
    …

One program has a stage for each level, whatever the number of trees. Trees that end above a level
are the last ones, and keep their nodes there.
"""

from collections.abc import Callable, Mapping

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Choice,
    Integer,
)
from services.tuner.graph.building import Carried, Formula, Operand, Site


def _walk(site: Site) -> Carried:
    x, feature, threshold, children, roots = (site.needed(n) for n in range(5))
    _refuse_places(x, feature, children, roots)
    formula = Formula(site)
    axes = formula.axes(site.shape)
    node = formula.read(roots, axes[1:])
    for trees in site.integers("steps") or ():
        entry = formula.read(x, (axes[0], formula.read(feature, (node,))))
        below = entry <= formula.read(threshold, (node,))
        # The choice is a number: of branches a processor would foretell every other one wrong.
        following = formula.read(children, (node, Choice((below,), Integer(0), Integer(1))))
        if trees < axes[1].extent:
            following = Choice((axes[1] < trees,), following, node)
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


def _frames(site: Site) -> Carried:
    x, step = site.needed(0), site.integer("step", 1)
    formula = Formula(site)
    line, frame, place = axes = formula.axes(site.shape)
    return formula.output(axes, formula.read(x, (line, frame * step + place)), x.dtype)


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {"Frames": _frames, "TreeWalk": _walk}

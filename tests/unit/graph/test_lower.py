"""Programs that are left get few axes, and one key wherever they compute the same."""

from typing import Any

import pytest

from kernelzoo.domain.operators.expressions import (
    Choice,
    CompareOp,
    Comparison,
    Real,
    largest,
)
from kernelzoo.domain.workload import Workload
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.lower import lowered
from tests.unit.graph.graphs import Built
from tests.unit.graph.test_fuse import same


def program(shape: tuple[int, ...], value: Any, *inputs: tuple[int, ...]) -> Graph:
    g = Built()
    return g.graph(g.program(shape, value, *(g.feed(*each) for each in inputs)))


def only(graph: Graph) -> Workload:
    nodes: list[Node] = [node for node in graph.nodes if not isinstance(node.op, View)]
    (node,) = nodes
    assert isinstance(node.op, Workload)
    return node.op


CASES = {
    "s0[i0: 192] = max(x0[i0], 0.0)": program(
        (2, 4, 24), lambda a, x: largest(x(*a), 0.0), (2, 4, 24)
    ),
    "s0[i0: 8, i1: 24] = x0[i0, i1] + x1[i1]": program(
        (2, 4, 24), lambda a, x, y: x(*a) + y(a[2]), (2, 4, 24), (24,)
    ),
    # Channels and pixels are as many: their axes must not be taken for one another.
    "s0[i0: 16, i1: 16] = x0[i1, i0]": program(
        (1, 16, 4, 4), lambda a, x: x(a[0], a[2], a[3], a[1]), (1, 4, 4, 16)
    ),
    "s0[i0: 6, i1: 5, i2: 4] = x0[i1, i0 + 6, i2]": program(
        (1, 6, 5, 4), lambda a, x: x(a[2], a[1] * 4 + a[3] + 24), (5, 48)
    ),
    # An axis of one entry may stand in a condition.
    "s0[i0: 6] = (x0[i0] if 0 < i0 else 0.0)": program(
        (1, 6),
        lambda a, x: Choice((Comparison(CompareOp.LT, a[0], a[1]),), x(*a), Real(0.0)),
        (1, 6),
    ),
    # Behind a condition places may lie outside of the tensor: they are left as they are.
    "s0[i0: 2, i1: 3, i2: 8] = (x0[i0, i1, i2] if i2 < 4 else x1[i0, i1, i2 - 4])": program(
        (2, 3, 8),
        lambda a, x, y: Choice((a[2] < 4,), x(*a[:2], a[2]), y(*a[:2], a[2] - 4)),
        (2, 3, 4),
        (2, 3, 4),
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_a_program_is_written_with_as_few_axes_as_it_needs(text: str) -> None:
    graph = CASES[text]
    after = lowered(graph)
    same(graph, after)
    assert str(only(after).program).split("\n")[-1] == text


def test_the_same_computation_has_one_key_under_any_shape() -> None:
    shapes = ((2, 4, 24), (8, 24), (1, 1, 192))
    keys = {only(lowered(program(s, lambda a, x: largest(x(*a), 0.0), s))).key for s in shapes}
    assert len(keys) == 1
    assert keys.pop().startswith("program:max:")

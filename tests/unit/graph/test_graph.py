"""A graph keeps rules, and there is a sentence for each that it breaks."""

from dataclasses import replace

import numpy as np
import pytest

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import PortDType
from kernelzoo.domain.workload import Workload
from services.tuner.graph.graph import Graph, GraphPort, Node, Value, View, faults


def small_graph() -> Graph:
    """y = reshape(x · w), 2x3 by 3x4."""
    values = (
        Value("x", DType.F32, (2, 3)),
        Value("w", DType.F32, (3, 4)),
        Value("c", DType.F32, (2, 4)),
        Value("y", DType.F32, (8,)),
    )
    return Graph(
        inputs=(GraphPort("x", PortDType.FLOAT32, "x"),),
        outputs=(GraphPort("y", PortDType.FLOAT32, "y"),),
        values={value.name: value for value in values},
        constants={"w": np.ones((3, 4), np.float32)},
        nodes=(
            Node(Workload.parse("matmul:f32:m2k3n4:constant=b"), ("x", "w"), "c", "dense"),
            Node(View(), ("c",), "y"),
        ),
    )


def test_a_sound_graph_has_no_faults_and_knows_its_users() -> None:
    graph = small_graph()
    assert faults(graph) == ()
    assert {name: len(nodes) for name, nodes in graph.users.items()} == {
        "x": 1, "w": 1, "c": 1, "y": 0,
    }  # fmt: skip


def broken(**parts: object) -> Graph:
    return replace(small_graph(), **parts)  # type: ignore[arg-type]


def with_value(value: Value) -> Graph:
    return broken(values={**small_graph().values, value.name: value})


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        (
            with_value(Value("c", DType.F32, (2, 5))),
            "(dense): 'c' is f32[2, 5]; it takes f32[2, 4]",
        ),
        (with_value(Value("y", DType.F32, (9,))), "a view has one input with as many entries"),
        (with_value(Value("c", DType.F32, (2, 0))), "value 'c' has no entries"),
        (with_value(Value("c", DType.I8, (2, 4))), "values are f32, f16, i32"),
        (with_value(Value("x", DType.I32, (2, 3))), "input 'x' is float32, its value i32"),
        (broken(nodes=small_graph().nodes[::-1]), "reads 'c' before anything makes it"),
        (broken(nodes=small_graph().nodes[:1]), "output 'y' is 'y', which nothing makes"),
        (broken(nodes=small_graph().nodes * 2), "makes a value that is made already"),
        (broken(constants={"w": np.ones((3, 4))}), "constant 'w' has entries float64[3, 4]"),
        (broken(inputs=small_graph().inputs * 2), "input 'x' stands 2 times"),
        (broken(outputs=(GraphPort("z", PortDType.BOOL, "z"),)), "'z', which is no value"),
    ],
)
def test_a_fault_of_a_graph_is_told(graph: Graph, sentence: str) -> None:
    assert any(sentence in fault for fault in faults(graph)), faults(graph)

"""Long chains and many operands: kernels of bounded depth and few bindings are made of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from kernelzoo.domain.operators.checking import MAX_DEPTH
from kernelzoo.domain.operators.expressions import Program, depth
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.graph.building import MOST_OPERANDS
from services.tuner.graph.fuse import fused
from tests.unit.graph.models import assert_as_reference, drawn
from tests.unit.graph.targets import TARGETS, outputs_on


def model(
    nodes: Iterator[NodeProto], inputs: int = 1, shape: tuple[int, ...] = (2, 3), opset: int = 17
) -> ModelProto:
    """Constants are c0, c1, …, the inputs x0, x1, …, the output y."""
    constants = [numpy_helper.from_array(np.array(1 / (n + 1), np.float32), f"c{n}")
                 for n in range(101)]  # fmt: skip
    graph = helper.make_graph(
        list(nodes), "net",
        [helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, shape) for n in range(inputs)],
        [helper.make_empty_tensor_value_info("y")],
        constants,
    )  # fmt: skip
    made: ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    return made


def node(operator: str, *names: str, **attributes: Any) -> NodeProto:
    """The last name is that of the output."""
    made: NodeProto = helper.make_node(operator, names[:-1], names[-1:], **attributes)
    return made


def sums() -> Iterator[NodeProto]:
    yield node("Add", "x0", "c1", "s0")
    for n in range(98):
        yield node("Add", f"s{n}", "c1", f"s{n + 1}")
    yield node("Neg", "s98", "y")


def polynomial() -> Iterator[NodeProto]:
    """By Horner's scheme."""
    yield node("Identity", "c0", "h0")
    for n in range(100):
        yield node("Mul", f"h{n}", "x0", f"m{n}")
        yield node("Add", f"m{n}", f"c{n + 1}", f"h{n + 1}")
    yield node("Identity", "h100", "y")


def parts_in_reverse() -> Iterator[NodeProto]:
    """All entries of one row, each by itself."""
    yield helper.make_node("Split", ["x0"], [f"p{n}" for n in range(120)], axis=1)
    yield node("Concat", *(f"p{n}" for n in reversed(range(120))), "y", axis=1)


def many(operator: str, count: int, **attributes: int) -> Iterator[NodeProto]:
    yield node(operator, *(f"x{n}" for n in range(count)), "y", **attributes)


DEEP = {
    "sums": model(sums()),
    "a polynomial": model(polynomial()),
    "120 operands": model(many("Concat", 120, axis=0), 120),
    "120 operands along the last axis": model(many("Concat", 120, axis=1), 120),
    "120 parts of one": model(parts_in_reverse(), shape=(2, 120), opset=11),
    "a sum of 20": model(many("Sum", 20), 20),
    "a mean of 20": model(many("Mean", 20), 20),
    "the largest of 120": model(many("Max", 120), 120),
}


def fed(name: str) -> dict[str, NDArray[np.float32]]:
    return {
        port.name: drawn(tuple(dim.dim_value for dim in port.type.tensor_type.shape.dim), seed)
        * np.float32(0.5)
        for seed, port in enumerate(DEEP[name].graph.input)
    }


@pytest.mark.parametrize("name", DEEP)
def test_what_is_deep_or_wide_becomes_several_kernels(name: str, tmp_path: Path) -> None:
    feeds = fed(name)
    graph = fused(assert_as_reference(tmp_path, DEEP[name], feeds))
    for each in graph.nodes:
        program = each.op.program if isinstance(each.op, Workload) else each.op
        if isinstance(program, Program):
            assert len(program.inputs) <= MOST_OPERANDS
            assert all(depth(stage.value) < MAX_DEPTH for stage in program.stages)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["sums", "a polynomial", "120 parts of one", "a mean of 20"])
def test_kernels_of_deep_chains_compute_on_each_target(
    name: str, target: TargetKind, tmp_path: Path
) -> None:
    feeds = fed(name)
    graph = assert_as_reference(tmp_path, DEEP[name], feeds)
    wanted = ReferenceEvaluator(DEEP[name]).run(None, feeds)
    assert isinstance(wanted, list)
    made = outputs_on(target, graph, feeds, tmp_path)["y"]
    np.testing.assert_allclose(made, wanted[0], rtol=1e-5, atol=1e-6)

"""Small random models through the whole import, held to ONNX's reference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tests.unit.graph.models import assert_as_reference

Shape = tuple[int, ...]
UNARY = ("Relu", "Sigmoid", "Tanh", "Erf", "Abs", "Neg", "Softplus", "HardSwish", "Exp")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")
REDUCING = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2")


@dataclass
class Model:
    """One in the making. Values are small, so that nothing overflows."""

    draw: Any
    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)

    def add(self, operator: str, inputs: list[str], shape: Shape, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        self.shapes[name] = shape
        return name

    def constant(self, value: NDArray[Any]) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def weight(self, shape: Shape) -> str:
        seed = self.draw(st.integers(0, 99))
        return self.constant(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32))

    def any_value(self) -> str:
        return str(self.draw(st.sampled_from(list(self.shapes))))

    def any_axis(self, shape: Shape) -> int:
        return int(self.draw(st.integers(-len(shape), len(shape) - 1)))


def unary(model: Model) -> None:
    x = model.any_value()
    bounded = model.add("Tanh", [x], model.shapes[x])
    model.add(model.draw(st.sampled_from(UNARY)), [bounded], model.shapes[x])


def binary(model: Model) -> None:
    """With a value, or with a weight that is broadcast."""
    x = model.any_value()
    shape = model.shapes[x]
    alike = [name for name, other in model.shapes.items() if other == shape]
    ones = model.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    small = tuple(1 if one else n for one, n in zip(ones, shape, strict=True))
    cut = model.draw(st.integers(0, len(shape)))
    other = (
        model.draw(st.sampled_from(alike)) if model.draw(st.booleans())
        else model.weight(small[cut:])
    )  # fmt: skip
    inputs = [x, other] if model.draw(st.booleans()) else [other, x]
    made = model.add(model.draw(st.sampled_from(BINARY)), inputs, shape)
    if model.nodes[-1].op_type == "Mul":
        model.add("Tanh", [made], shape)


def matmul(model: Model) -> None:
    x = model.any_value()
    *outer, k = model.shapes[x]
    n = model.draw(st.integers(1, 5))
    model.add("MatMul", [x, model.weight((k, n))], (*outer, n))


def transpose(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    order = model.draw(st.permutations(range(len(shape))))
    model.add("Transpose", [x], tuple(shape[axis] for axis in order), perm=order)


def flatten(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    wanted = np.array([shape[0], -1], np.int64)
    model.add("Reshape", [x, model.constant(wanted)], (shape[0], int(np.prod(shape[1:]))))


def sliced(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    axis, step = model.any_axis(shape), model.draw(st.sampled_from([1, 2, -1]))
    extent = shape[axis]
    start = model.draw(st.integers(-extent, extent - 1))
    stop = extent if step > 0 else -(1 << 60)
    chosen = range(extent)[slice(start, stop if step > 0 else None, step)]
    made = list(shape)
    made[axis] = len(chosen)
    ends = (model.constant(np.array([n], np.int64)) for n in (start, stop, axis, step))
    model.add("Slice", [x, *ends], tuple(made))


def concat(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    axis = model.any_axis(shape)
    alike = [name for name, other in model.shapes.items() if other == shape]
    others = model.draw(st.lists(st.sampled_from(alike), min_size=1, max_size=2))
    made = list(shape)
    made[axis] *= 1 + len(others)
    model.add("Concat", [x, *others], tuple(made), axis=axis)


def reduced(model: Model) -> None:
    """ReduceSum alone has its axes as an input in opset 17."""
    x = model.any_value()
    shape = model.shapes[x]
    axis, operator = model.any_axis(shape), model.draw(st.sampled_from(REDUCING))
    made = list(shape)
    made[axis] = 1
    if operator == "ReduceSum":
        model.add(operator, [x, model.constant(np.array([axis], np.int64))], tuple(made))
    else:
        model.add(operator, [x], tuple(made), axes=[axis])


def along(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    operator = model.draw(st.sampled_from(["Softmax", "LogSoftmax"]))
    model.add(operator, [x], shape, axis=model.any_axis(shape))


def layer_norm(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    gamma, beta = model.weight(shape[-1:]), model.weight(shape[-1:])
    model.add("LayerNormalization", [x, gamma, beta], shape, epsilon=0.01)


def chosen(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    above = model.add("Greater", [x, model.weight(())], shape)
    del model.shapes[above]
    model.add("Where", [above, x, model.weight(shape)], shape)


def gathered(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    axis = model.any_axis(shape)
    extent = shape[axis]
    indices = model.draw(st.lists(st.integers(-extent, extent - 1), min_size=1, max_size=4))
    made = list(shape)
    made[axis] = len(indices)
    model.add("Gather", [x, model.constant(np.array(indices))], tuple(made), axis=axis)


STEPS: tuple[Callable[[Model], None], ...] = (
    unary, binary, matmul, transpose, flatten, sliced, concat, reduced, along, layer_norm, chosen,
    gathered,
)  # fmt: skip


@st.composite
def models(draw: st.DrawFn) -> tuple[ModelProto, dict[str, NDArray[np.float32]]]:
    model = Model(draw)
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    model.shapes["x"] = shape
    for _ in range(draw(st.integers(1, 8))):
        draw(st.sampled_from(STEPS))(model)
    last = list(model.shapes)[-1]
    graph = helper.make_graph(
        model.nodes, "random",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        model.weights,
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.random.default_rng(draw(st.integers(0, 99))).standard_normal(shape)
    return proto, {"x": x.astype(np.float32)}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(models())
def test_a_random_model_computes_what_onnx_says(
    drawn: tuple[ModelProto, dict[str, NDArray[np.float32]]],
) -> None:
    with TemporaryDirectory() as folder:
        assert_as_reference(Path(folder), *drawn)

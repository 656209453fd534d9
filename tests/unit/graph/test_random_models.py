"""Small random models through the whole import, held to ONNX's reference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tests.examples import examples
from tests.unit.graph.models import assert_as_reference, parsed

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
    """Adds an operator of a value and another, or a weight that is broadcast."""
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


def convolved(model: Model) -> None:
    """An image of rank 3 or 4, whole, in two groups or each channel by itself."""
    images = [name for name, shape in model.shapes.items() if len(shape) in (3, 4)]
    if not images:
        return
    x = model.draw(st.sampled_from(images))
    batch, channels, *extents = model.shapes[x]
    groups = model.draw(st.sampled_from([1, channels, *([2] if channels % 2 == 0 else [])]))
    out = groups * model.draw(st.integers(1, 3))
    size, stride, dilation, before, after = (
        [model.draw(st.integers(least, most)) for _ in extents]
        for least, most in ((1, 3), (1, 2), (1, 2), (0, 2), (0, 2))
    )
    spans = [(n - 1) * d + 1 for n, d in zip(size, dilation, strict=True)]
    room = [n + b + a - span for n, b, a, span in zip(extents, before, after, spans, strict=True)]
    if min(room) < 0:
        return
    shape = (batch, out, *(left // s + 1 for left, s in zip(room, stride, strict=True)))
    weights = [model.weight((out, channels // groups, *size))]
    if model.draw(st.booleans()):
        weights.append(model.weight((out,)))
    made = model.add(
        "Conv", [x, *weights], shape, group=groups, kernel_shape=size, strides=stride,
        dilations=dilation, pads=[*before, *after],
    )  # fmt: skip
    model.add("Tanh", [made], shape)


def pooled(model: Model) -> None:
    images = [name for name, shape in model.shapes.items() if len(shape) == 4]
    if not images:
        return
    x = model.draw(st.sampled_from(images))
    batch, channels, *extents = model.shapes[x]
    size = [model.draw(st.integers(1, n)) for n in extents]
    stride = [model.draw(st.integers(1, 2)) for _ in extents]
    shape = tuple((n - k) // s + 1 for n, k, s in zip(extents, size, stride, strict=True))
    operator = model.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    model.add(operator, [x], (batch, channels, *shape), kernel_shape=size, strides=stride)


def standardised(model: Model) -> None:
    """By statistics of channels that are known."""
    x = model.any_value()
    shape = model.shapes[x]
    if len(shape) < 2:
        return
    gamma, beta, mean = (model.weight(shape[1:2]) for _ in range(3))
    spread = model.constant(np.linspace(0.5, 2, shape[1], dtype=np.float32))
    model.add("BatchNormalization", [x, gamma, beta, mean, spread], shape, epsilon=0.001)


def spelt_gelu(model: Model) -> None:
    """x / 2 · (1 + erf(x / √2)), with its factors in one of the orders that exporters write."""
    x = model.any_value()
    shape = model.shapes[x]
    root, one, half = (
        model.constant(np.array(value, np.float32)) for value in (np.sqrt(2), 1, 0.5)
    )
    grown = model.add(
        "Add", [model.add("Erf", [model.add("Div", [x, root], shape)], shape), one], shape
    )
    if model.draw(st.booleans()):
        model.add("Mul", [model.add("Mul", [x, half], shape), grown], shape)
    else:
        model.add("Mul", [model.add("Mul", [x, grown], shape), half], shape)


def counted(model: Model) -> None:
    """Integers in between: parts of 7, which wrap, and comparisons joined."""
    x = model.any_value()
    shape = model.shapes[x]
    scaled = model.add("Mul", [x, model.constant(np.array(5, np.float32))], shape)
    whole = model.add("Cast", [scaled], shape, to=TensorProto.INT64)
    divisor = model.constant(np.array(model.draw(st.sampled_from([2, 3, 7])), np.int64))
    operator = model.draw(st.sampled_from(["Mod", "Add", "Sub", "Mul", "Max"]))
    number = model.add(operator, [whole, divisor], shape)
    above = model.add("Greater", [number, model.constant(np.array(1, np.int64))], shape)
    other = model.add("LessOrEqual", [x, model.constant(np.array(0.25, np.float32))], shape)
    joined = model.add(model.draw(st.sampled_from(["And", "Or", "Xor"])), [above, other], shape)
    for name in (scaled, whole, number, above, other, joined):
        del model.shapes[name]
    real = model.add("Cast", [model.draw(st.sampled_from([number, joined]))], shape,
                     to=TensorProto.FLOAT)  # fmt: skip
    model.add("Mul", [real, model.constant(np.array(0.125, np.float32))], shape)


def ranked(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    axis = model.any_axis(shape)
    made = list(shape)
    made[axis] = model.draw(st.integers(1, shape[axis]))
    name = f"v{len(model.nodes)}"
    number = model.constant(np.array([made[axis]], np.int64))
    largest = int(model.draw(st.booleans()))
    model.nodes.append(
        helper.make_node("TopK", [x, number], [name, f"{name}.at"], axis=axis, largest=largest)
    )
    model.shapes[name] = tuple(made)


def summed_up(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    axis = model.constant(np.array(model.any_axis(shape), np.int64))
    flags = {name: int(model.draw(st.booleans())) for name in ("exclusive", "reverse")}
    model.add("CumSum", [x, axis], shape, **flags)


def padded(model: Model) -> None:
    """The mode that reads entries again needs some."""
    x = model.any_value()
    shape = model.shapes[x]
    mode = model.draw(st.sampled_from(["constant", "edge"]))
    before, after = ([model.draw(st.integers(0, 2)) for _ in shape] for _ in range(2))
    made = tuple(n + b + a for n, b, a in zip(shape, before, after, strict=True))
    model.add("Pad", [x, model.constant(np.array([*before, *after], np.int64))], made, mode=mode)


def repeated(model: Model) -> None:
    x = model.any_value()
    shape = model.shapes[x]
    times = [model.draw(st.integers(1, 2)) for _ in shape]
    made = tuple(n * t for n, t in zip(shape, times, strict=True))
    model.add("Tile", [x, model.constant(np.array(times, np.int64))], made)


def attended(model: Model) -> None:
    """Self-attention of two heads, as exporters write it."""
    rows = [name for name, shape in model.shapes.items() if len(shape) == 3]
    if not rows:
        return
    x = model.draw(st.sampled_from(rows))
    batch, positions, width = model.shapes[x]
    heads: list[str] = []
    for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        flat = model.add("MatMul", [x, model.weight((width, 4))], (batch, positions, 4))
        biased = model.add("Add", [model.weight((4,)), flat], (batch, positions, 4))
        split = model.constant(np.array([0, 0, 2, 2], np.int64))
        shape = (batch, positions, 2, 2)
        apart = model.add("Reshape", [biased, split], shape)
        heads.append(
            model.add("Transpose", [apart], tuple(shape[axis] for axis in order), perm=order)
        )
    square = (batch, 2, positions, positions)
    scores = model.add("MatMul", heads[:2], square)
    halved = model.add("Div", [scores, model.constant(np.array(1.5, np.float32))], square)
    masked = model.add("Add", [halved, model.weight((1, 1, positions, positions))], square)
    shares = model.add("Softmax", [masked], square, axis=-1)
    mixed = model.add("MatMul", [shares, heads[2]], (batch, 2, positions, 2))
    back = model.add("Transpose", [mixed], (batch, positions, 2, 2), perm=(0, 2, 1, 3))
    joined = model.constant(np.array([batch, positions, 4], np.int64))
    flat = model.add("Reshape", [back, joined], (batch, positions, 4))
    out = model.add("MatMul", [flat, model.weight((4, width))], (batch, positions, width))
    model.add("Add", [out, x], (batch, positions, width))


STEPS: tuple[Callable[[Model], None], ...] = (
    unary, binary, matmul, transpose, flatten, sliced, concat, reduced, along, layer_norm, chosen,
    gathered, convolved, pooled, standardised, spelt_gelu, counted, ranked, summed_up, padded,
    repeated, attended,
)  # fmt: skip
MOST_ENTRIES = 4_000


@st.composite
def models(draw: st.DrawFn) -> tuple[ModelProto, dict[str, NDArray[np.float32]]]:
    model = Model(draw)
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    model.shapes["x"] = shape
    for _ in range(draw(st.integers(1, 8))):
        draw(st.sampled_from(STEPS))(model)
        assume(all(np.prod(each) <= MOST_ENTRIES for each in model.shapes.values()))
    assume(model.nodes)
    last = list(model.shapes)[-1]
    also = draw(st.sampled_from(list(model.shapes)[:-1] or [last]))
    outputs = [last] if also in ("x", last) else [last, also]
    graph = helper.make_graph(
        model.nodes, "random",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        model.weights,
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.random.default_rng(draw(st.integers(0, 99))).standard_normal(shape)
    return proto, {"x": x.astype(np.float32)}


# What is left of both steps reads one entry where it stands, which shows once its axis is gone.
PADDED_AND_SLICED = parsed("""
    random (float[1] x) => (float[1] y)
    <int64[2] pads = {2, 0}, int64[1] starts = {-2}, int64[1] ends = {3}, int64[1] axes = {0},
     int64[1] steps = {2}> {
        padded = Pad <mode = "edge"> (x, pads)
        y = Slice (padded, starts, ends, axes, steps)
    }
""")


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(models())
@example((PADDED_AND_SLICED, {"x": np.ones(1, np.float32)}))
def test_a_random_model_computes_what_onnx_says(
    drawn: tuple[ModelProto, dict[str, NDArray[np.float32]]],
) -> None:
    with TemporaryDirectory() as folder:
        assert_as_reference(Path(folder), *drawn)

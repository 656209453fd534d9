"""Convolutions and norms of images in the forms that ONNX's own tests leave out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import assert_as_reference, drawn, parsed, written
from tests.unit.graph.targets import TARGETS, outputs_on

CONVOLUTIONS = {
    "grouped": ("4, 6, 5", "8, 2, 3, 3", "group = 2, pads = [1, 0, 2, 1]", []),
    "dilated": ("2, 9, 9", "3, 2, 3, 3", "dilations = [2, 1], pads = [2, 1, 2, 1]", []),
    "depthwise": ("4, 6, 6", "4, 1, 3, 3", "group = 4, pads = [1, 1, 1, 1]", ["depthwise_conv2d"]),
    "two for each channel": ("3, 5, 5", "6, 1, 3, 3", "group = 3", []),
    "of one axis": ("4, 9", "5, 4, 3", "pads = [1, 1], strides = [2]", ["conv2d"]),
    "dilated along one axis": ("4, 12", "5, 4, 3", "dilations = [2], pads = [2, 2]", ["conv2d"]),
    "dilated along one axis and cut": (
        "4, 11", "5, 4, 3", "dilations = [3], pads = [6, 0]", ["conv2d"],
    ),
    "depthwise and dilated along one axis": (
        "4, 12", "4, 1, 3", "group = 4, dilations = [4], pads = [4, 4]", ["depthwise_conv2d"],
    ),
    "depthwise, dilated along one axis and cut": (
        "4, 11", "4, 1, 3", "group = 4, dilations = [3], pads = [6, 0]", ["depthwise_conv2d"],
    ),
    "in groups and dilated along one axis": (
        "4, 12", "8, 2, 3", "group = 2, dilations = [2], pads = [2, 2]", [],
    ),
    "dilated by most of a short axis": ("4, 9", "5, 4, 3", "dilations = [8], pads = [8, 8]", []),
    "dilated and strided along one axis": (
        "4, 12", "5, 4, 3", "dilations = [2], strides = [2], pads = [2, 2]", [],
    ),
    "of unequal sides": ("2, 7, 8", "3, 2, 3, 3", "pads = [0, 1, 1, 0]", ["conv2d"]),
    "of unequal strides": ("2, 7, 8", "3, 2, 3, 3", "strides = [1, 2]", []),
    "depthwise, of unequal strides": (
        "4, 7, 9", "4, 1, 3, 3", "group = 4, strides = [2, 1], pads = [1, 1, 1, 1]",
        ["depthwise_conv2d"],
    ),
    "depthwise, of unequal strides and sides": (
        "4, 6, 9", "4, 1, 5, 3", "group = 4, strides = [1, 2], pads = [2, 0, 2, 1]",
        ["depthwise_conv2d"],
    ),
    "depthwise, of strides that are no multiples": (
        "4, 7, 9", "4, 1, 3, 3", "group = 4, strides = [2, 3], pads = [1, 1, 1, 1]", [],
    ),
    "depthwise, of strides far apart": (
        "4, 11, 5", "4, 1, 3, 3", "group = 4, strides = [5, 1], pads = [1, 1, 1, 1]", [],
    ),
    "of unequal strides in one row": ("2, 4, 5", "3, 2, 1, 3", "strides = [2, 1]", []),
    "of three axes": ("2, 4, 5, 4", "3, 2, 2, 3, 2", "pads = [0, 1, 0, 0, 1, 0]", []),
}  # fmt: skip

TRANSPOSED = {
    "without overlap": ("3, 4, 5", "3, 6, 2, 2", "strides = [2, 2]", ["matmul"]),
    "with overlap": ("3, 4, 5", "3, 6, 4, 4", "strides = [2, 2], pads = [1, 1, 1, 1]", ["conv2d"]),
    "with padded output": (
        "3, 4, 4", "3, 2, 3, 3",
        "strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]", ["conv2d"],
    ),
    "of one axis": ("3, 6", "3, 2, 4", "strides = [2], pads = [1, 1]", ["conv2d"]),
}  # fmt: skip


def check(operator: str, image: str, weights: str, attributes: str, folder: Path) -> list[str]:
    """Names of the workloads that it became, but for transposes and padding."""
    x, w = (tuple(map(int, shape.split(", "))) for shape in (f"2, {image}", weights))
    group = int(attributes.split("group = ")[1][0]) if "group" in attributes else 1
    out = w[0] if operator == "Conv" else w[1] * group
    rank = ", ".join(f"D{n}" for n in range(len(x) - 2))
    given = f"float[2, {image}] x, float[{weights}] w, float[{out}] b"
    made = f"{operator} <{attributes}> (x, w, b)"
    text = f"net ({given}) => (float[N, O, {rank}] y) {{ y = {made} }}"
    feeds = {"x": drawn(x), "w": drawn(w, 1), "b": drawn((out,), 2)}
    graph = assert_as_reference(folder, parsed(text), feeds)
    return [node.op.operator.name for node in graph.nodes if isinstance(node.op, Workload)]


@pytest.mark.parametrize("form", CONVOLUTIONS)
def test_a_convolution(form: str, tmp_path: Path) -> None:
    image, weights, attributes, named = CONVOLUTIONS[form]
    assert check("Conv", image, weights, attributes, tmp_path) == named


GELUS = {
    "of one axis": ("4, 12", "5, 4, 3", "pads = [1, 1]", "conv2d+bias+gelu"),
    "dilated along one axis": (
        "4, 12", "5, 4, 3", "dilations = [2], pads = [2, 2]", "conv2d+bias+gelu",
    ),
    "of an image": ("4, 6, 5", "5, 4, 3, 3", "pads = [1, 1, 1, 1]", "conv2d+bias+gelu"),
    "dilated": (
        "4, 6, 5", "5, 4, 3, 3", "dilations = [2, 2], pads = [2, 2, 2, 2]", "program",
    ),
    "of each channel": (
        "4, 6, 5", "4, 1, 3, 3", "group = 4, pads = [1, 1, 1, 1]", "depthwise_conv2d+bias+gelu",
    ),
    "of each channel, dilated along one axis": (
        "4, 12", "4, 1, 3", "group = 4, dilations = [4], pads = [4, 4]",
        "depthwise_conv2d+bias+gelu",
    ),
    "in groups": ("4, 6, 5", "8, 2, 3, 3", "group = 2, pads = [1, 0, 2, 1]", "program"),
    "two for each channel": ("3, 5, 5", "6, 1, 3, 3", "group = 3", "program"),
    "in groups along one axis": ("4, 9", "8, 2, 3", "group = 2, pads = [1, 1]", "program"),
    "in groups and dilated along one axis": (
        "4, 12", "8, 2, 3", "group = 2, dilations = [2], pads = [2, 2]", "program",
    ),
}  # fmt: skip


def with_gelu(form: str) -> tuple[str, dict[str, NDArray[Any]]]:
    """A convolution with a GELU that is spelt out, and what it is fed."""
    image, weights, attributes, _ = GELUS[form]
    x, w = (tuple(map(int, shape.split(", "))) for shape in (f"2, {image}", weights))
    rank = ", ".join(f"D{n}" for n in range(len(x) - 2))
    text = (
        f"net (float[2, {image}] x, float[{weights}] w, float[{w[0]}] b)"
        f" => (float[N, O, {rank}] y)"
        " <float half = {0.5}, float one = {1}, float root = {1.41421356}> {"
        f" c = Conv <{attributes}> (x, w, b) h = Mul(c, half) d = Div(c, root) e = Erf(d)"
        " s = Add(e, one) y = Mul(h, s) }"
    )
    return text, {"x": drawn(x), "w": drawn(w, 1), "b": drawn((w[0],), 2)}


@pytest.mark.parametrize("form", GELUS)
def test_a_gelu_that_is_spelt_out_is_done_by_the_convolution(form: str, tmp_path: Path) -> None:
    text, feeds = with_gelu(form)
    graph = assert_as_reference(tmp_path, parsed(text), feeds)
    wanted = GELUS[form][-1]
    kernels = [node.op.key for node in fused(graph).nodes if isinstance(node.op, Workload)]
    named = [key for key in kernels if not key.startswith("program")]
    with_erf = [key for key in kernels if "_erf" in key]
    if wanted == "program":
        assert not named
        (whole,) = with_erf
        assert "_sum_" in whole
    else:
        assert [key.split(":")[0] for key in named] == [wanted]
        assert not with_erf


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "form",
    [
        "of each channel, dilated along one axis",
        "in groups",
        "in groups and dilated along one axis",
    ],
)
def test_kernels_of_a_convolution_with_gelu_are_right(
    form: str, target: TargetKind, tmp_path: Path
) -> None:
    text, feeds = with_gelu(form)
    graph = import_model(written(tmp_path, parsed(text)), {})
    (wanted,), (made,) = (
        outputs.values()
        for outputs in (evaluate(graph, feeds), outputs_on(target, graph, feeds, tmp_path))
    )
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_of_a_depthwise_convolution_with_unequal_strides_are_right(
    target: TargetKind, tmp_path: Path
) -> None:
    """The bias is the convolution's, and what follows leaves out every other row."""
    text = (
        "net (float[1, 8, 7, 10] x, float[8, 1, 5, 5] w, float[8] b) => (float[1, 8, 4, 10] y) {"
        " c = Conv <group = 8, strides = [2, 1], pads = [2, 2, 2, 2]> (x, w, b)"
        " y = HardSwish(c) }"
    )
    feeds = {"x": drawn((1, 8, 7, 10)), "w": drawn((8, 1, 5, 5), 1), "b": drawn((8,), 2)}
    graph = assert_as_reference(tmp_path, parsed(text), feeds)
    keys = [node.op.key for node in fused(graph).nodes if isinstance(node.op, Workload)]
    assert "depthwise_conv2d+bias:f32:b1h7w10c8kh5kw5stride1pad2" in keys
    (wanted,), (made,) = (
        outputs.values()
        for outputs in (evaluate(graph, feeds), outputs_on(target, graph, feeds, tmp_path))
    )
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", TRANSPOSED)
def test_a_transposed_convolution(form: str, tmp_path: Path) -> None:
    image, weights, attributes, named = TRANSPOSED[form]
    assert check("ConvTranspose", image, weights, attributes, tmp_path) == named


def test_a_transposed_convolution_in_groups_is_one_for_each(tmp_path: Path) -> None:
    """ONNX's reference takes groups of one channel alone, so that it is given them one by one."""
    given = "net (float[2, 4, 4, 4] x, float[4, 3, 3, 3] w) => (float[N, O, H, W] y)"
    grouped = f"{given} {{ y = ConvTranspose <group = 2, strides = [2, 1]> (x, w) }}"
    single = f"""{given} {{
        x0, x1 = Split <axis = 1> (x)
        w0, w1 = Split <axis = 0> (w)
        y0 = ConvTranspose <strides = [2, 1]> (x0, w0)
        y1 = ConvTranspose <strides = [2, 1]> (x1, w1)
        y = Concat <axis = 1> (y0, y1)
    }}"""
    feeds = {"x": drawn((2, 4, 4, 4)), "w": drawn((4, 3, 3, 3), 1)}
    wanted = evaluate(assert_as_reference(tmp_path, parsed(single), feeds), feeds)["y"]
    made = evaluate(import_model(written(tmp_path, parsed(grouped)), {}), feeds)["y"]
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)


def test_a_norm_of_groups_is_one_program_over_the_image(tmp_path: Path) -> None:
    text = """net (float[2, 6, 3, 4] x, float[6] g, float[6] b) => (float[2, 6, 3, 4] y) {
        y = GroupNormalization <num_groups = 3, epsilon = 0.01> (x, g, b)
    }"""
    feeds = {"x": drawn((2, 6, 3, 4)), "g": drawn((6,), 1), "b": drawn((6,), 2)}
    graph = assert_as_reference(tmp_path, parsed(text, opset=21), feeds)
    assert len(graph.nodes) == 1


def test_the_epsilon_of_a_norm_stands_in_its_key(tmp_path: Path) -> None:
    text = """net (float[2, 3, 8] x, float[8] g) => (float[2, 3, 8] y) {
        y = LayerNormalization <epsilon = 1e-12> (x, g)
    }"""
    feeds = {"x": drawn((2, 3, 8)), "g": drawn((8,), 1)}
    graph = assert_as_reference(tmp_path, parsed(text), feeds)
    keys = [node.op.key for node in graph.nodes if isinstance(node.op, Workload)]
    assert keys == ["layer_norm:f32:m6n8eps12"]


def test_a_recurrence_between_convolutions_of_one_axis_keeps_its_steps_in_front(
    tmp_path: Path,
) -> None:
    text = (
        "net (float[2, 3, 9] x, float[4, 3, 3] w, float[4, 6, 3] v) => (float[2, 4, 9] y) {"
        " c = Conv <pads = [1, 1]> (x, w) r = Relu(c) t = Transpose <perm = [2, 0, 1]> (r)"
        " h = LSTM <hidden_size = 6> (t, a, b) s = Squeeze(h, axis) q = Relu(s)"
        " u = Transpose <perm = [1, 2, 0]> (q) y = Conv <pads = [1, 1]> (u, v) }"
    )
    model = parsed(text)
    weights: dict[str, NDArray[Any]] = {
        "a": drawn((1, 24, 4), 1), "b": drawn((1, 24, 6), 2), "axis": np.array([1], np.int64),
    }  # fmt: skip
    for name, entries in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(entries, name))
    feeds = {"x": drawn((2, 3, 9)), "w": drawn((4, 3, 3), 3), "v": drawn((4, 6, 3), 4)}
    graph = assert_as_reference(tmp_path, model, feeds)
    kernels = [node.op.key for node in fused(graph).nodes if isinstance(node.op, Workload)]
    assert any(key.startswith("conv2d+relu:") for key in kernels)

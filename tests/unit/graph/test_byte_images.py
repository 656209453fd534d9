"""Convolutions of networks that onnxruntime's quantiser made multiply bytes, and give what
onnxruntime does."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType

from fixtures.quantised_networks import (
    by_onnxruntime,
    dynamic,
    mobilenet,
    resnet,
    static,
)
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import Need
from kernelzoo.domain.workload import Workload
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import plan_graphs
from tests.unit.graph.models import parsed, written
from tests.unit.graph.quantised_files import Form, Imported, imported, output
from tests.unit.graph.running import Runner, golden_arrays

OPERATORS = {"quant_format": QuantFormat.QOperator, "activation_type": QuantType.QUInt8}

FORMS: dict[str, Form] = {
    "static": (static, mobilenet, {}),
    "static, by channel": (static, mobilenet, {"per_channel": True}),
    "static, 7 bits": (static, mobilenet, {"per_channel": True, "reduce_range": True}),
    "static, operators": (static, mobilenet, OPERATORS),
    "dynamic": (dynamic, mobilenet, {}),
    "dynamic, unsigned weights": (dynamic, mobilenet, {"weight_type": QuantType.QUInt8}),
    "static, unsigned weights": (
        static, mobilenet, {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8},
    ),
    "static bottlenecks": (static, resnet, {"per_channel": True}),
    "static bottlenecks, operators": (static, resnet, OPERATORS),
    "dynamic bottlenecks": (dynamic, resnet, {}),
}  # fmt: skip


@cache
def quantised(form: str) -> Imported:
    return imported(FORMS[form])


@cache
def ruled(form: str) -> Graph:
    return fused(quantised(form)[0])


def names(graph: Graph) -> list[str]:
    found = (node.op for node in graph.nodes if isinstance(node.op, Workload))
    return [each.operator.name for each in found]


@pytest.mark.parametrize("form", FORMS)
def test_a_quantised_network_of_images_computes_what_onnxruntime_does(form: str) -> None:
    graph, feeds, wanted = quantised(form)
    for made in (graph, ruled(form)):
        output(made, feeds, wanted)


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form != "static bottlenecks, operators"]
)
def test_every_convolution_over_all_channels_is_a_product_of_bytes(form: str) -> None:
    made = names(ruled(form))
    assert "conv2d" not in made
    products = [name for name in made if name.startswith("matmul_u8i")]
    assert len(products) == (13 if "bottlenecks" in form else 8)
    assert "unsigned weights" not in form or products.count("matmul_u8i8z") >= 6


@pytest.mark.parametrize(
    "form", [form for form in FORMS if "dynamic" not in form and "unsigned" not in form]
)
def test_bytes_go_from_layer_to_layer(form: str) -> None:
    """The image that comes in, means, and channels that are no sixteen are quantised apart."""
    made = names(ruled(form))
    layers = [name for name in made if name.endswith("u8i8q")]
    fewest = {"static bottlenecks": 12, "static bottlenecks, operators": 10}.get(form, 9)
    assert len(layers) == fewest
    assert made.count("quantise") <= 3
    assert "bottlenecks" in form or made.count("depthwise_conv2d_u8i8q") == 2


def test_weights_of_convolutions_take_8_bits_in_the_file_and_in_memory() -> None:
    (plan,) = plan_graphs([quantised("static bottlenecks")[0]], [{}], "small").plans
    assert plan.needs == (Need.I8,)
    f32 = [each for each in plan.weights if each.dtype is DType.F32]
    assert max(np.prod(each.shape) for each in f32) <= 64
    convolutions = [each for each in plan.weights if each.dtype is DType.I8]
    assert all(each.bytes == np.prod(each.shape) for each in convolutions)


@pytest.mark.parametrize(
    "form", ["static", "static bottlenecks", "dynamic", "dynamic, unsigned weights"]
)
def test_kernels_of_images_give_the_golden_outputs(form: str) -> None:
    made = plan_graphs([quantised(form)[0]], [{}], "small")
    (plan,), (golden,) = made.plans, made.golden
    workloads = {workload.key: workload for workload in made.workloads}
    runner = Runner(plan, workloads, b"".join(made.weights.blocks()))
    feeds = golden_arrays(plan.golden.inputs, plan.inputs, golden)
    wanted = golden_arrays(plan.golden.outputs, plan.outputs, golden)
    for name, found in runner.run(feeds).items():
        apart = np.abs(found - wanted[name]).max()
        assert apart <= plan.golden.tolerance * np.abs(wanted[name]).max()


@pytest.mark.parametrize("zero", [0, 77, 255])
def test_what_is_outside_of_an_image_is_its_zero_point(tmp_path: Path, zero: int) -> None:
    """Padding is 0 as a real number."""
    model = parsed(
        "agraph (float[1,4,5,5] x) => (float[1,4,3,3] y)"
        f"<float s = {{0.25}}, uint8 z = {{{zero}}}>"
        "{ q = QuantizeLinear(x, s, z) r = DequantizeLinear(q, s, z) "
        "y = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (r, w) }"
    )
    weights = np.random.default_rng(0).integers(-127, 128, (4, 4, 3, 3)).astype(np.float32) / 64
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    path = written(tmp_path, model)
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 4, 5, 5)).astype(np.float32) * 20}
    graph = import_model(path, {})
    assert "matmul_u8i8" in names(fused(graph))
    (found,) = evaluate(fused(graph), feeds).values()
    np.testing.assert_allclose(found, by_onnxruntime(path, feeds), rtol=1e-5, atol=1e-4)


PARTS = {
    "the first rows": ([0], [4], [2]),
    "one row": ([2], [3], [2]),
    "the first channels": ([0], [16], [1]),
    "the last channels": ([16], [32], [1]),
}
STEPS = {
    "an input": "QuantizeLinear({}, s, z)",
    "bytes": "DequantizeLinear({}, s, z)",
    "real numbers": "Conv <pads = [1, 1, 1, 1], group = {group}> ({}, w)",
    "sums": "QuantizeLinear({}, s, z)",
}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("of", STEPS)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_an_image_is_not_taken_for_the_whole(
    tmp_path: Path, part: str, of: str, *, apart: bool
) -> None:
    bounds = dict(zip(("start", "stop", "axes"), PARTS[part], strict=True))
    channels = 16 if "channels" in part and of != "sums" else 32
    group = channels if apart else 1
    lines, value = [], "x"
    for name, step in STEPS.items():
        if name == of:
            lines.append(f"part = Slice({value}, start, stop, axes)")
            value = "part"
        lines.append(f"y{len(lines)} = {step.format(value, group=group)}")
        value = f"y{len(lines) - 1}"
    model = parsed(
        "agraph (float[1,32,6,5] x) => (float[a,b,c,d] y)"
        f"<float s = {{0.05}}, uint8 z = {{77}}> {{ {' '.join(lines)} "
        f"y = DequantizeLinear({value}, s, z) }}"
    )
    drawn = np.random.default_rng(0).integers(-127, 128, (channels, channels // group, 3, 3))
    weights = drawn.astype(np.float32) / np.float32(64 * (9 * channels // group) ** 0.5)
    constants = {"w": weights} | {name: np.array(each) for name, each in bounds.items()}
    model.graph.initializer.extend(
        numpy_helper.from_array(entries, name) for name, entries in constants.items()
    )
    path = written(tmp_path, model)
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 32, 6, 5)).astype(np.float32)}
    (found,) = evaluate(fused(import_model(path, {})), feeds).values()
    np.testing.assert_allclose(found, by_onnxruntime(path, feeds), atol=0.051)


def test_a_convolution_in_parts_of_the_channels_computes_what_onnxruntime_does(
    tmp_path: Path,
) -> None:
    """Sums that f32 does not hold are added of parts, which read some of the channels."""
    model = parsed(
        "agraph (float[1,16,6,5] x) => (float[1,8,6,5] y)"
        "{ q, s, z = DynamicQuantizeLinear(x) c = ConvInteger <pads = [3, 3, 3, 3]> (q, w, z) "
        "r = Cast <to = 1> (c) y = Mul(r, s) }"
    )
    weights = np.random.default_rng(0).choice(np.array([-128, 127], np.int8), (8, 16, 7, 7))
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    path = written(tmp_path, model)
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 16, 6, 5)).astype(np.float32)}
    (found,) = evaluate(fused(import_model(path, {})), feeds).values()
    np.testing.assert_allclose(found, by_onnxruntime(path, feeds), rtol=1e-6)

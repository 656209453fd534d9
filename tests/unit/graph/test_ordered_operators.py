"""Operators that take values one after another, against onnxruntime: as NumPy computes them and as
kernels do."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper, shape_inference

from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import plan_graphs
from tests.unit.graph.models import assert_as_reference, parsed
from tests.unit.graph.models import drawn as drawn_image
from tests.unit.graph.running import Runner

Array = NDArray[Any]
SEEDS = range(8)


def model_of(
    operator: str,
    feeds: Mapping[str, Array],
    constants: Mapping[str, Array],
    order: tuple[str, ...],
    outputs: tuple[str, ...],
    **attributes: Any,
) -> bytes:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    ]
    graph = helper.make_graph(
        [helper.make_node(operator, order, outputs, **attributes)],
        "net",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in constants.items()],
    )
    opset = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    return bytes(shape_inference.infer_shapes(model).SerializeToString())


def assert_as_onnxruntime(model: bytes, feeds: Mapping[str, Array], folder: Path) -> None:
    path = folder / "model.onnx"
    path.write_bytes(model)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    wanted = dict(zip(names, session.run(None, dict(feeds)), strict=True))
    graph = import_model(path, {})
    made = plan_graphs([graph], [{}], "net")
    kernels = {workload.key: workload for workload in made.workloads}
    runner = Runner(made.plans[0], kernels, b"".join(made.weights.blocks()))
    stored = {
        port.name: np.asarray(feeds[port.name], np.float32 if port.dtype == "float32" else np.int32)
        for port in made.plans[0].inputs
    }
    for found in (evaluate(graph, feeds), runner.run(stored)):
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4)


def drawn(random: np.random.Generator, shape: tuple[int, ...], dtype: type) -> Array:
    """Draws many equal numbers."""
    if dtype is np.float32:
        return np.round(random.standard_normal(shape), 1).astype(dtype)
    return random.integers(-9, 9, shape).astype(dtype)


def shape_of(random: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(n) for n in random.integers(1, 8, random.integers(1, 4)))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_largest_and_smallest_along_an_axis(seed: int, dtype: type, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    shape = shape_of(random)
    axis = int(random.integers(-len(shape), len(shape)))
    x = drawn(random, shape, dtype)
    if dtype is np.float32 and seed % 2:
        x.flat[random.integers(0, x.size, 3)] = [np.nan, -np.inf, -0.0]
    count = np.array([random.integers(1, shape[axis] + 1)])
    outputs = ("values", "places")
    attributes = {"axis": axis, "largest": seed % 3 > 0}
    model = model_of("TopK", {"x": x}, {"k": count}, ("x", "k"), outputs, **attributes)
    assert_as_onnxruntime(model, {"x": x}, tmp_path)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("seed", SEEDS)
def test_sums_up_to_each_place(seed: int, dtype: type, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    shape = shape_of(random)
    axis = np.array(random.integers(-len(shape), len(shape)))
    x = drawn(random, shape, dtype)
    attributes = {"exclusive": seed & 1, "reverse": seed >> 1 & 1}
    model = model_of("CumSum", {"x": x}, {"axis": axis}, ("x", "axis"), ("y",), **attributes)
    assert_as_onnxruntime(model, {"x": x}, tmp_path)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("seed", SEEDS)
def test_updates_along_an_axis(seed: int, reduction: str, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    dtype = np.float32 if seed % 2 else np.int64
    shape = shape_of(random)
    axis = int(random.integers(-len(shape), len(shape)))
    updated = [int(random.integers(1, extent + 1)) for extent in shape]
    updated[axis] = int(random.integers(1, 6))
    places = random.integers(-shape[axis], shape[axis], updated)
    feeds = {"x": drawn(random, shape, dtype), "u": drawn(random, tuple(updated), dtype)}
    constants = {} if seed % 3 else {"at": places}
    feeds |= {} if constants else {"at": places}
    order, attributes = ("x", "at", "u"), {"axis": axis, "reduction": reduction}
    model = model_of("ScatterElements", feeds, constants, order, ("y",), **attributes)
    assert_as_onnxruntime(model, feeds, tmp_path)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("seed", SEEDS)
def test_updates_of_slices(seed: int, reduction: str, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    dtype = np.float32 if seed % 2 else np.int64
    shape = shape_of(random)
    depth = int(random.integers(1, len(shape) + 1))
    count = shape_of(random)[:2]
    columns = [random.integers(-extent, extent, count) for extent in shape[:depth]]
    places = np.stack(columns, axis=-1)
    feeds = {
        "x": drawn(random, shape, dtype),
        "u": drawn(random, (*count, *shape[depth:]), dtype),
    }
    constants = {} if seed % 3 else {"at": places}
    feeds |= {} if constants else {"at": places}
    order = ("x", "at", "u")
    model = model_of("ScatterND", feeds, constants, order, ("y",), reduction=reduction)
    assert_as_onnxruntime(model, feeds, tmp_path)


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("known", [True, False])
def test_a_place_outside_of_the_tensor_is_passed(
    known: bool, reduction: str, tmp_path: Path
) -> None:
    """ONNX makes it an error, which a kernel cannot raise."""
    places = np.array([[0], [-4], [3], [2**31 - 1], [-(2**31)], [-1], [7]])
    feeds = {"x": np.zeros((3, 2), np.float32), "u": np.ones((7, 2), np.float32)}
    feeds |= {} if known else {"at": places}
    constants = {"at": places} if known else {}
    order = ("x", "at", "u")
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of("ScatterND", feeds, constants, order, ("y",), reduction=reduction))
    graph = import_model(path, {})
    made = plan_graphs([graph], [{}], "net")
    kernels = {workload.key: workload for workload in made.workloads}
    runner = Runner(made.plans[0], kernels, b"".join(made.weights.blocks()))
    stored = {port.name: feeds[port.name] for port in made.plans[0].inputs}
    if not known:
        stored["at"] = places.astype(np.int32)
    wanted = np.array([[1, 1], [0, 0], [1, 1]], np.float32)
    for found in (evaluate(graph, feeds), runner.run(stored)):
        assert np.array_equal(found["y"], wanted)


@pytest.mark.parametrize("operator", ["CumSum (a, axis)", "ScatterElements (a, places, a)"])
def test_an_image_between_convolutions_is_taken_as_it_lies(operator: str, tmp_path: Path) -> None:
    """Other programs read and write it channels-last there."""
    text = (
        "net (float[1, 3, 4, 4] x, float[3, 3, 1, 1] w) => (float[1, 3, 4, 4] y)"
        " <int64 axis = {1}, int64[1, 3, 4, 4] places = {" + ", ".join(["0", "-1"] * 24) + "}> {"
        f" c = Conv (x, w) a = Relu(c) s = {operator} r = Relu(s) y = Conv (r, w) }}"
    )
    feeds = {"x": drawn_image((1, 3, 4, 4)), "w": drawn_image((3, 3, 1, 1))}
    assert_as_reference(tmp_path, parsed(text), feeds)

"""Pads of any width, also such as cut on one side what they add on the other."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import plan_graphs
from tests.examples import examples
from tests.unit.graph.graphs import computed
from tests.unit.graph.models import assert_as_reference, drawn, parsed, written
from tests.unit.graph.running import Runner

Array = NDArray[Any]
Pads = list[tuple[int, int]]


def cut_and_padded(x: Array, pads: Pads, mode: str, value: float = 0) -> Array:
    """Pads as onnxruntime does: edges and reflections are of what is left of a cut."""
    for axis, (before, after) in enumerate(pads):
        kept = slice(max(0, -before), x.shape[axis] - max(0, -after))
        x = x[(slice(None),) * axis + (kept,)]
    width = [(max(0, before), max(0, after)) for before, after in pads]
    more: dict[str, Any] = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, width, mode, **more)  # type: ignore[call-overload, no-any-return]


@st.composite
def padded(draw: st.DrawFn) -> tuple[Array, Pads, str]:
    mode = draw(st.sampled_from(["constant", "edge", "reflect", "wrap"]))
    dtype = draw(st.sampled_from([np.float32, np.int64, np.int32]))
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    pads: Pads = []
    for extent in shape:
        left = draw(st.integers(1, extent))
        cut = draw(st.integers(0, extent - left))
        most = max(0, left - 1) if mode == "reflect" else 3
        before, after = (draw(st.integers(0, most)) for _ in range(2))
        pads.append((-cut or before, -(extent - left - cut) or after))
    x = np.random.default_rng(0).integers(1, 99, shape).astype(dtype)
    return x, pads, mode


@settings(max_examples=examples(150), deadline=None)
@given(case=padded(), some_axes=st.booleans())
def test_a_pad_is_that_of_numpy(case: tuple[Array, Pads, str], *, some_axes: bool) -> None:
    x, pads, mode = case
    axes = [axis for axis, each in enumerate(pads) if any(each) or not some_axes]
    if not axes:
        return
    width = np.array([pads[axis][side] for side in (0, 1) for axis in axes], np.int64)
    kind_of_axes = np.int64 if x.dtype == np.float32 else np.int32
    weights = {"pads": width, "value": np.array(7, x.dtype), "axes": np.array(axes, kind_of_axes)}
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node("Pad", ["x", *weights], ["y"], mode=mode)], "pad",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 19)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    wanted = cut_and_padded(x, pads, mode, 7)
    with TemporaryDirectory() as folder:
        made = import_model(written(Path(folder), model), {})
    for each in (made, fused(made)):
        np.testing.assert_array_equal(evaluate(each, {"x": x})["y"], wanted)
    np.testing.assert_array_equal(computed(made, {"x": x})["y"], wanted)


LOPSIDED = {
    "Conv1d": ("Conv", (2, 3, 5), (4, 3, 3), [1, 0], [2]),
    "Conv1d of one channel": ("Conv", (1, 1, 8), (1, 1, 3), [0, 2], [3]),
    "Conv2d": ("Conv", (1, 3, 5, 7), (4, 3, 3, 3), [1, 1, 0, 0], [2, 2]),
    "Conv2d of two strides": ("Conv", (1, 3, 5, 7), (4, 3, 3, 3), [1, 1, 0, 0], [2, 3]),
    "depthwise": ("Conv <group = 3>", (1, 3, 5, 7), (3, 1, 3, 3), [1, 1, 0, 0], [2, 2]),
    "in groups": ("Conv <group = 2>", (1, 4, 5, 5), (6, 2, 3, 3), [1, 1, 0, 0], [2, 2]),
    "MaxPool": ("MaxPool", (1, 3, 5, 7), (3, 3), [1, 1, 0, 0], [2, 2]),
    "AveragePool": ("AveragePool", (1, 3, 5, 7), (3, 3), [1, 1, 0, 0], [2, 2]),
    "AveragePool with its padding": (
        "AveragePool <count_include_pad = 1>", (1, 3, 5, 7), (3, 3), [1, 1, 0, 0], [2, 2],
    ),
    "ConvTranspose": ("ConvTranspose", (1, 3, 5, 5), (3, 4, 3, 3), [3, 1, 1, 3], [1, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", LOPSIDED)
def test_the_last_window_may_end_before_an_image_that_is_padded_in_front(
    name: str, tmp_path: Path
) -> None:
    """Entries that no window reaches are cut on one side, and as many come on the other."""
    operator, shape, size, pads, strides = LOPSIDED[name]
    head, _, more = operator.partition(" <")
    feeds = {"x": drawn(shape)}
    attributes = [f"pads = {pads}", f"strides = {strides}", *filter(None, [more.rstrip(">")])]
    if "Pool" in head:
        attributes.append(f"kernel_shape = {list(size)}")
    else:
        feeds["w"] = drawn(size, 1)
    inputs = ", ".join(f"float{list(each.shape)} {name}" for name, each in feeds.items())
    made = ", ".join("ABCD"[: len(shape)])
    assert_as_reference(
        tmp_path,
        parsed(
            f"net ({inputs}) => (float[{made}] y)"
            f" {{ y = {head} <{', '.join(attributes)}> ({', '.join(feeds)}) }}"
        ),
        feeds,
    )


def test_a_pad_that_keeps_the_shape_moves_entries_in_kernels_as_well(tmp_path: Path) -> None:
    model = parsed("""net (float[1, 2, 1] x) => (float[1, 2, 1] y) {
        pads = Constant <value_ints = [0, 1, 0, 0, -1, 0]> ()
        y = Pad (x, pads)
    }""")
    graph = import_model(written(tmp_path, model), {})
    x = np.array([[[1], [2]]], np.float32)
    assert evaluate(graph, {"x": x})["y"].tolist() == [[[0], [1]]]
    made = plan_graphs([graph], [{}], "pad")
    workloads = {workload.key: workload for workload in made.workloads}
    runner = Runner(made.plans[0], workloads, b"".join(made.weights.blocks()))
    assert runner.run({"x": x})["y"].tolist() == [[[0], [1]]]


def test_nothing_becomes_what_it_is_padded_with(tmp_path: Path) -> None:
    """A tensor without entries has a place in a larger one."""
    model = parsed("""net (float[2, 3] x) => (float[2, 3] y) <float[0, 3] none = {}> {
        pads = Constant <value_ints = [1, 0, 1, 0]> ()
        filled = Pad (none, pads)
        y = Add (x, filled)
    }""")
    model.graph.initializer[0].CopyFrom(helper.make_tensor("none", TensorProto.FLOAT, [0, 3], []))
    x = drawn((2, 3))
    graph = import_model(written(tmp_path, model), {})
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], x)

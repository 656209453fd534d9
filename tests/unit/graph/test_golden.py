"""Golden inputs: what they are drawn from, and that rounding decides nothing of their outputs."""

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.golden import SEED, golden_file, rounded, seeded_feeds
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import plan_model
from tests.models_of_bytes import bytes_compared
from tests.unit.graph.models import drawn, with_weights, written

Ports = Sequence[tuple[str, int, Sequence[int]]]


def graph_of(
    nodes: Sequence[onnx.NodeProto], inputs: Ports, outputs: Ports, **constants: np.ndarray
) -> Graph:
    made = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs],
        [numpy_helper.from_array(entries, name) for name, entries in constants.items()],
    )
    proto = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return imported(proto)


def imported(proto: onnx.ModelProto) -> Graph:
    with TemporaryDirectory() as folder:
        return import_model(written(Path(folder), proto), {})


INT, REAL = TensorProto.INT64, TensorProto.FLOAT
NODE = helper.make_node


def test_bytes_that_are_compared_with_all_values_are_drawn_from_them() -> None:
    graph = imported(bytes_compared())
    golden = golden_file(graph)
    x = golden.feeds["x"]
    assert (x.min() >= 0, x.max() <= 256, len(np.unique(x)) > 20) == (True, True, True)
    assert golden.off == {}
    # Equal bytes would have divided rounding by rounding.
    ones = {"x": np.ones_like(x)}
    assert golden_file(graph, ones).off == {"y": golden.outputs["y"].size}


@pytest.mark.parametrize(
    ("nodes", "least", "most"),
    [
        ([NODE("Gather", ["table", "x"], ["y"])], 0, 8),
        ([NODE("OneHot", ["x", "depth", "values"], ["y"], axis=-1)], 0, 6),
        (
            [
                NODE("Equal", ["x", "pad"], ["is"]),
                NODE("Cast", ["is"], ["y"], to=REAL),
            ],
            0,
            6,
        ),
        ([NODE("Cast", ["x"], ["y"], to=REAL)], 0, 1),
    ],
    ids=["Gather", "OneHot", "Equal to a pad", "a mask"],
)
def test_integers_are_drawn_from_what_they_are_used_for(
    nodes: list[onnx.NodeProto], least: int, most: int
) -> None:
    shapes = {"Gather": [64, 3], "OneHot": [64, 7]}
    graph = graph_of(
        nodes,
        [("x", INT, [64])],
        [("y", REAL, shapes.get(nodes[0].op_type, [64]))],
        table=np.ones((9, 3), np.float32),
        depth=np.array(7),
        values=np.array([0, 1], np.float32),
        pad=np.array(5),
    )
    found = seeded_feeds(graph)["x"]
    assert (found.min(), found.max()) == (least, most)


def test_bytes_of_pictures_are_any() -> None:
    graph = graph_of(
        [NODE("Cast", ["x"], ["y"], to=REAL)],
        [("x", TensorProto.UINT8, [4096])],
        [("y", REAL, [4096])],
    )
    found = seeded_feeds(graph)["x"]
    assert (found.min(), found.max()) == (0, 255)


def test_integers_that_are_numbers_are_drawn_anew_where_equal_ones_settle_nothing() -> None:
    """A norm along an axis on which masks are equal."""
    nodes = [
        NODE("Cast", ["x"], ["real"], to=REAL),
        NODE("Mul", ["real", "third"], ["d"]),
        NODE("ReduceMean", ["d", "axes"], ["m"]),
        NODE("Mul", ["d", "d"], ["dd"]),
        NODE("ReduceMean", ["dd", "axes"], ["mm"]),
        NODE("Mul", ["m", "m"], ["m2"]),
        NODE("Sub", ["mm", "m2"], ["v"]),
        NODE("Add", ["v", "small"], ["w"]),
        NODE("Sqrt", ["w"], ["s"]),
        NODE("Sub", ["d", "m"], ["c"]),
        NODE("Div", ["c", "s"], ["y"]),
    ]
    graph = graph_of(
        nodes,
        [("x", INT, [64, 5])],
        [("y", REAL, [64, 5])],
        third=np.array(1 / 3, np.float32),
        small=np.array(1e-9, np.float32),
        axes=np.array([0]),
    )
    golden = golden_file(graph)
    assert golden.off == {}
    assert len(np.unique(golden.feeds["x"])) > 2


def test_inputs_of_a_logarithm_are_positive() -> None:
    graph = graph_of([NODE("Log", ["x"], ["y"])], [("x", REAL, [64])], [("y", REAL, [64])])
    golden = golden_file(graph)
    assert np.isfinite(golden.outputs["y"]).all()
    assert golden.feeds["x"].min() > 0


def test_of_near_labels_some_may_be_off_and_of_clear_ones_none() -> None:
    """Some of 40,000 pixels with two near scores each change with any rounding."""
    nodes = [
        NODE("MatMul", ["x", "w"], ["scores"]),
        NODE("ArgMax", ["scores"], ["y"], axis=-1, keepdims=0),
    ]
    w = np.random.default_rng(1).standard_normal((16, 2)).astype(np.float32)
    near = np.stack([w[:, 0], w[:, 0] + 1e-5 * w[:, 1]], axis=1)
    ports = [("x", REAL, [40_000, 16])], [("y", INT, [40_000])]
    (part,) = golden_file(graph_of(nodes, *ports, w=near)).golden.outputs
    assert part.off is not None
    assert 0 < part.off <= 40_000
    few = [("x", REAL, [16, 16])], [("y", INT, [16])]
    (clear,) = golden_file(graph_of(nodes, *few, w=w)).golden.outputs
    assert clear.off is None


def test_rounding_leaves_whole_numbers_and_infinities_as_they_are() -> None:
    graph = graph_of(
        [NODE("Relu", ["x"], ["h"]), NODE("Floor", ["h"], ["y"])],
        [("x", REAL, [6])],
        [("y", REAL, [6])],
    )
    x = np.array([-1, 0, 3, 4096, np.inf, 2.5], np.float32)
    moved = evaluate(graph, {"x": x}, seen=rounded(np.random.default_rng(SEED)))["y"]
    assert moved.tolist() == [0, 0, 3, 4096, np.inf, 2]


def test_rows_of_tables_are_told_and_other_integers_are_not() -> None:
    nodes = [
        NODE("Gather", ["table", "ids"], ["rows"]),
        NODE("Gather", ["table", "shifted"], ["others"]),
        NODE("Add", ["free", "two"], ["shifted"]),
        NODE("Sub", ["rows", "others"], ["y"]),
    ]
    graph = graph_of(
        [nodes[2], nodes[0], nodes[1], nodes[3]],
        [("ids", INT, [2, 3]), ("free", INT, [2, 3])],
        [("y", REAL, [2, 3, 4])],
        table=np.random.default_rng(2).random((9, 4), np.float32),
        two=np.array(2),
    )
    assert {port.name: port.rows for port in graph.inputs} == {"ids": (-9, 8), "free": None}
    # What is computed from integers is kept within the table.
    zeros = np.zeros((2, 3), np.int32)
    far, last = (evaluate(graph, {"ids": zeros, "free": zeros + n})["y"] for n in (1_000_000, 6))
    assert np.array_equal(far, last)


def test_places_of_updates_are_told_too() -> None:
    graph = graph_of(
        [NODE("ScatterND", ["x", "places", "updates"], ["y"])],
        [("x", REAL, [7, 3]), ("places", INT, [2, 1]), ("updates", REAL, [2, 3])],
        [("y", REAL, [7, 3])],
    )
    assert [port.rows for port in graph.inputs] == [None, (-7, 6), None]
    assert seeded_feeds(graph)["places"].max() < 7


def test_labels_that_are_compared_with_all_values_are_not_refused() -> None:
    graph = graph_of(
        [NODE("OneHot", ["x", "depth", "values"], ["y"], axis=-1)],
        [("x", INT, [5])],
        [("y", REAL, [5, 7])],
        depth=np.array(7),
        values=np.array([0, 1], np.float32),
    )
    assert graph.inputs[0].rows is None


def test_integers_that_a_kernel_of_its_own_divides_choose_no_rows() -> None:
    """A program that is a workload from the import on says of its integers what they may be when it
    is timed, which bounds no input."""
    unsigned = TensorProto.UINT32
    graph = graph_of(
        [NODE("Div", ["x", "d"], ["y"])],
        [("x", unsigned, [5]), ("d", unsigned, [5])],
        [("y", unsigned, [5])],
    )
    assert [port.rows for port in graph.inputs] == [None, None]


def detector(layers: int) -> str:
    """Convolutions as a detector has them, from an image to a map of one channel."""
    convolved = "\n".join(
        f"c{n} = Conv<pads=[1, 1, 1, 1]>(x{n}, u)\nx{n + 1} = Relu(c{n})" for n in range(layers)
    )
    return f"""
        detector (float[1, 3, 368, 592] image) => (float[1, 1, 368, 592] y)
        {{
            x0 = Conv<pads=[1, 1, 1, 1], strides=[2, 2]>(image, w)
            {convolved}
            joined = Concat<axis=1>(x0, x{layers})
            mapped = Conv<pads=[1, 1, 1, 1]>(joined, v)
            scales = Constant<value_floats=[1.0, 1.0, 2.0, 2.0]>()
            y = Resize<mode="nearest", nearest_mode="floor",
                coordinate_transformation_mode="asymmetric">(mapped, , scales)
        }}
    """


def test_a_detector_of_large_images_is_imported_without_arrays_of_windows(tmp_path: Path) -> None:
    """The windows of the last convolution are 251 MB, a tensor of 64 channels is 14 MB; more layers
    take no more, as values end with their last reader."""
    weights = {"w": drawn((64, 3, 3, 3)), "u": drawn((64, 64, 3, 3)), "v": drawn((1, 128, 3, 3))}
    tensor_bytes = 4 * 64 * 184 * 296
    peaks = []
    for layers in (1, 4):
        path = written(tmp_path, with_weights(detector(layers), **weights))
        tracemalloc.start()
        plan_model(path, [], "detector")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 11 * tensor_bytes, peaks
    assert peaks[1] - peaks[0] < tensor_bytes, peaks

"""Tables of bytes keep to a byte an entry, and programs read the same numbers from them."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import plan_graphs
from tests.unit.graph.models import parsed, written
from tests.unit.graph.running import Runner, golden_arrays

ROWS, WIDTH = 37, 32
LOOKED_UP = """g (int64[2, 5] ids) => (float[2, 5, %d] y) {
    rows = Gather (table, ids)
    y = DequantizeLinear (rows, scale, zero)
}"""


def table(dtype: type[np.int8 | np.uint8], width: int = WIDTH) -> NDArray[np.int8 | np.uint8]:
    ends = np.iinfo(dtype)
    drawn = np.random.default_rng(3).integers(ends.min, ends.max + 1, (ROWS, width))
    drawn[0, :4] = (ends.min, ends.max, 0, ends.max // 2 + 1)
    return drawn.astype(dtype)


def model_of(entries: NDArray[np.int8 | np.uint8], folder: Path) -> Path:
    model = parsed(LOOKED_UP % entries.shape[1])
    given = {
        "table": entries,
        "scale": np.array(0.02, np.float32),
        "zero": np.array(7, entries.dtype),
    }
    for name, value in given.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    return written(folder, model)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_table_of_bytes_takes_a_byte_an_entry_and_gives_the_same_rows(
    tmp_path: Path, dtype: type[np.int8 | np.uint8]
) -> None:
    entries = table(dtype)
    graph = import_model(model_of(entries, tmp_path), {})
    made = plan_graphs([graph], [{}], "table")
    (plan,), (golden,) = made.plans, made.golden
    assert entries.nbytes in [weight.bytes for weight in plan.weights]
    assert max(weight.bytes for weight in plan.weights) == entries.nbytes
    body = b"".join(made.weights.blocks())
    assert entries.tobytes() in body, "as the file has them"
    ids = np.array([[0, 1, 2, 3, ROWS - 1], [-1, 0, 5, 6, 7]])
    wanted = (entries.astype(np.int32)[ids] - 7) * np.float32(0.02)
    for each in (graph, fused(graph)):
        np.testing.assert_allclose(evaluate(each, {"ids": ids})["y"], wanted, rtol=1e-6)
    workloads = {workload.key: workload for workload in made.workloads}
    feeds = golden_arrays(plan.golden.inputs, plan.inputs, golden)
    right = golden_arrays(plan.golden.outputs, plan.outputs, golden)
    found = Runner(plan, workloads, body).run(feeds)
    np.testing.assert_allclose(found["y"], right["y"], rtol=1e-6)


def test_a_table_without_whole_words_in_a_row_stays_as_it_is(tmp_path: Path) -> None:
    entries = table(np.uint8, WIDTH - 2)
    graph = import_model(model_of(entries, tmp_path), {})
    (plan,) = plan_graphs([graph], [{}], "table").plans
    assert max(weight.bytes for weight in plan.weights) == 4 * entries.nbytes
    ids = np.arange(10).reshape(2, 5)
    wanted = (entries.astype(np.int32)[ids] - 7) * np.float32(0.02)
    np.testing.assert_allclose(evaluate(fused(graph), {"ids": ids})["y"], wanted, rtol=1e-6)

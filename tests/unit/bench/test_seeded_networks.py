"""Networks that are sent about without their weights."""

from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper, save

from bench.models.seeded import emptied, filled

TABLE = np.random.default_rng(5).standard_normal((80, 60), np.float32)
WEIGHTS = {"table": TABLE, "again": TABLE, "transposed": TABLE.T.copy(), "other": TABLE + 1}


def entries_of(model: ModelProto) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}


def test_weights_that_were_equal_are_equal_again(tmp_path: Path) -> None:
    """A plan holds a table once that is the last product's, too, transposed or not."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    initial = [numpy_helper.from_array(entries, name) for name, entries in WEIGHTS.items()]
    graph = helper.make_graph([], "network", ends[:1], ends[1:], initial)
    save(helper.make_model(graph), tmp_path / "network.onnx")
    sent = emptied(tmp_path / "network.onnx")
    assert len(sent) < TABLE.nbytes
    made = entries_of(filled(sent))
    assert np.array_equal(made["table"], made["again"])
    assert np.array_equal(made["table"].T, made["transposed"])
    assert not np.array_equal(made["table"], made["other"])
    assert np.allclose([made["table"].mean(), made["table"].std()], [0, 1], atol=0.05)

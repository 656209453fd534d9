"""Dimensions that a file leaves open are so as far as memory and the model allow, unless told."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from fixtures.causal_decoder import CausalDecoder
from fixtures.encoder import Encoder
from kernelzoo.errors import UnsupportedModel
from services.tuner.graph.fuse import fused
from services.tuner.graph.importing import import_model
from services.tuner.graph.memory import placed
from services.tuner.graph.open_bounds import LEAST_BUDGET_BYTES, OpenDimensions, open_dimensions
from services.tuner.graph.reading import read_model
from tests.unit.graph.models import drawn, parsed, with_weights, written


def found(folder: Path, model: ModelProto) -> OpenDimensions:
    path = folder / "model.onnx"
    onnx.save(model, path)
    opened = open_dimensions(read_model(path))
    assert opened is not None
    return opened


def ranges(opened: OpenDimensions) -> dict[str, tuple[int, int]]:
    return {each.name: (each.least, each.most) for each in opened.ranges}


def test_a_range_ends_where_the_model_does(tmp_path: Path) -> None:
    opened = found(tmp_path, Encoder(tokens=None, positions=77).model())
    assert ranges(opened) == {"batch": (1, 8), "sequence": (1, 77)}
    assert opened.batch == "batch"
    assert not opened.sums


def test_what_is_past_may_be_nothing_and_a_total_is_a_sum(tmp_path: Path) -> None:
    opened = found(tmp_path, CausalDecoder(positions=24).model())
    assert ranges(opened) == {"batch": (1, 8), "sequence": (1, 12), "past": (0, 12)}
    assert opened.sums == {"total": ("sequence", "past")}


def test_a_range_ends_where_memory_does(tmp_path: Path) -> None:
    """Each of the wide rows takes 200 kB, and no weights are as large as 64 MiB."""
    text = """wide (float[1, n, 8] x) => (float[1, n, 8] y) {
        wide = MatMul(x, up) y = MatMul(wide, down)
    }"""
    weights = {"up": drawn((8, 50_000)), "down": drawn((50_000, 8))}
    path = written(tmp_path, with_weights(text, **weights))
    opened = open_dimensions(read_model(path))
    assert opened is not None
    ((_, most),) = ranges(opened).values()

    def taken_bytes(rows: int) -> int:
        return placed(fused(import_model(path, {"n": rows}))).size_bytes

    assert taken_bytes(most) <= LEAST_BUDGET_BYTES < taken_bytes(2 * most)


def test_a_formula_is_open_by_its_parts_and_axes_may_have_no_name(tmp_path: Path) -> None:
    text = "sum (float[1, h, 8] x, float[1, n, 8] y) => (z) { z = Concat<axis=1>(x, y) }"
    model = parsed(text, 18)
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "h + w"
    assert list(ranges(found(tmp_path, model))) == ["h", "w"]
    model = parsed("bare (float[n, 8] x) => (y) { y = Relu(x) }", 18)
    model.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    assert list(ranges(found(tmp_path, model))) == ["x.0"]


def test_a_model_that_leaves_nothing_open_has_no_ranges(tmp_path: Path) -> None:
    path = written(tmp_path, parsed("closed (float[2, 8] x) => (y) { y = Relu(x) }", 18))
    assert open_dimensions(read_model(path)) is None
    opened = with_weights(
        "open (float[n] x, float[n] w) => (y) { y = Add(x, w) }", w=np.ones(1, "f")
    )
    # An input with a value that the file has is none.
    assert list(ranges(found(tmp_path, opened))) == ["n"]


def test_a_model_that_cannot_be_imported_says_why(tmp_path: Path) -> None:
    model = parsed("strings (string[n] x) => (y) { y = StringNormalizer(x) }", 18)
    with pytest.raises(UnsupportedModel, match="STRING"):
        found(tmp_path, model)

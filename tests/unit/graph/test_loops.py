"""Loops whose turns are known at import are unrolled."""

from pathlib import Path

import numpy as np
import pytest

from kernelzoo.errors import UnsupportedModel
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import assert_as_reference, drawn, parsed, written

COUNTED = """net (float[2, 3] x) => (float[2, 3] y, float[4, 2, 3] steps) {
    four = Constant <value_int = 4> ()
    runs = Constant <value = bool {1}> ()
    y, steps = Loop (four, runs, x) <
        body = turn (int64 number, bool on, float[2, 3] state)
            => (bool still, float[2, 3] next, float[2, 3] row) {
            still = Identity (on)
            real = Cast <to = 1> (number)
            more = Add (state, real)
            next = Mul (more, x)
            row = Neg (next)
        }
    >
}"""

WHILE = """net (float[3] x) => (float[3] y) {
    runs = Constant <value = bool {1}> ()
    zero = Constant <value_int = 0> ()
    count, y = Loop (, runs, zero, x) <
        body = turn (int64 number, bool on, int64 count, float[3] state)
            => (bool still, int64 later, float[3] next) {
            one = Constant <value_int = 1> ()
            five = Constant <value_int = 5> ()
            later = Add (count, one)
            still = Less (later, five)
            next = Sin (state)
        }
    >
}"""

SCANNED = """net (float[2] start, float[4, 3, 2] x, float[3, 4] w)
    => (float[2] last, float[2, 3] sums, float[3, 4] kept) {
    last, sums, kept = Scan <
        num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1],
        scan_output_axes = [1, 0], scan_output_directions = [1, 0],
        body = turn (float[2] state, float[4, 2] rows, float[4] weights)
            => (float[2] next, float[2] total, float[4] same) {
            scaled = MatMul (weights, rows)
            next = Add (state, scaled)
            total = Identity (next)
            same = Neg (weights)
        }
    > (start, x, w)
}"""


def test_a_loop_of_known_turns_is_unrolled(tmp_path: Path) -> None:
    """ONNX's reference joins rows of a scan along their first axis, and not along a new one."""
    x = drawn((2, 3))
    steps = [x]
    for turn in range(4):
        steps.append((steps[-1] + np.float32(turn)) * x)
    made = evaluate(fused(import_model(written(tmp_path, parsed(COUNTED)), {})), {"x": x})
    np.testing.assert_allclose(made["y"], steps[-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made["steps"], -np.array(steps[1:]), rtol=1e-5, atol=1e-6)


def test_a_loop_whose_condition_is_known_at_each_turn_is_unrolled(tmp_path: Path) -> None:
    assert_as_reference(tmp_path, parsed(WHILE), {"x": drawn((3,))})


@pytest.mark.parametrize("opset", [11, 17])
def test_a_scan_takes_entries_of_any_axis_in_either_direction(opset: int, tmp_path: Path) -> None:
    """ONNX's reference has but one direction and the first axis."""
    start, x, w = drawn((2,)), drawn((4, 3, 2), 1), drawn((3, 4), 2)
    graph = import_model(written(tmp_path, parsed(SCANNED, opset)), {})
    made = evaluate(fused(graph), {"start": start, "x": x, "w": w})
    sums = np.cumsum([start, *(w[2 - n] @ x[:, n] for n in range(3))], axis=0, dtype=np.float32)
    np.testing.assert_allclose(made["last"], sums[3], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made["sums"], sums[:0:-1].T, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(made["kept"], -w[::-1])


def test_a_loop_that_ends_by_the_values_of_inputs_is_refused(tmp_path: Path) -> None:
    model = parsed(COUNTED.replace("x) =>", "x, int64 four) =>", 1))
    del model.graph.node[0]
    with pytest.raises(UnsupportedModel, match="is run as often as the model's inputs say"):
        import_model(written(tmp_path, model), {})
    assert import_model(written(tmp_path, model), {}, constants={"four": 4})
    with pytest.raises(UnsupportedModel, match="is run more than 256 times"):
        import_model(written(tmp_path, model), {}, constants={"four": 300})
    ends = parsed(WHILE.replace("still = Less (later, five)", """
        zero_d = Constant <value_int = 0> ()
        first = Gather (next, zero_d)
        least = Constant <value_float = 0.1> ()
        still = Greater (first, least)"""))  # fmt: skip
    with pytest.raises(UnsupportedModel, match="ends when the model's inputs say so"):
        import_model(written(tmp_path, ends), {})


def test_a_loop_without_a_limit_or_a_condition_is_refused(tmp_path: Path) -> None:
    model = parsed(COUNTED)
    model.graph.node[-1].input[:] = ["", "", "x"]
    with pytest.raises(UnsupportedModel, match="export the model without loops"):
        import_model(written(tmp_path, model), {})

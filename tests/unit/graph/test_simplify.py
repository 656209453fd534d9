"""Each rule changes a small network, whose values stay."""

from pathlib import Path

import numpy as np
import pytest

from kernelzoo.domain.target import TargetKind
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.golden import seeded_feeds
from services.tuner.graph.importing import import_model, imported
from services.tuner.graph.indices import allowed_rows
from services.tuner.graph.onnx_operators import OPERATORS
from services.tuner.graph.reading import read_model
from services.tuner.graph.shapes import fix_shapes
from services.tuner.graph.simplify import RULES, simplified
from tests.unit.graph.models import drawn, parsed, written
from tests.unit.graph.targets import TARGETS, outputs_on

SOFTMAX = """
    most = ReduceMax <axes = [-1]> (x)
    rest = Sub (x, most)
    power = Exp (rest)
    axis = Constant <value_ints = [-1]> ()
    total = ReduceSum (power, axis)
    y = Div (power, total)"""

WRAP = """
    zero = Constant <value_int = 0> ()
    rows = Constant <value_int = 4> ()
    below = Less (i, zero)
    added = Add (i, rows)
    index = Where (below, added, i)
    y = Gather (x, index)"""

EQUAL = """
    one = Constant <value_float = 1.0> ()
    uno = Constant <value_float = 1.0> ()
    a = Add (x, one)
    b = Add (x, uno)
    unused = Exp (b)
    y = Mul (a, b)"""

NEUTRAL = """
    one = Constant <value_float = 1.0> ()
    zero = Constant <value_floats = [0.0, 0.0, 0.0]> ()
    yes = Constant <value_ints = [1]> ()
    always = Cast <to = 9> (yes)
    a = Mul (one, x)
    b = Add (a, zero)
    c = Pow (b, one)
    d = Where (always, c, x)
    y = Relu (d)"""

EXPANDED = """
    shape = Shape (x)
    half = Constant <value_floats = [0.5, 0.25, 2.0]> ()
    row = Exp (half)
    w = ReduceMax <axes = [0], keepdims = 1> (x)
    wide = Expand (w, shape)
    y = Mul (x, wide)"""

CHOSEN = """
    last = Constant <value_ints = [-1]> ()
    column = Unsqueeze (i, last)
    places = Constant <value = int64[1, 4] {0, 1, 2, 3}> ()
    same = Equal (column, places)
    hot = Cast <to = 1> (same)
    w = Constant <value = float[4, 3] {1.5, -2, 3, 4, 5, -6, 7, 8, 9, 10, 11, 0.5}> ()
    y = MatMul (hot, w)"""

CASES = {
    "softmax": (SOFTMAX, ["Softmax"]),
    "index-wraps": (WRAP, ["Gather"]),
    "chosen-rows": (CHOSEN, ["Unsqueeze", "ChosenRows"]),
    "equal": (EQUAL, ["Add", "Mul"]),
    "neutral": (NEUTRAL, ["Relu"]),
    "expansion": (EXPANDED, ["ReduceMax", "Mul"]),
}


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_leaves_these_steps_and_the_same_values(rule: str, tmp_path: Path) -> None:
    body, left = CASES[rule]
    text = f"net (float[4, 3] x, int64[5] i) => (float[N, 3] y) {{{body}\n}}"
    path = written(tmp_path, parsed(text))
    fixed = fix_shapes(read_model(path), {}, OPERATORS)
    made = simplified(fixed, [rule, "dead"])
    assert [step.operator for step in made.steps] == left
    assert [step.operator for step in simplified(fixed, ["dead"]).steps] != left
    feeds = {"x": drawn((4, 3)), "i": np.array([0, -1, 3, -4, 2])}
    plain, simple = (
        evaluate(imported(read_model(path), {}, rules), feeds)["y"] for rules in ([], [rule])
    )
    np.testing.assert_allclose(simple, plain, rtol=1e-6)


def test_every_rule_but_the_last_has_a_case() -> None:
    assert set(CASES) == set(RULES) - {"dead"}


def test_a_product_of_a_neutral_step_keeps_its_shape(tmp_path: Path) -> None:
    """x + 0 is no x where 0 makes it larger."""
    text = """net (float[3] x) => (float[2, 3] y) {
        zero = Constant <value = float[2, 1] {0.0, 0.0}> ()
        y = Add (x, zero)
    }"""
    graph = import_model(written(tmp_path, parsed(text)), {})
    assert evaluate(graph, {"x": drawn((3,))})["y"].shape == (2, 3)


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_that_choose_rows_by_equal_numbers_have_zeros_for_numbers_of_no_row(
    target: TargetKind, tmp_path: Path
) -> None:
    text = f"net (float[4, 3] x, int64[5] i) => (float[N, 3] y) {{{CHOSEN}\n}}"
    graph = import_model(written(tmp_path, parsed(text)), {})
    assert "i" not in allowed_rows(graph), "no number is refused"
    assert set(seeded_feeds(graph)["i"].tolist()) <= {0, 1, 2, 3}
    feeds = {"x": drawn((4, 3)), "i": np.array([3, 0, -1, 4, 2**31 - 1], np.int32)}
    nothing = [0, 0, 0]
    wanted = [[10, 11, 0.5], [1.5, -2, 3], nothing, nothing, nothing]
    np.testing.assert_array_equal(outputs_on(target, graph, feeds, tmp_path)["y"], wanted)


def test_a_product_with_what_is_no_number_stays_one(tmp_path: Path) -> None:
    """0 · ∞ is no number: an entry is one only where its row is chosen, and others are none."""
    body = CHOSEN.replace("0.5}", "inf}")
    text = f"net (float[4, 3] x, int64[5] i) => (float[N, 3] y) {{{body}\n}}"
    fixed = fix_shapes(read_model(written(tmp_path, parsed(text))), {}, OPERATORS)
    assert "MatMul" in [step.operator for step in simplified(fixed).steps]

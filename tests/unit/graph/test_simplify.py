"""Each rule changes a small network, whose values stay."""

from pathlib import Path

import numpy as np
import pytest

from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.importing import import_model, imported
from services.tuner.graph.onnx_operators import OPERATORS
from services.tuner.graph.reading import read_model
from services.tuner.graph.shapes import fix_shapes
from services.tuner.graph.simplify import RULES, simplified
from tests.unit.graph.models import drawn, parsed, written

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

CASES = {
    "softmax": (SOFTMAX, ["Softmax"]),
    "index-wraps": (WRAP, ["Gather"]),
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

"""Graphs that look like what a rule knows, and compute something else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import assert_as_reference, drawn, parsed, written

Array = NDArray[Any]


def reals(entries: list[Any]) -> Array:
    return np.array(entries, np.float32)


NEAR_ZERO = reals(
    [[0, 0, 0], [1e-4, -2e-4, 3e-5], [1, 2, 3], [-1, -1, -1], [1e-9, 0, 0], [3.5, 0, 0]]
)
AFTER_A_PRODUCT = {
    f"{name}, {least}": (body, least)
    for least in ("1e-10", "1e-6", "1e-30")
    for name, body in {
        "log of the larger": "c = Max (m, least)\n y = Log (c)",
        "log of what is clipped": "c = Clip (m, least, many)\n y = Log (c)",
        "reciprocal of the larger": "c = Max (m, least)\n y = Reciprocal (c)",
        "log of relu and a little": "r = Relu (m)\n c = Add (r, least)\n y = Log (c)",
        "root of a magnitude": "a = Abs (m)\n c = Max (a, least)\n r = Sqrt (c)\n y = Log (r)",
        "a threshold": "z = Greater (m, least)\n c = Where (z, m, least)\n y = Log (c)",
    }.items()
}


@pytest.mark.parametrize("case", AFTER_A_PRODUCT)
def test_what_differs_from_relu_near_0_alone_is_no_relu(case: str, tmp_path: Path) -> None:
    """Spectrograms of speech are log(max(x, 1e-10)) of a product."""
    body, least = AFTER_A_PRODUCT[case]
    text = f"""g (float[6, 3] x) => (float[6, 2] y)
        <float[3, 2] w = {{1, 2, 3, 4, 5, 6}}, float least = {{{least}}}, float many = {{1e6}}>
        {{ m = MatMul (x, w)\n {body} }}"""
    assert_as_reference(tmp_path, parsed(text), {"x": NEAR_ZERO})


def test_a_threshold_that_is_nearly_0_is_no_relu(tmp_path: Path) -> None:
    text = """g (float[6, 3] x) => (float[6, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}>
        { m = MatMul (x, w)\n y = ThresholdedRelu <alpha = 0.0009> (m) }"""
    made = assert_as_reference(tmp_path, parsed(text), {"x": NEAR_ZERO})
    assert made.outputs


@pytest.mark.parametrize("operator", ["Div", "Mul"])
def test_a_constant_that_leaves_the_numbers_of_f32_goes_into_no_weights(
    operator: str, tmp_path: Path
) -> None:
    """c / 0 is ∞ of every c above 0, and Σ a · (b / 0) is NaN where b has both signs."""
    w, s = reals([[1, -2], [-4, 3e30], [5, 6]]), reals([0, 1e20])
    text = f"""g (float[6, 3] x) => (float[6, 2] y)
        <float[3, 2] w = {{1, -2, -4, 3e30, 5, 6}}, float[2] s = {{0, 1e20}}>
        {{ m = MatMul (x, w)\n y = {operator} (m, s) }}"""
    graph = import_model(written(tmp_path, parsed(text)), {})
    with np.errstate(all="ignore"):
        wanted = (np.divide if operator == "Div" else np.multiply)(NEAR_ZERO @ w, s)
        for each in (graph, fused(graph)):
            made = evaluate(each, {"x": NEAR_ZERO})["y"]
            np.testing.assert_allclose(made, wanted, rtol=1e-5)


def test_a_product_over_nothing_is_what_is_added(tmp_path: Path) -> None:
    text = """g (float[2, 0] a, float[0, 3] b, float[3] c) => (float[2, 3] y)
        { y = Gemm <beta = 2.0> (a, b, c) }"""
    empty = {"a": np.zeros((2, 0), np.float32), "b": np.zeros((0, 3), np.float32)}
    graph = import_model(written(tmp_path, parsed(text)), {})
    c = drawn((3,))
    assert [port.name for port in graph.inputs] == ["c"]
    made = evaluate(graph, {**empty, "c": c})["y"]
    np.testing.assert_array_equal(made, np.broadcast_to(2 * c, (2, 3)))


SQUARES = "q = Mul (d, d)\n v = ReduceMean <axes = [-1]> (q)\n s = Add (v, e)\n r = Sqrt (s)\n "
NORMS = {
    "a norm": f"m = ReduceMean <axes = [-1]> (x)\n d = Sub (x, m)\n {SQUARES} y = Div (d, r)",
    "means of columns from rows": f"""m = ReduceMean <axes = [-1]> (x)\n t = Transpose (m)
        d = Sub (x, t)\n {SQUARES} y = Div (d, r)""",
    "means of another order": f"""m = ReduceMean <axes = [-1]> (x)\n t = Transpose (x)
        d = Sub (t, m)\n {SQUARES} y = Div (d, r)""",
    "squares of another order": """m = ReduceMean <axes = [-1]> (x)\n d = Sub (x, m)
        t = Transpose (d)\n q = Mul (t, t)\n v = ReduceMean <axes = [-1]> (q)
        s = Add (v, e)\n r = Sqrt (s)\n y = Div (d, r)""",
    "a factor of columns": f"""m = ReduceMean <axes = [-1]> (x)\n d = Sub (x, m)\n {SQUARES}
        t = Transpose (r)\n y = Div (d, t)""",
    "a mean square of columns": """v0 = Mul (x, x)\n v = ReduceMean <axes = [0]> (v0)
        s = Add (v, e)\n r = Sqrt (s)\n y = Div (x, r)""",
    "a gain of rows": f"""m = ReduceMean <axes = [-1]> (x)\n d = Sub (x, m)\n {SQUARES}
        n = Div (d, r)\n y = Mul (n, g)""",
}


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_whose_parts_lie_otherwise_is_none(name: str, tmp_path: Path) -> None:
    text = f"""net (float[4, 4] x) => (float[4, 4] y)
        <float e = {{0.001}}, float[4, 1] g = {{1, 2, 3, 4}}> {{ {NORMS[name]} }}"""
    assert_as_reference(tmp_path, parsed(text), {"x": drawn((4, 4))})


@pytest.mark.parametrize("epsilon", ["0.0010004", "0.00099", "0.001"])
def test_an_epsilon_that_is_nearly_a_power_of_ten_is_itself(epsilon: str, tmp_path: Path) -> None:
    text = f"""net (float[1, 4] x, float[4] g) => (float[1, 4] y)
        {{ y = LayerNormalization <epsilon = {epsilon}> (x, g) }}"""
    feeds = {"x": np.array([[1e-4, 2e-4, 0, 1e-4]], np.float32), "g": np.full(4, 300, np.float32)}
    made = assert_as_reference(tmp_path, parsed(text), feeds)
    assert made.outputs


WRAPS: dict[str, tuple[str, str, str, list[Any], str]] = {
    "another extent": ("float[5] x, int64[3] i", "Gather", "int64 n = {2}", [-1, 0, -2], "3"),
    "each axis's own": (
        "float[5, 2] x, int64[1, 2] i",
        "GatherND",
        "int64[2] n = {5, 1}",
        [[-1, -1]],
        "1",
    ),
    "its extent": ("float[5] x, int64[3] i", "Gather", "int64 n = {5}", [-1, 0, -2], "3"),
}


@pytest.mark.parametrize("name", WRAPS)
def test_an_index_that_a_model_wraps_itself_is_wrapped_at(name: str, tmp_path: Path) -> None:
    ports, operator, count, index, shape = WRAPS[name]
    text = f"""g ({ports}) => (float[{shape}] y) <int64 zero = {{0}}, {count}> {{
        below = Less (i, zero)\n added = Add (i, n)\n j = Where (below, added, i)
        y = {operator} (x, j) }}"""
    assert_as_reference(
        tmp_path,
        parsed(text),
        {"x": drawn((5, 2) if "2] x" in ports else (5,)), "i": np.array(index)},
    )

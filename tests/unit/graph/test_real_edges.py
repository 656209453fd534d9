"""Real numbers at their edges: what ONNX says, from the evaluator and on each target."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy import inf, nan
from numpy.typing import NDArray

from kernelzoo.domain.target import TargetKind
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import parsed, written
from tests.unit.graph.targets import TARGETS, outputs_on

Array = NDArray[Any]


def reals(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def assert_everywhere(
    folder: Path, body: str, feeds: Mapping[str, Array], wanted: Array, rtol: float = 2e-6
) -> None:
    """`y` of the body, which is of the shape and dtype of `wanted`, is that on every target."""
    declared = ", ".join(f"{_type(x)} {name}" for name, x in feeds.items())
    text = f"g ({declared}) => ({_type(wanted)} y) {{ {body} }}"
    graph = import_model(written(folder, parsed(text, 18)), {})
    made = {"as imported": evaluate(graph, feeds), "fused": evaluate(fused(graph), feeds)}
    made |= {str(target): outputs_on(target, graph, feeds, folder) for target in TARGETS}
    for name, outputs in made.items():
        np.testing.assert_allclose(outputs["y"], wanted, rtol=rtol, atol=0, err_msg=name)


def _type(array: Array) -> str:
    name = {"float32": "float"}.get(str(array.dtype), str(array.dtype))
    return f"{name}[{', '.join(map(str, array.shape))}]"


AXES = "axes = Constant <value = int64[1] {1}> ()\n"
IMAGE = reals(*[-inf] * 8, 1).reshape(1, 1, 3, 3)

EXTREMES = {
    "ArgMax": ("y = ArgMax <axis = 0> (x)", reals(*[-inf] * 12), np.array([0])),
    "ArgMin": ("y = ArgMin <axis = 0> (x)", reals(*[inf] * 12), np.array([0])),
    "ArgMax, last": (
        "y = ArgMax <axis = 0, select_last_index = 1> (x)", reals(*[-inf] * 12), np.array([11]),
    ),
    "Gather behind ArgMax": (
        "n = ArgMax <axis = 0> (x)\n y = Gather (x, n)", reals(*[-inf] * 12), reals(-inf),
    ),
    "ReduceMax": (
        f"{AXES} y = ReduceMax <keepdims = 0> (x, axes)",
        reals(-inf, -inf, -inf, 3).reshape(2, 2), reals(-inf, 3),
    ),
    "ReduceMin": (
        f"{AXES} y = ReduceMin <keepdims = 0> (x, axes)",
        reals(inf, inf, inf, 3).reshape(2, 2), reals(inf, 3),
    ),
    "Hardmax": (
        "y = Hardmax <axis = 1> (x)", np.full((2, 5), -inf, np.float32),
        np.eye(5, dtype=np.float32)[[0, 0]],
    ),
    "GlobalMaxPool": (
        "y = GlobalMaxPool (x)", np.full((1, 2, 3, 3), -inf, np.float32),
        np.full((1, 2, 1, 1), -inf, np.float32),
    ),
    "MaxPool": (
        "y = MaxPool <kernel_shape = [2, 2]> (x)", IMAGE,
        reals(-inf, -inf, -inf, 1).reshape(1, 1, 2, 2),
    ),
    "MaxPool with padding": (
        "y = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 0, 0], strides = [2, 2]> (x)", IMAGE,
        reals(-inf, -inf, -inf, 1).reshape(1, 1, 2, 2),
    ),
    "MaxPool of rows": (
        "y = MaxPool <kernel_shape = [2]> (x)", reals(-inf, -inf, 2).reshape(1, 1, 3),
        reals(-inf, 2).reshape(1, 1, 2),
    ),
    "ReduceLogSumExp": (
        f"{AXES} y = ReduceLogSumExp <keepdims = 0> (x, axes)",
        reals(-inf, -inf, inf, 1, 0, -inf).reshape(3, 2), reals(-inf, inf, 0),
    ),
    "ReduceLogSum": (
        f"{AXES} y = ReduceLogSum <keepdims = 0> (x, axes)",
        reals(0, 0, inf, 1, 1, 0).reshape(3, 2), reals(-inf, inf, 0),
    ),
    "LogSoftmax": (
        "y = LogSoftmax <axis = 1> (x)", reals(-inf, 0, 0, 0).reshape(2, 2),
        reals(-inf, 0, np.log(0.5), np.log(0.5)).reshape(2, 2),
    ),
    "Softmax": (
        "y = Softmax <axis = 1> (x)", reals(-inf, 0, -inf, -inf).reshape(2, 2),
        reals(0, 1, nan, nan).reshape(2, 2),
    ),
    "TopK": (
        """k = Constant <value = int64[1] {2}> ()
           y, places = TopK <axis = 0> (x, k)""", reals(*[-inf] * 4), reals(-inf, -inf),
    ),
    "ScatterElements, max": (
        """n = Constant <value = int64[2] {0, 0}> ()
           first = Constant <value = int64[2] {0, 1}> ()
           u = Gather (x, first)
           y = ScatterElements <axis = 0, reduction = "max"> (x, n, u)""",
        reals(-inf, -inf, 3), reals(-inf, -inf, 3),
    ),
    "ScatterND, min": (
        """n = Constant <value = int64[1, 1] {0}> ()
           first = Constant <value = int64[1] {0}> ()
           u = Gather (x, first)
           y = ScatterND <reduction = "min"> (x, n, u)""", reals(inf, inf, 3), reals(inf, inf, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTREMES)
def test_the_extreme_of_infinite_entries_is_one_of_them(name: str, tmp_path: Path) -> None:
    body, x, wanted = EXTREMES[name]
    assert_everywhere(tmp_path, body, {"x": x}, wanted)


ODD = reals(nan, 1, inf, -inf, -0.0, 0, -2, 3)
ZEROS = "n = Shape (x)\n zero = ConstantOfShape (n)\n"
BOUNDS = """low = Constant <value = float {-1.0}> ()
            high = Constant <value = float {2.0}> ()
"""

NOT_NUMBERS = {
    "Max": (f"{ZEROS} y = Max (zero, x)", ODD, np.maximum(ODD, 0)),
    "Max, the other way": (f"{ZEROS} y = Max (x, zero)", ODD, np.maximum(ODD, 0)),
    "Max of computed": ("a = Neg (x)\n b = Abs (x)\n y = Max (a, b)", ODD, np.abs(ODD)),
    "Min": (f"{ZEROS} y = Min (zero, x)", ODD, np.minimum(ODD, 0)),
    "Min of computed": (
        "a = Neg (x)\n b = Abs (x)\n y = Min (b, a)", ODD, np.minimum(-ODD, np.abs(ODD)),
    ),
    "Relu": ("y = Relu (x)", ODD, np.maximum(ODD, 0)),
    "Clip": (f"{BOUNDS} y = Clip (x, low, high)", ODD, np.clip(ODD, -1, 2)),
    "Sign": ("y = Sign (x)", ODD, np.sign(ODD)),
    "HardSigmoid": ("y = HardSigmoid (x)", ODD, np.clip(ODD * np.float32(0.2) + 0.5, 0, 1)),
    "Tanh": ("y = Tanh (x)", ODD, np.tanh(ODD)),
    "Exp": ("y = Exp (x)", ODD, np.exp(ODD)),
    "Erf": ("y = Erf (x)", reals(nan, inf, -inf, 0), reals(nan, 1, -1, 0)),
    "Sigmoid": ("y = Sigmoid (x)", ODD, 1 / (1 + np.exp(-ODD))),
    "ReduceMax": (
        f"{AXES} y = ReduceMax <keepdims = 0> (x, axes)",
        np.stack([np.roll(ODD, n) for n in range(5)]), np.full(5, nan, np.float32),
    ),
    "ReduceMin": (
        f"{AXES} y = ReduceMin <keepdims = 0> (x, axes)",
        np.stack([np.roll(ODD, n) for n in range(5)]), np.full(5, nan, np.float32),
    ),
    "ReduceMax of columns": (
        """axes = Constant <value = int64[1] {0}> ()
           y = ReduceMax <keepdims = 0> (x, axes)""",
        np.stack([np.roll(ODD, n) for n in range(8)]), np.full(8, nan, np.float32),
    ),
    "Softmax": ("y = Softmax <axis = 1> (x)", ODD[None], np.full((1, 8), nan, np.float32)),
    "Softmax, the other way": (
        "y = Softmax <axis = 1> (x)", np.roll(ODD, 4)[None], np.full((1, 8), nan, np.float32),
    ),
    "LogSoftmax": (
        "y = LogSoftmax <axis = 1> (x)", np.roll(ODD, 4)[None], np.full((1, 8), nan, np.float32),
    ),
    "ArgMax": ("y = ArgMax <axis = 0> (x)", np.roll(ODD, 4), np.array([4])),
    "ArgMin": ("y = ArgMin <axis = 0> (x)", np.roll(ODD, 4), np.array([4])),
    "MaxPool": (
        "y = MaxPool <kernel_shape = [2]> (x)", reals(nan, 1, 2, nan, 3, 4)[None, None],
        reals(nan, 2, nan, nan, 4)[None, None],
    ),
    "MaxPool of images": (
        "y = MaxPool <kernel_shape = [2, 2]> (x)",
        np.repeat(reals(nan, 1, 2, nan, 3, 4)[None, None, None], 2, axis=2).repeat(4, axis=1),
        reals(nan, 2, nan, nan, 4)[None, None, None].repeat(4, axis=1),
    ),
    "Relu behind a product": (
        """w = Constant <value = float[2, 4] {1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 2.0, 3.0}> ()
           p = MatMul (x, w)
           y = Relu (p)""",
        reals(nan, 1, 1, -2, inf, 1, -1, -2).reshape(4, 2),
        reals(nan, nan, nan, nan, 1, 0, 0, 0, inf, inf, inf, inf, 0, 0, 0, 0).reshape(4, 4),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_nan_is_kept(name: str, tmp_path: Path) -> None:
    body, x, wanted = NOT_NUMBERS[name]
    assert_everywhere(tmp_path, body, {"x": np.ascontiguousarray(x)}, wanted)


ROUNDS = "c = Constant <value = float {12582912.0}> ()\n"
"""A sum with 3 · 2²² is a whole number, as f32 has none between."""
BIG = np.float32(12582912)
EXACT = (TargetKind.WASM, TargetKind.JAVASCRIPT)
"""A driver that compiles WGSL may take every number to be finite, and sums in another order."""

TAKEN_AWAY: Mapping[str, tuple[str, Callable[[Array], Array]]] = {
    "x - x": ("y = Sub (x, x)", lambda x: x - x),
    "(x + x) - x": ("a = Add (x, x)\n y = Sub (a, x)", lambda x: (x + x) - x),
    "(x + c) - x": (f"{ROUNDS} a = Add (x, c)\n y = Sub (a, x)", lambda x: (x + BIG) - x),
    "c - (x + c)": (f"{ROUNDS} a = Add (x, c)\n y = Sub (c, a)", lambda x: BIG - (x + BIG)),
    "x · 0": (f"{ZEROS} y = Mul (x, zero)", lambda x: x * np.float32(0)),
    "0 · x": (f"{ZEROS} y = Mul (zero, x)", lambda x: np.float32(0) * x),
    "0 / x": (f"{ZEROS} y = Div (zero, x)", lambda x: np.float32(0) / x),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", EXACT)
@pytest.mark.parametrize("name", TAKEN_AWAY)
def test_what_is_taken_away_again_of_infinite_numbers_is_none(
    name: str, target: TargetKind, tmp_path: Path
) -> None:
    body, oracle = TAKEN_AWAY[name]
    x = reals(inf, -inf, nan, 0, -0.0, 3, -4096)
    text = f"g (float[7] x) => (float[7] y) {{ {body} }}"
    graph = import_model(written(tmp_path, parsed(text, 18)), {})
    made = outputs_on(target, graph, {"x": x}, tmp_path)["y"]
    np.testing.assert_array_equal(made, oracle(x))


def test_a_sum_rounds_to_whole_numbers_what_is_added_to_a_large_one(tmp_path: Path) -> None:
    """Files that round so have no `Round`. In JavaScript a kernel computes with 64 bits, which
    docs/onnx.md states."""
    x = reals(0.4, 0.6, 1.5, 2.5, -0.6, -1.5, 1000.4)
    text = f"g (float[7] x) => (float[7] y) {{ {ROUNDS} a = Add (x, c)\n y = Sub (a, c) }}"
    graph = import_model(written(tmp_path, parsed(text, 18)), {})
    made = {target: outputs_on(target, graph, {"x": x}, tmp_path)["y"] for target in EXACT}
    np.testing.assert_array_equal(made[TargetKind.WASM], np.round(x))
    np.testing.assert_allclose(made[TargetKind.JAVASCRIPT], x, rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("x", "wanted", "of_64_bits"),
    [(1e30, inf, 1.4142135e30), (1e-30, 0, 1.4142135e-30)],
)
def test_squares_beyond_f32_are_summed_in_javascript_alone(
    x: float, wanted: float, of_64_bits: float, target: TargetKind, tmp_path: Path
) -> None:
    """docs/onnx.md states it."""
    text = "g (float[2] x) => (float[1] y) { y = ReduceL2 (x) }"
    graph = import_model(written(tmp_path, parsed(text, 17)), {})
    made = outputs_on(target, graph, {"x": reals(x, x)}, tmp_path)["y"]
    right = of_64_bits if target is TargetKind.JAVASCRIPT else wanted
    np.testing.assert_allclose(made, [right], rtol=1e-6)

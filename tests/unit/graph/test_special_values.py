"""Functions of real numbers at special values, on each target, against float64."""

from collections.abc import Callable, Mapping
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy import inf, nan
from numpy.typing import NDArray

from kernelzoo.domain.target import TargetKind
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import parsed, written
from tests.unit.graph.targets import outputs_on

Array = NDArray[Any]

SIZES = (
    *(0.0, 1e-45, 1e-40, 1e-20, 1e-5, 2e-4, 0.01, 0.3, 0.34, 0.5, 0.69, 0.7, 0.9999, 1.0, 1.0001),
    *(1.5, 2.5, 3.0, 8.0, 20.0, 40.0, 88.5, 89.0, 104.0, 8191.0, 8193.0, 1e4, 1e6, 1048577.0, 2e6),
    *(8388609.0, 1e10, 1e19, 1e20, 1.7e38, 3e38, 3.4028235e38, inf),
)
X = np.array([sign * size for size in SIZES for sign in (1, -1)] + [nan], np.float32)
PAIRS = np.array(
    [0.0, -0.0, 0.5, 1, -1, 2, 3, -3, 2.5, -2.5, 7e-20, 1e8, -1e8, 3e38, inf, -inf, nan], np.float32
)
LEFT, RIGHT = (each.ravel().copy() for each in np.meshgrid(PAIRS, PAIRS))
NORMAL = 2.0**-126
RTOL: Mapping[str, float] = {TargetKind.WEBGPU: 1e-5}
"""Exp of WGSL may err by 3 + 2·|x| units of the last place."""
CLOSE = 3e-6

Oracle = Callable[..., Array]


def softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def exp_less_one(x: Array) -> Array:
    return np.expm1(np.minimum(x, 0))


UNARY: Mapping[str, Oracle] = {
    "Abs": np.abs,
    "Acosh": np.arccosh,
    "Asinh": np.arcsinh,
    "Atanh": np.arctanh,
    "Ceil": np.ceil,
    "Celu": lambda x: np.maximum(x, 0) + exp_less_one(x),
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Elu": lambda x: np.where(x < 0, exp_less_one(x), x),
    "Erf": np.vectorize(erf, otypes=[np.float64]),
    "Exp": np.exp,
    "Floor": np.floor,
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "LeakyRelu": lambda x: np.where(x < 0, x * 0.01, x),
    "Log": np.log,
    "Mish": lambda x: x * np.tanh(softplus(x)),
    "Neg": np.negative,
    "Reciprocal": lambda x: 1 / x,
    "Relu": lambda x: np.maximum(x, 0),
    "Round": np.rint,
    "Selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Softplus": softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Sqrt": np.sqrt,
    "Tan": np.tan,
    "Tanh": np.tanh,
}
BINARY: Mapping[str, Oracle] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mod <fmod = 1>": np.fmod,
    "Mod": np.mod,
    "Pow": np.power,
}
"""NumPy's power is that of C, but for 1 to the power of NaN, which is 1 in both."""
SMALLEST_ASKED = {"Mish": -87.3}
"""Arguments of which e to their power is below 2⁻¹²⁶, and may be 0 therefore."""


def model(folder: Path) -> Path:
    count, pairs = X.size, LEFT.size
    lines = [f"unary{n} = {name} (x)" for n, name in enumerate(UNARY)]
    lines += [f"binary{n} = {name} (a, b)" for n, name in enumerate(BINARY)]
    made = [f"float[{count}] unary{n}" for n in range(len(UNARY))]
    made += [f"float[{pairs}] binary{n}" for n in range(len(BINARY))]
    text = f"g (float[{count}] x, float[{pairs}] a, float[{pairs}] b) => ({', '.join(made)})"
    return written(folder, parsed(text + "{\n" + "\n".join(lines) + "\n}", 18))


Outputs = Mapping[str, Mapping[str, Array]]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """By how they are made: all functions in one graph, so that they are compiled once."""
    folder = tmp_path_factory.mktemp("special")
    graph = import_model(model(folder), {})
    feeds = {"x": X, "a": LEFT, "b": RIGHT}
    made = {str(target): outputs_on(target, graph, feeds, folder) for target in TargetKind}
    return {"evaluated": evaluate(graph, feeds), **made}


def faults(how: str, got: Array, wanted: Array, *inputs: Array) -> list[tuple[float, ...]]:
    """Inputs, what came of them, and what is right. Below 2⁻¹²⁶ both may be 0."""
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - wanted)
        near = error <= RTOL.get(how, CLOSE) * np.abs(wanted.astype(np.float64))
        small = (np.abs(got) <= NORMAL) & (np.abs(wanted) <= NORMAL)
    right = near | small | (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    return [
        tuple(float(each[place]) for each in (*inputs, got, wanted))
        for place in np.flatnonzero(~right)
    ]


@pytest.mark.parametrize("number", range(len(UNARY)), ids=list(UNARY))
def test_a_function_is_right_at_special_values(number: int, outputs: Outputs) -> None:
    name, oracle = list(UNARY.items())[number]
    with np.errstate(all="ignore"):
        wanted = oracle(X.astype(np.float64)).astype(np.float32)
    asked = ~(SMALLEST_ASKED.get(name, -inf) > X)
    for how, made in outputs.items():
        got = made[f"unary{number}"]
        assert not faults(how, got[asked], wanted[asked], X[asked]), how


@pytest.mark.parametrize("number", range(len(BINARY)), ids=list(BINARY))
def test_an_operation_is_right_at_special_values(number: int, outputs: Outputs) -> None:
    oracle = list(BINARY.values())[number]
    with np.errstate(all="ignore"):
        wanted = oracle(LEFT.astype(np.float64), RIGHT.astype(np.float64)).astype(np.float32)
    for how, made in outputs.items():
        assert not faults(how, made[f"binary{number}"], wanted, LEFT, RIGHT), how


@pytest.mark.parametrize("target", list(TargetKind))
def test_a_quotient_by_a_constant_zero_has_the_sign_of_both(
    target: TargetKind, tmp_path: Path
) -> None:
    """One process makes the kernels of both constants, which Python takes to be equal."""
    text = (
        f"g (float[{X.size}] x, float[2, 2] a) => (float[{X.size}] over_zero,"
        f" float[{X.size}] over_less, float[2, 2] product)"
        "<float zero = {0.0}, float less = {-0.0}> {"
        " over_zero = Div (x, zero)\n over_less = Div (x, less)\n"
        " p = MatMul (a, a)\n product = Div (p, less) }"
    )
    graph = import_model(written(tmp_path, parsed(text, 18)), {})
    feeds = {"x": X, "a": np.array([[1, 0], [0, -1]], np.float32)}
    with np.errstate(all="ignore"):
        wanted = {
            "over_zero": X / np.float32(0),
            "over_less": X / np.float32(-0.0),
            "product": np.array([[-inf, nan], [nan, -inf]], np.float32),
        }
    for made in (evaluate(graph, feeds), outputs_on(target, graph, feeds, tmp_path)):
        for name, values in wanted.items():
            np.testing.assert_array_equal(made[name], values, err_msg=name)


@pytest.mark.parametrize("target", list(TargetKind))
def test_one_kernel_tells_zero_from_less_than_zero(target: TargetKind, tmp_path: Path) -> None:
    """TVM takes both for the same number, and so a choice between them for none."""
    text = (
        f"g (float[{X.size}] x, bool[{X.size}] c) => (float[{X.size}] y)"
        "<float zero = {0.0}, float less = {-0.0}> {"
        " over_zero = Div (x, zero)\n over_less = Div (x, less)\n"
        " y = Where (c, over_zero, over_less) }"
    )
    graph = import_model(written(tmp_path, parsed(text, 18)), {})
    for decided in (np.arange(X.size) % 3 > 0, np.arange(X.size) % 3 == 0):
        feeds = {"x": X, "c": decided}
        with np.errstate(all="ignore"):
            wanted = X / np.where(decided, 0.0, -0.0).astype(np.float32)
        made = outputs_on(target, graph, feeds, tmp_path)
        np.testing.assert_array_equal(made["y"], wanted)

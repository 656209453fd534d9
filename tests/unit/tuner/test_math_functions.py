"""Functions inside the module against float64, over their range and at its edges."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.nodes import (
    Binary,
    BinaryOp,
    Call,
    Const,
    Expression,
    Load,
    LoopKind,
    MathFunction,
    Program,
    Select,
    Store,
)
from services.tuner.ir.rewrite import values
from services.tuner.passes.math_functions import LARGEST_ERROR_OF_POWER_ULP, LARGEST_ERROR_ULP
from services.tuner.passes.pipeline import ALL_PASSES, PassOptions, run_passes
from tests.unit.tuner.execution import Floats, execute_program
from tests.unit.tuner.programs import at, loop, parameter, program

POINTS = 40_000
EDGES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 88.72, 88.73, -87.4, -103.9, -104.5],
    np.float32,
)
DENORMAL = 2.0**-126
"""Results below it may be 0."""

FUNCTIONS = tuple(LARGEST_ERROR_ULP)


def arguments(function: MathFunction) -> Floats:
    random = np.random.default_rng(5)
    parts = [
        random.uniform(-87.3, 88.7, POINTS // 4),
        random.uniform(-1, 1, POINTS // 4),
        random.uniform(-5, 5, POINTS // 4),
        random.choice([-1, 1], POINTS // 4) * 10 ** random.uniform(-37, 0, POINTS // 4),
    ]
    x = np.concatenate(parts).astype(np.float32)
    positive = (MathFunction.SQRT, MathFunction.RSQRT, MathFunction.LOG)
    if function is MathFunction.LOG1P:
        return np.where(x <= -1, -x, x)
    return np.abs(x) if function in positive else x


def mapped(function: MathFunction, size: int, kind: LoopKind) -> Program:
    """y[4r+v] = f(x[4r+v])."""
    x, y = parameter("x", size), parameter("y", size)
    value = Call(function=function, argument=Load(buffer=x, index=at(v=1, r=4)))
    store = Store(buffer=y, index=at(v=1, r=4), value=value)
    return program(size // 4, (loop("v", 4, (store,), kind),), x, y)


def compiled(function: MathFunction, x: Floats, kind: LoopKind, *, fma: bool) -> Floats:
    stated = run_passes(mapped(function, x.size, kind), ALL_PASSES, PassOptions(fma=fma))
    arrays = {"x": x, "y": np.zeros_like(x)}
    return execute_program(stated, ALL_PASSES, arrays)["y"]


def exact(function: MathFunction, x: Floats) -> NDArray[np.float64]:
    """The interpreter's, which computes in float64 and rounds once: half a unit off at most."""
    y = np.zeros_like(x)
    interpret(mapped(function, x.size, LoopKind.SERIAL), {"x": x, "y": y}, low=0, high=x.size // 4)
    return y.astype(np.float64)


@cache
def exact_over_the_range(function: MathFunction) -> NDArray[np.float64]:
    return exact(function, arguments(function))


@pytest.mark.parametrize("kind", [LoopKind.VECTOR, LoopKind.SERIAL])
@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_error_of_a_math_function_is_within_its_bound(
    function: MathFunction, fma: bool, kind: LoopKind
) -> None:
    x = arguments(function)
    got = compiled(function, x, kind, fma=fma).astype(np.float64)
    wanted = exact_over_the_range(function)
    unit = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    error = np.abs(got - wanted) / unit
    assert error.max() <= LARGEST_ERROR_ULP[function] + 0.5, x[error.argmax()]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_lane_and_four_give_the_same_bits(function: MathFunction) -> None:
    x = np.concatenate((arguments(function)[:4000], EDGES))
    four, one = (
        compiled(function, x, kind, fma=False) for kind in (LoopKind.VECTOR, LoopKind.SERIAL)
    )
    assert np.array_equal(four.view(np.int32)[~np.isnan(four)], one.view(np.int32)[~np.isnan(one)])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_math_function_is_right_at_infinities_zeros_and_nan(function: MathFunction) -> None:
    got, wanted = compiled(function, EDGES, LoopKind.VECTOR, fma=False), exact(function, EDGES)
    numbers = np.isfinite(wanted)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    assert np.array_equal(got[~numbers], wanted[~numbers], equal_nan=True)
    assert np.allclose(got[numbers], wanted[numbers], rtol=1e-6, atol=DENORMAL)
    if function in (MathFunction.TANH, MathFunction.ERF):
        assert np.array_equal(np.signbit(got[:2]), [False, True])


def powers(x: Floats, y: Floats, kind: LoopKind, *, fma: bool) -> Floats:
    """x^y, four at a time or one by one."""
    return combined(BinaryOp.POW, x, y, kind, fma=fma)


def combined(op: BinaryOp, x: Floats, y: Floats, kind: LoopKind, *, fma: bool) -> Floats:
    bases, exponents, results = (parameter(name, x.size) for name in "xyz")
    index = at(v=1, r=4)
    value = Binary(
        op=op,
        left=Load(buffer=bases, index=index),
        right=Load(buffer=exponents, index=index),
    )
    store = Store(buffer=results, index=index, value=value)
    stated = program(x.size // 4, (loop("v", 4, (store,), kind),), bases, exponents, results)
    arrays = {"x": x, "y": y, "z": np.zeros_like(x)}
    made = run_passes(stated, ALL_PASSES, PassOptions(fma=fma))
    return execute_program(made, ALL_PASSES, arrays)["z"]


@pytest.mark.parametrize(("kind", "fma"), [(LoopKind.VECTOR, True), (LoopKind.SERIAL, False)])
def test_the_error_of_a_power_is_within_its_bound(kind: LoopKind, fma: bool) -> None:
    random = np.random.default_rng(5)
    x = (10 ** random.uniform(-30, 30, POINTS)).astype(np.float32)
    x[::2] = random.uniform(0, 2, POINTS // 2)
    y = (random.uniform(-85, 85, POINTS) / np.abs(np.log(x))).astype(np.float32)
    y = np.clip(y, -1e4, 1e4)
    y[1::4] = np.round(y[1::4])
    x[5::8] *= -1
    y[5::8] = np.round(y[5::8])
    wanted = np.float_power(x, y)
    normal = (np.abs(wanted) >= DENORMAL) & (np.abs(wanted) < 2.0**127)
    unit = np.spacing(np.where(normal, np.abs(wanted), 1).astype(np.float32)).astype(np.float64)
    error = np.where(normal, np.abs(powers(x, y, kind, fma=fma) - wanted) / unit, 0)
    assert normal.mean() > 0.95
    assert error.max() <= LARGEST_ERROR_OF_POWER_ULP, (x[error.argmax()], y[error.argmax()])


def test_a_power_is_that_of_c_at_its_edges() -> None:
    values = np.array([0, 1, -1, 2, -2, 0.5, 2.5, 3, np.inf, -np.inf, np.nan, 1e-45], np.float32)
    x, y = (each.ravel().copy() for each in np.meshgrid(values[:-1], values))
    x, y = (each[: each.size // 4 * 4] for each in (x, y))
    with np.errstate(all="ignore"):
        got, wanted = powers(x, y, LoopKind.VECTOR, fma=False), np.float_power(x, y)
    # C says 1 of 1^NaN and of (-1)^±inf, and inf of (-inf)^0.5, for no reason that a model has.
    asked = ~((np.abs(x) == 1) & ~np.isfinite(y)) & ~((x == -np.inf) & (y % 1 != 0))
    np.testing.assert_allclose(np.abs(got[asked]), np.abs(wanted[asked]), rtol=1e-6, atol=DENORMAL)
    finite = asked & (np.abs(wanted) > 0) & np.isfinite(wanted)
    np.testing.assert_allclose(got[finite], wanted[finite], rtol=1e-6, atol=DENORMAL)


def numbers_that_are_powers() -> tuple[Floats, Floats]:
    """Whole bases and exponents whose powers are numbers of f32, and roots of squares."""
    whole = [
        (base, exponent)
        for base in range(2, 400)
        for exponent in range(1, 128)
        if base**exponent < 2**128 and float(np.float32(base**exponent)) == base**exponent
    ]
    halves = [(2, exponent) for exponent in range(-126, 0)]
    roots = [(base * base, 0.5) for base in range(2, 400)]
    x, y = np.array(whole + halves + roots, np.float32).T
    return x[: x.size // 4 * 4].copy(), y[: y.size // 4 * 4].copy()


@pytest.mark.parametrize(("kind", "fma"), [(LoopKind.VECTOR, True), (LoopKind.SERIAL, False)])
def test_a_power_that_is_a_number_is_that_number(kind: LoopKind, fma: bool) -> None:
    x, y = numbers_that_are_powers()
    assert x.size > 1500
    np.testing.assert_array_equal(powers(x, y, kind, fma=fma), np.float_power(x, y))


def test_powers_of_1_and_of_2_reach_the_largest_number_and_the_least() -> None:
    largest = np.finfo(np.float32).max
    x = np.array([largest, -largest, 1e-45, -1e-40, 1.8446743e19, 1.8446744e19, 1e-20, 3], "f4")
    y = np.array([1, 1, 1, 1, 2, 2, 2, 81], np.float32)
    wanted = [largest, -largest, x[2], x[3], np.float32(3.4028233e38), np.inf, 1e-40, np.inf]
    got = powers(x, y, LoopKind.VECTOR, fma=False)
    np.testing.assert_allclose(got, np.array(wanted, np.float32), rtol=1e-6, atol=1e-44)
    np.testing.assert_array_equal(got[:4], x[:4])


def test_the_power_of_a_clamped_number_is_computed_without_choices() -> None:
    """It is so behind the largest score of a row: e to what lies between -87 and 0."""
    x, y = parameter("x", POINTS), parameter("y", POINTS)
    bounded: Expression = Load(buffer=x, index=at(v=1, r=4))
    for op, bound in ((BinaryOp.MAX, -87.0), (BinaryOp.MIN, 0.0)):
        limit = Const(value=bound, dtype=DType.F32)
        bounded = Binary(op=op, left=bounded, right=limit)
    power = Call(function=MathFunction.EXP, argument=bounded)
    store = Store(buffer=y, index=at(v=1, r=4), value=power)
    nest = program(POINTS // 4, (loop("v", 4, (store,), LoopKind.VECTOR),), x, y)
    stated = run_passes(nest, ALL_PASSES, PassOptions(fma=True))
    assert not any(isinstance(part, Select) for part in values((stated.body,)))
    entries = np.random.default_rng(5).uniform(-200, 10, POINTS).astype(np.float32)
    arrays = {"x": entries, "y": np.zeros_like(entries)}
    found = execute_program(stated, ALL_PASSES, arrays)["y"]
    np.testing.assert_allclose(found, np.exp(np.clip(entries, -87, 0).astype(float)), rtol=2e-7)


@pytest.mark.parametrize("kind", [LoopKind.VECTOR, LoopKind.SERIAL])
def test_a_remainder_is_exact_however_large_the_quotient(kind: LoopKind) -> None:
    random = np.random.default_rng(5)
    x, y = (
        (random.choice([-1, 1], POINTS) * 10 ** random.uniform(-44, 38.5, POINTS)).astype(
            np.float32
        )
        for _ in range(2)
    )
    values = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3, 1e8, 1e-45, 3e38, 1e-40])
    edges = np.meshgrid(values.astype(np.float32), values.astype(np.float32))
    x, y = (np.concatenate((each, edge.ravel())) for each, edge in zip((x, y), edges, strict=True))
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(x, y)
    got = combined(BinaryOp.FMOD, x, y, kind, fma=False)
    np.testing.assert_array_equal(got, wanted)
    numbers = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize("kind", [LoopKind.VECTOR, LoopKind.SERIAL])
@pytest.mark.parametrize("function", [MathFunction.SIN, MathFunction.COS])
def test_sine_and_cosine_are_right_up_to_the_largest_number(
    function: MathFunction, kind: LoopKind, fma: bool
) -> None:
    random = np.random.default_rng(5)
    x = (random.choice([-1, 1], POINTS) * 10 ** random.uniform(2, 38.5, POINTS)).astype(np.float32)
    x[:4] = 1e6, 2e6, 1048577, 3.4028235e38
    got = compiled(function, x, kind, fma=fma).astype(np.float64)
    unit = np.spacing(np.abs(exact(function, x)).astype(np.float32)).astype(np.float64)
    error = np.abs(got - exact(function, x))
    assert np.all(error <= np.maximum(LARGEST_ERROR_ULP[function] * 1.5 * unit, 2.0**-31))

"""One table serves both walkers: operators mean the same in narrow numbers and in wide ones."""

from itertools import product
from math import inf, nan

import numpy as np
import pytest

from kernelzoo.domain.operators.expressions import BinaryOp, Function
from kernelzoo.numerics.operators import BINARY, FUNCTIONS, whole, wrapped

LEAST, MOST = -(2**31), 2**31 - 1
INTEGERS = (0, 1, -1, 2, -2, 3, 7, 31, 32, 33, -31, 100, 12345, -12345, LEAST, MOST)
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 5.99, 6.01, 20.0, -20.0, inf, -inf, nan)


@pytest.mark.parametrize("op", BinaryOp)
def test_integers_of_32_bits_are_those_of_64_kept_to_32(op: BinaryOp) -> None:
    pairs = np.array(list(product(INTEGERS, INTEGERS)), np.int64)
    with np.errstate(all="ignore"):
        wide = BINARY[op](pairs[:, 0], pairs[:, 1])
        narrow = BINARY[op](*(part.astype(np.int32) for part in pairs.T))
    if wide.dtype.kind == "i":
        np.testing.assert_array_equal(narrow.astype(np.int64), wrapped(wide))
    else:
        np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize("function", Function)
def test_functions_of_f32_are_those_of_float64_rounded(function: Function) -> None:
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[function](np.array(REALS, np.float32).astype(np.float64))
        found = FUNCTIONS[function](np.array(REALS, np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact.astype(np.float32), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_number_that_no_i32_holds_becomes_the_nearest(dtype: str) -> None:
    given = np.array([nan, inf, -inf, 3e9, -3e9, 2147483648.0, 1.9, -1.9], np.dtype(dtype))
    assert whole(given).tolist() == [0, MOST, LEAST, MOST, LEAST, MOST, 1, -1]

"""Index expressions as linear forms mean the same, and cancel."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    CompareOp,
    Comparison,
    Expression,
    Integer,
    differs,
    read,
)
from services.tuner.graph.formulas import axes_of
from services.tuner.graph.places import flat, is_known, plain_shape, simplified, unflat, viewed

AXES = axes_of((2, 6, 4))

PLACES = st.recursive(
    st.sampled_from(AXES) | st.integers(0, 9).map(Integer),
    lambda inner: (
        st.builds(Binary, st.sampled_from((BinaryOp.ADD, BinaryOp.SUB)), inner, inner)
        | st.builds(
            Binary,
            st.sampled_from((BinaryOp.MUL, BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD)),
            inner,
            st.integers(1, 24).map(Integer),
        )
        | st.builds(Binary, st.sampled_from((BinaryOp.MIN, BinaryOp.MAX)), inner, inner)
    ),
    max_leaves=6,
)
APPLIED: Any = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.FLOOR_DIV: np.floor_divide,
    BinaryOp.FLOOR_MOD: np.mod,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
}


def value(place: Expression, axes: tuple[Axis, ...] = AXES) -> Any:
    at = dict(zip(axes, np.indices([a.extent.value for a in axes]), strict=True))  # type: ignore[attr-defined]

    def inside(part: Any) -> Any:
        match part:
            case Integer(number):
                return number
            case Binary(op, left, right):
                return APPLIED[op](inside(left), inside(right))
        return at[part]

    return np.broadcast_to(inside(place), [a.extent.value for a in axes])  # type: ignore[attr-defined]


COMPARED: Any = {
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
}


@given(op=st.sampled_from(CompareOp), left=PLACES, right=PLACES)
def test_a_comparison_that_is_known_holds_everywhere_or_nowhere(
    op: CompareOp, left: Expression, right: Expression
) -> None:
    known = is_known(Comparison(op, left, right))
    if known is not None:
        assert (COMPARED[op](value(left), value(right)) == known).all()


def test_comparisons_are_known_by_the_ends_of_places() -> None:
    i, j, k = AXES
    assert is_known(j < 6) is True
    assert is_known(j < 5) is None
    assert is_known(Comparison(CompareOp.LT, i + 2, Integer(2))) is False
    assert is_known(differs(k + 1, k)) is True
    entry = read("x", i)
    assert is_known(differs(entry, entry)) is None, "it may be NaN"


@given(place=PLACES)
def test_a_simplified_place_is_the_same_place(place: Expression) -> None:
    np.testing.assert_array_equal(value(simplified(place)), value(place))


SHAPES = ([(24, 30), (1, 24, 5, 6), (720,), (2, 12, 30)], [(7, 11), (77,), (11, 7)])
VIEWS = [pair for alike in SHAPES for pair in product(alike, repeat=2)]


@pytest.mark.parametrize(("one", "other"), VIEWS)
def test_a_view_of_a_view_is_where_it_began(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    axes = axes_of(one)
    there = viewed(axes, one, other)
    numbers = np.arange(np.prod(one)).reshape(one)
    at = tuple(value(place, axes) for place in there)
    np.testing.assert_array_equal(numbers.reshape(other)[at], numbers)
    back = viewed(there, other, one)
    assert flat(back, one) == flat(axes, one)


def test_pixels_of_an_image_are_rows_without_a_division() -> None:
    # A convolution's output [1, 14, 14, 768] by rows, as vision transformers read it.
    rows = axes_of((196, 768))
    image = (rows[0] * 0, rows[0] // 14, rows[0] % 14, rows[1])
    form = flat(image, (1, 14, 14, 768))
    assert form == flat(rows, (196, 768))
    shape = plain_shape(form, 196 * 768)
    assert shape == (196, 768)
    assert list(map(str, unflat(form, shape))) == ["i0", "i1"]

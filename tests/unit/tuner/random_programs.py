"""Random TIR programs for hypothesis, whose result TVM defines: no index leaves its buffer, no
integer overflows, no float outside of i32 becomes an integer, and no NaN meets a minimum.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import TypeVar

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st
from numpy.typing import NDArray
from tvm import s_tir, te, tirx
from tvm.error import InternalError

from services.tuner.tir.tvm import Node

ROWS, COLUMNS, DEPTH = 3, 8, 3
SIGNIFICANT_BITS = 24
ENTRIES = ROWS * COLUMNS
SMALLEST, LARGEST = -(1 << 31), (1 << 31) - 1
_EDGES = (SMALLEST, SMALLEST + 1, -8, -1, 0, 1, 7, 23, 24, LARGEST - 1, LARGEST)
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 0.25, -1.5, 3e38, 1e-40)

_random = np.random.default_rng(5)
ARRAYS: dict[str, NDArray[np.generic]] = {
    "small": _random.integers(-100, 101, ENTRIES).astype(np.int32),
    "edges": _random.choice(_EDGES, ENTRIES).astype(np.int32),
    "bytes": _random.integers(-128, 128, ENTRIES).astype(np.int8),
    "long": _random.choice(_EDGES, ENTRIES).astype(np.int64),
    "quarters": (_random.integers(-32, 33, ENTRIES) / 4).astype(np.float32),
    "special": _random.choice(_SPECIAL, ENTRIES).astype(np.float32),
}
"""The inputs of every program. Quarters are added and multiplied without rounding."""

_RANGES = {
    "small": (-100, 100),
    "edges": (SMALLEST, LARGEST),
    "bytes": (-128, 127),
    "long": (SMALLEST, LARGEST),
}
Drawn = TypeVar("Drawn")
_COMPARISONS: tuple[Callable[[Node, Node], Node], ...] = (
    tirx.LT,
    tirx.LE,
    tirx.GT,
    tirx.GE,
    tirx.EQ,
    tirx.NE,
)


@dataclass(frozen=True, slots=True)
class Whole:
    """An int32 expression and the values that it can take."""

    node: Node
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Real:
    """A float32 expression, its largest magnitude, infinite where it may be NaN, and how many bits
    it has after the point, infinite where it was rounded."""

    node: Node
    most: float
    fraction: float

    @property
    def is_exact(self) -> bool:
        """True if every value that it can take is an f32."""
        return log2(max(self.most, 1.0)) + self.fraction <= SIGNIFICANT_BITS


def whole(value: int) -> Whole:
    return Whole(tirx.const(value, "int32"), value, value)


def real(value: float) -> Real:
    return Real(tirx.const(value, "float32"), abs(value), 2)


class Expressions:
    """Draws expressions at one point of a loop nest. What was drawn is drawn again: TVM shares
    subexpressions, and so does the compiler."""

    def __init__(
        self, draw: st.DrawFn, inputs: Mapping[str, Node], axes: Mapping[str, Whole]
    ) -> None:
        self._draw = draw
        self._inputs = inputs
        self._axes = axes
        self._wholes: list[Whole] = []
        self._reals: list[Real] = []
        self._conditions: list[Node] = []

    def whole(self, depth: int) -> Whole:
        leaves = [self._axis, self._number, self._loaded]
        inner = [
            *(self._sum, self._product, self._extreme, self._quotient, self._remainder),
            *(self._whole_select, self._whole_branch, self._byte, self._truncated, self._truth),
        ]
        return self._one_of(self._wholes, leaves, inner, depth)

    def real(self, depth: int) -> Real:
        leaves = [self._fraction, self._loaded_real]
        inner = [
            *(self._real_sum, self._real_product, self._real_extreme, self._real_quotient),
            *(self._root, self._real_select, self._real_branch, self._guarded, self._converted),
        ]
        return self._one_of(self._reals, leaves, inner, depth)

    def condition(self, depth: int) -> Node:
        leaves = [self._compared, self._compared_real]
        return self._one_of(self._conditions, leaves, [self._both, self._not], depth)

    def _one_of(
        self,
        drawn: list[Drawn],
        leaves: Sequence[Callable[[int], Drawn]],
        inner: Sequence[Callable[[int], Drawn]],
        depth: int,
    ) -> Drawn:
        ways = (*leaves, *(inner if depth else ()))
        way = self._draw(st.integers(0, len(ways) + (2 if drawn else -1)))
        if way >= len(ways):
            return self._draw(st.sampled_from(drawn))
        made = ways[way](max(0, depth - 1))
        drawn.append(made)
        return made

    # Integers

    def _axis(self, _: int) -> Whole:
        return self._draw(st.sampled_from(list(self._axes.values())))

    def _number(self, _: int) -> Whole:
        return whole(self._draw(st.sampled_from((0, 1, 2, -3, 7, 100, SMALLEST, LARGEST))))

    def _loaded(self, depth: int) -> Whole:
        name = self._draw(st.sampled_from(list(_RANGES)))
        value = self._inputs[name][self._index(depth)]
        return Whole(tirx.Cast("int32", value) if name != "small" else value, *_RANGES[name])

    def _index(self, depth: int) -> Node:
        """An index of an entry of a flat input."""
        i, j = self._axes["i"].node, self._axes["j"].node
        match self._draw(st.integers(0, 4 if depth else 2)):
            case 0:
                return i * COLUMNS + j
            case 1:
                return ENTRIES - 1 - (i * COLUMNS + j)
            case 2:
                return tirx.floormod((i * COLUMNS + j) * 5, ENTRIES)
            case 3:
                return tirx.floormod(self.whole(depth).node, ENTRIES)
        return te.max(te.min(self.whole(depth).node, ENTRIES - 1), 0)

    def _pair(self, depth: int) -> tuple[Whole, Whole]:
        return self.whole(depth), self.whole(depth)

    def _small_pair(self, depth: int) -> tuple[Whole, Whole]:
        """TVM takes it that no part of a sum overflows, and rearranges it: i - max(i, n) becomes
        min(0, i - n), which does overflow where n is the smallest number."""
        one, other = self._pair(depth)
        return _small(one), _small(other)

    def _sum(self, depth: int) -> Whole:
        one, other = self._small_pair(depth)
        if self._draw(st.booleans()):
            node = tirx.Add(one.node, other.node)
            return Whole(node, one.low + other.low, one.high + other.high)
        node = tirx.Sub(one.node, other.node)
        return Whole(node, one.low - other.high, one.high - other.low)

    def _product(self, depth: int) -> Whole:
        one, other = self._small_pair(depth)
        corners = [x * y for x in (one.low, one.high) for y in (other.low, other.high)]
        return Whole(tirx.Mul(one.node, other.node), min(corners), max(corners))

    def _extreme(self, depth: int) -> Whole:
        one, other = self._pair(depth)
        if self._draw(st.booleans()):
            node = tirx.Min(one.node, other.node)
            return Whole(node, min(one.low, other.low), min(one.high, other.high))
        node = tirx.Max(one.node, other.node)
        return Whole(node, max(one.low, other.low), max(one.high, other.high))

    def _divisor(self) -> int:
        """None below -7: TVM 0.27 takes quotients of eight lanes by it as those of the first."""
        return self._draw(
            st.sampled_from((1, 2, 3, 7, 8, 1000, (1 << 30) + 1, LARGEST, -2, -7, -5))
        )

    def _quotient(self, depth: int) -> Whole:
        one, by = self.whole(depth), self._divisor()
        low, high = sorted((one.low // by, one.high // by))
        return Whole(tirx.FloorDiv(one.node, whole(by).node), low, high)

    def _remainder(self, depth: int) -> Whole:
        one, by = self.whole(depth), self._divisor()
        low, high = sorted((0, by - 1 if by > 0 else by + 1))
        return Whole(tirx.FloorMod(one.node, whole(by).node), low, high)

    def _whole_select(self, depth: int) -> Whole:
        condition, (one, other) = self.condition(depth), self._pair(depth)
        node = tirx.Select(condition, one.node, other.node)
        return Whole(node, min(one.low, other.low), max(one.high, other.high))

    def _whole_branch(self, depth: int) -> Whole:
        condition, (one, other) = self.condition(depth), self._pair(depth)
        node = tirx.if_then_else(condition, one.node, other.node)
        return Whole(node, min(one.low, other.low), max(one.high, other.high))

    def _byte(self, depth: int) -> Whole:
        node = tirx.Cast("int8", self.whole(depth).node)
        return Whole(tirx.Cast("int32", node), -128, 127)

    def _truncated(self, depth: int) -> Whole:
        value = self.real(depth)
        if value.most >= -SMALLEST:
            return whole(0)
        most = int(value.most)
        return Whole(tirx.Cast("int32", value.node), -most, most)

    def _truth(self, depth: int) -> Whole:
        return Whole(tirx.Cast("int32", self.condition(depth)), 0, 1)

    # Floats

    def _fraction(self, _: int) -> Real:
        return real(self._draw(st.sampled_from((0.0, -0.0, 0.25, -2.5, 8.0))))

    def _loaded_real(self, depth: int) -> Real:
        if self._draw(st.integers(0, 2)):
            return self._quarter(self._index(depth))
        return Real(self._inputs["special"][self._index(depth)], np.inf, np.inf)

    def _quarter(self, at: Node) -> Real:
        fraction = np.inf if isinstance(self._inputs["quarters"], _Flat) else 2
        return Real(self._inputs["quarters"][at], 8, fraction)

    def _real_pair(self, depth: int) -> tuple[Real, Real]:
        return self.real(depth), self.real(depth)

    def _real_sum(self, depth: int) -> Real:
        one, other = self._real_pair(depth)
        operation = self._draw(st.sampled_from((tirx.Add, tirx.Sub)))
        fraction = max(one.fraction, other.fraction)
        return Real(operation(one.node, other.node), one.most + other.most, fraction)

    def _real_product(self, depth: int) -> Real:
        """One that is exact: TVM's LLVM rounds a product and the sum that it is part of once."""
        one, other = self._real_pair(depth)
        if not (one.is_exact and other.is_exact):
            return one
        fraction = one.fraction + other.fraction
        product = Real(tirx.Mul(one.node, other.node), one.most * other.most, fraction)
        return product if product.is_exact else one

    def _real_extreme(self, depth: int) -> Real:
        one, other = self._real_pair(depth)
        most = max(one.most, other.most)
        if most == np.inf:
            return one
        operation = self._draw(st.sampled_from((tirx.Min, tirx.Max)))
        fraction = max(one.fraction, other.fraction)
        return Real(operation(one.node, other.node), most, fraction)

    def _real_quotient(self, depth: int) -> Real:
        one, by = self.real(depth), self._draw(st.sampled_from((0.5, 3.0, -8.0)))
        fraction = np.inf if by == 3.0 else one.fraction + 3
        return Real(tirx.Div(one.node, real(by).node), 2 * one.most, fraction)

    def _root(self, depth: int) -> Real:
        value = self.real(depth)
        return Real(tirx.sqrt(tirx.abs(value.node)), max(value.most, 1.0), np.inf)

    def _real_select(self, depth: int) -> Real:
        condition, (one, other) = self.condition(depth), self._real_pair(depth)
        node = tirx.Select(condition, one.node, other.node)
        return Real(node, max(one.most, other.most), max(one.fraction, other.fraction))

    def _real_branch(self, depth: int) -> Real:
        condition, (one, other) = self.condition(depth), self._real_pair(depth)
        node = tirx.if_then_else(condition, one.node, other.node)
        return Real(node, max(one.most, other.most), max(one.fraction, other.fraction))

    def _guarded(self, depth: int) -> Real:
        """An entry at an index of any value, where there is one."""
        at, other = self.whole(depth).node, self.real(depth)
        quarter = self._quarter(at)
        exists = tirx.all(at >= 0, at < ENTRIES)
        choose = self._draw(st.sampled_from((tirx.if_then_else, tirx.Select)))
        node = choose(exists, quarter.node, other.node)
        return Real(node, max(8, other.most), max(quarter.fraction, other.fraction))

    def _converted(self, depth: int) -> Real:
        value = self.whole(depth)
        most = float(max(-value.low, value.high))
        rounded = most > 1 << SIGNIFICANT_BITS
        return Real(tirx.Cast("float32", value.node), most, np.inf if rounded else 0)

    # Conditions

    def _compared(self, depth: int) -> Node:
        one, other = self._pair(depth)
        return self._draw(st.sampled_from(_COMPARISONS))(one.node, other.node)

    def _compared_real(self, depth: int) -> Node:
        """TVM's LLVM says that NaN does not differ from any number (fcmp one); IEEE 754, its C
        sources and we say that it does. TVM makes one of a negated equality, too."""
        one, other = self._real_pair(depth)
        wild = np.inf in (one.most, other.most)
        comparisons = _COMPARISONS[:4] if wild else _COMPARISONS
        return self._draw(st.sampled_from(comparisons))(one.node, other.node)

    def _both(self, depth: int) -> Node:
        operation = self._draw(st.sampled_from((tirx.And, tirx.Or)))
        return operation(self.condition(depth), self.condition(depth))

    def _not(self, depth: int) -> Node:
        return tirx.Not(self.condition(depth))


def _small(value: Whole) -> Whole:
    most = 1 << 15
    return value if -most <= value.low and value.high <= most else whole(5)


@st.composite
def programs(draw: st.DrawFn) -> Node:
    """A function from `ARRAYS` to an output of ROWS x COLUMNS, maybe through a stage before it,
    maybe a sum; its innermost loop may be unrolled or take four lanes at once."""
    inputs = {
        name: te.placeholder((ENTRIES,), name=name, dtype=str(array.dtype))
        for name, array in ARRAYS.items()
    }
    visible = dict(inputs)
    if draw(st.booleans()):
        visible["quarters"] = _Flat(_stage(draw, visible, "t", "float32"))
    output = _stage(draw, visible, "c", draw(st.sampled_from(("float32", "int32", "int8"))))
    try:
        schedule = s_tir.Schedule(te.create_prim_func([*inputs.values(), output]))
    except (ValueError, InternalError):
        reject()  # TVM folds casts of constants and refuses one that is no int8, and has bugs.
    way = draw(st.sampled_from((None, schedule.unroll, schedule.vectorize)))
    if way is not None:
        way(schedule.get_loops(schedule.get_sblock("c"))[1])
    return schedule.mod["main"]


@dataclass(frozen=True, slots=True)
class _Flat:
    """A stage as a flat input."""

    stage: Node

    def __getitem__(self, at: Node) -> Node:
        return self.stage[tirx.floordiv(at, COLUMNS), tirx.floormod(at, COLUMNS)]


def _stage(draw: st.DrawFn, inputs: Mapping[str, Node], name: str, dtype: str) -> Node:
    summed = dtype == "float32" and draw(st.booleans())
    k = te.reduce_axis((0, 3), name="k")

    def entry(i: Node, j: Node) -> Node:
        axes = {"i": Whole(i, 0, ROWS - 1), "j": Whole(j, 0, COLUMNS - 1)}
        if summed:
            axes["k"] = Whole(k.var, 0, 2)
        drawn = Expressions(draw, inputs, axes)
        if dtype != "float32":
            node = drawn.whole(DEPTH).node
            return tirx.Cast("int8", node) if dtype == "int8" else node
        node = drawn.real(DEPTH).node
        if summed:
            return te.sum(node, axis=k)
        return node if name == "c" else _at_most_8(node)

    stage = te.compute((ROWS, COLUMNS), entry, name=name)
    if summed and name != "c":
        return te.compute(stage.shape, lambda *at: _at_most_8(stage(*at)), name=f"{name}_small")
    return stage


def _at_most_8(node: Node) -> Node:
    """The value, or 0 where it is NaN or larger, as entries of `quarters` are."""
    return tirx.Select(tirx.abs(node) <= real(8).node, node, real(0).node)

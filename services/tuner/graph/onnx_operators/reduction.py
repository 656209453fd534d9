"""Operators that reduce along axes, and those that scan or rank along one."""

from collections.abc import Callable, Mapping, Sequence
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Choice,
    Expression,
    Integer,
    Real,
    Reducer,
    Stage,
    equal,
)
from services.tuner.graph.building import Carried, Formula, Operand, Site
from services.tuner.graph.onnx_operators.elementwise import LARGEST_FINITE, absolute, exp, log, root

Before = Callable[[Expression], Expression]
After = Callable[[Expression, int], Expression]
"""What is done to each term, and to the result, given the number of terms."""


def _same(x: Expression) -> Expression:
    return x


def _kept(x: Expression, terms: int) -> Expression:
    del terms
    return x


def _reduced_axes(site: Site) -> tuple[int, ...]:
    """From the attribute or, since opset 18, from the second input; none given means all."""
    rank = site.needed(0).rank
    told = site.known(1, "axes")
    axes = site.integers("axes") if told is None else tuple(int(n) for n in told.reshape(-1))
    if not axes:
        return () if site.integer("noop_with_empty_axes") else tuple(range(rank))
    return tuple(sorted(axis % rank for axis in axes))


def _reduction(
    reducer: Reducer, before: Before = _same, after: After = _kept, named: str = ""
) -> Callable[[Site], Carried]:
    """`named` is the operator on rows that computes the same."""

    def carry(site: Site) -> Carried:
        x, reduced = site.needed(0), _reduced_axes(site)
        terms = prod(x.shape[axis] for axis in reduced)
        last = reduced == tuple(range(x.rank - len(reduced), x.rank))
        if named and reduced and last and x.dtype is DType.F32:
            rows = site.view(x, (x.elements // terms, terms))
            result = site.workload(named, rows.shape, rows)
            if result is not None:
                return site.view(result, site.shape)
        return site.view(_generic(site, x, reduced, reducer, before, after), site.shape)

    return carry


def _generic(
    site: Site,
    x: Operand,
    reduced: tuple[int, ...],
    reducer: Reducer,
    before: Before,
    after: After,
) -> Operand:
    formula = Formula(site)
    kept = [axis for axis in range(x.rank) if axis not in reduced]
    axes = formula.axes(x.shape[axis] for axis in kept)
    over = formula.axes((x.shape[axis] for axis in reduced), first=len(kept))
    at: dict[int, Axis] = dict(zip((*kept, *reduced), (*axes, *over), strict=True))
    entry = before(formula.read(x, [at[axis] for axis in range(x.rank)]))
    terms = prod(x.shape[axis] for axis in reduced)
    if after is _kept:
        return formula.output(axes, entry, x.dtype, reducer, over)
    total = formula.stage(axes, entry, x.dtype, reducer, over)
    return formula.output(axes, after(total[tuple(axes)], terms), x.dtype)


def _mean(x: Expression, terms: int) -> Expression:
    return x * (1.0 / terms)


def _reduce_mean(site: Site) -> Carried:
    if site.dtype is not DType.F32:
        raise site.refusal("it is of integers", "cast its input to float first")
    return _reduction(Reducer.SUM, after=_mean, named="row_mean")(site)


def _log_sum_exp(site: Site) -> Carried:
    """log Σ exp(x − largest) + largest, so that no power overflows; without it where the largest
    is infinite."""
    x, reduced = site.needed(0), _reduced_axes(site)
    formula = Formula(site)
    kept = [axis for axis in range(x.rank) if axis not in reduced]
    axes = formula.axes(x.shape[axis] for axis in kept)
    over = formula.axes((x.shape[axis] for axis in reduced), first=len(kept))
    at: dict[int, Axis] = dict(zip((*kept, *reduced), (*axes, *over), strict=True))
    entry = formula.read(x, [at[axis] for axis in range(x.rank)])
    most = formula.stage(axes, entry, reducer=Reducer.MAX, over=over)
    largest = most[tuple(axes)]
    shift = Choice((absolute(largest) <= LARGEST_FINITE,), largest, Real(0.0))
    total = formula.stage(axes, exp(entry - shift), reducer=Reducer.SUM, over=over)
    value = log(total[tuple(axes)]) + shift
    return site.view(formula.output(axes, value), site.shape)


def _extreme_place(reducer: Reducer) -> Callable[[Site], Carried]:
    """The first or the last of the places that have the extreme value."""

    def carry(site: Site) -> Carried:
        x, axis = site.needed(0), site.axis()
        formula = Formula(site)
        extent = x.shape[axis]
        axes = formula.axes((*x.shape[:axis], *x.shape[axis + 1 :]))
        (k,) = formula.axes((extent,), first=len(axes))
        entry = formula.read(x, (*axes[:axis], k, *axes[axis:]))
        extreme = formula.stage(axes, entry, x.dtype, reducer, (k,))
        last = bool(site.integer("select_last_index"))
        place = _place_of(extreme[axes], entry, k, -1 if last else extent, x.dtype)
        found = Reducer.MAX if last else Reducer.MIN
        return site.view(formula.output(axes, place, DType.I32, found, (k,)), site.shape)

    return carry


def _place_of(
    extreme: Expression, entry: Expression, place: Axis, elsewhere: int, dtype: DType
) -> Expression:
    """`place` where the entry is the extreme one, or NaN, so that every row has such a place. Every
    number is at most 1 or at least 0: compilers of WGSL may take `x != x` for false."""
    other: Expression = Integer(elsewhere)
    if dtype is DType.F32:
        other = Choice((entry <= 1.0,), other, Choice((entry >= 0.0,), other, place))
    return Choice((equal(entry, extreme),), place, other)


def _cumulative(reducer: Reducer, neutral: int) -> Callable[[Site], Carried]:
    """Combines the entries up to each place, or before it; with `reverse` from the end."""

    def carry(site: Site) -> Carried:
        x, told = site.needed(0), site.known(1, "axis")
        assert told is not None
        axis = int(told.reshape(-1)[0]) % x.rank
        extent = x.shape[axis]
        reverse, exclusive = bool(site.integer("reverse")), site.integer("exclusive")

        def at(axes: Sequence[Expression], place: Expression) -> tuple[Expression, ...]:
            return (*axes[:axis], place, *axes[axis + 1 :])

        if reverse:
            flip = Formula(site)
            axes = flip.axes(x.shape)
            x = flip.output(axes, flip.read(x, at(axes, extent - 1 - axes[axis])), x.dtype)
        scan = Formula(site)
        axes = scan.axes(x.shape)
        (t,) = scan.axes((extent,), first=x.rank)
        made = scan.output(axes, scan.read(x, at(axes, t)), x.dtype, reducer, (t,))
        if not reverse and not exclusive:
            return made
        formula = Formula(site)
        axes = formula.axes(x.shape)
        place: Expression = extent - 1 - axes[axis] if reverse else axes[axis]
        value = formula.read(made, at(axes, place - exclusive))
        if exclusive:
            none: Expression = Real(float(neutral)) if x.dtype is DType.F32 else Integer(neutral)
            value = Choice((place >= 1,), value, none)
        return formula.output(axes, value, x.dtype)

    return carry


def _top(site: Site) -> Carried:
    """The largest or smallest entries along an axis, and their places."""
    x, told = site.needed(0), site.known(1, "number")
    assert told is not None
    axis, count = site.axis(default=-1), int(told.reshape(-1)[0])
    outer, extent, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    apart = site.transposed(site.view(x, (outer, extent, inner)), (0, 2, 1))
    rows = site.view(apart, (outer * inner, extent))
    formula = Formula(site)
    axes = formula.axes((outer * inner, count))
    (t,) = formula.axes((extent,), first=2)
    reducer = Reducer.LARGEST if site.integer("largest", 1) else Reducer.SMALLEST
    places = formula.output(axes, formula.read(rows, (axes[0], t)), DType.I32, reducer, (t,))
    formula = Formula(site)
    axes = formula.axes((outer * inner, count))
    entry = formula.read(rows, (axes[0], formula.read(places, axes)))
    values = formula.output(axes, entry, rows.dtype)

    def back(of: Operand) -> Operand:
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return site.view(site.transposed(site.view(of, (outer, inner, count)), (0, 2, 1)), shape)

    return back(values), back(places)


def along(site: Site, x: Operand, axis: int) -> tuple[Formula, tuple[Axis, ...], Axis]:
    """A program with the axes of x and one more axis along `axis`."""
    formula = Formula(site)
    (k,) = formula.axes((x.shape[axis],), first=x.rank)
    return formula, formula.axes(x.shape), k


def _softmax(site: Site) -> Carried:
    x, axis = site.needed(0), site.axis(default=-1)
    if axis == x.rank - 1:
        rows = site.view(x, (x.elements // x.shape[-1], x.shape[-1]))
        result = site.workload("softmax", rows.shape, rows)
        if result is not None:
            return site.view(result, site.shape)
    formula, axes, k, most, total = _powers(site, x, axis)
    rest = axes[:axis] + axes[axis + 1 :]
    del k
    value = exp(formula.read(x, axes) - most[rest]) / total[rest]
    return formula.output(axes, value)


def _log_softmax(site: Site) -> Carried:
    x, axis = site.needed(0), site.axis(default=-1)
    formula, axes, k, most, total = _powers(site, x, axis)
    rest = axes[:axis] + axes[axis + 1 :]
    del k
    return formula.output(axes, formula.read(x, axes) - most[rest] - log(total[rest]))


def _powers(
    site: Site, x: Operand, axis: int
) -> tuple[Formula, tuple[Axis, ...], Axis, Stage, Stage]:
    """The stages of the largest entry and of the sum of powers along an axis."""
    formula, axes, k = along(site, x, axis)
    rest = axes[:axis] + axes[axis + 1 :]
    entry = formula.read(x, (*axes[:axis], k, *axes[axis + 1 :]))
    most = formula.stage(rest, entry, reducer=Reducer.MAX, over=(k,))
    power = exp(entry - most[rest])
    return formula, axes, k, most, formula.stage(rest, power, reducer=Reducer.SUM, over=(k,))


def _hardmax(site: Site) -> Carried:
    """1 at the first largest entry, 0 elsewhere."""
    x, axis = site.needed(0), site.axis(default=-1)
    formula, axes, k = along(site, x, axis)
    rest = axes[:axis] + axes[axis + 1 :]
    entry = formula.read(x, (*axes[:axis], k, *axes[axis + 1 :]))
    most = formula.stage(rest, entry, reducer=Reducer.MAX, over=(k,))
    place = _place_of(most[rest], entry, k, x.shape[axis], x.dtype)
    first = formula.stage(rest, place, DType.I32, Reducer.MIN, (k,))
    value = Choice((equal(axes[axis], first[rest]),), Real(1.0), Real(0.0))
    return formula.output(axes, value)


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "ArgMax": _extreme_place(Reducer.MAX),
    "ArgMin": _extreme_place(Reducer.MIN),
    "CumProd": _cumulative(Reducer.RUNNING_PROD, 1),
    "CumSum": _cumulative(Reducer.RUNNING_SUM, 0),
    "Hardmax": _hardmax,
    "LogSoftmax": _log_softmax,
    "ReduceL1": _reduction(Reducer.SUM, absolute),
    "ReduceL2": _reduction(Reducer.SUM, lambda x: x * x, lambda x, _: root(x)),
    "ReduceLogSum": _reduction(Reducer.SUM, after=lambda x, _: log(x)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _reduction(Reducer.MAX, named="row_max"),
    "ReduceMean": _reduce_mean,
    "ReduceMin": _reduction(Reducer.MIN),
    "ReduceProd": _reduction(Reducer.PROD),
    "ReduceSum": _reduction(Reducer.SUM, named="row_sum"),
    "ReduceSumSquare": _reduction(Reducer.SUM, lambda x: x * x),
    "Softmax": _softmax,
    "TopK": _top,
}

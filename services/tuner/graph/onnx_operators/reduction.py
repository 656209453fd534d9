"""Operators that reduce along axes, and those that scan or rank along one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp as exp_of
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Cast,
    Choice,
    Expression,
    Integer,
    Real,
    Reducer,
    Stage,
    differs,
    equal,
    largest,
    smallest,
    truth,
)
from services.tuner.graph.building import Carried, Formula, Operand, Site
from services.tuner.graph.onnx_operators.elementwise import LARGEST_FINITE, absolute, exp, log, root
from services.tuner.graph.onnx_operators.integers import (
    LEAST,
    MOST,
    at_most,
    below,
    in_ranks,
    is_of_unsigned,
    quotient,
    ranked,
    real_of_unsigned,
    unsigned_quotient,
)

Before = Callable[[Expression], Expression]
After = Callable[[Expression, int], Expression]
"""A function of a term or of the result, given the number of terms."""


def _same(x: Expression) -> Expression:
    return x


def _square(x: Expression) -> Expression:
    return x * x


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
    """`named` is the operator on rows that computes the same of real numbers."""

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
    formula, axes, over, entry = _along_reduced(site, x, reduced)
    entry = before(entry)
    terms = prod(x.shape[axis] for axis in reduced)
    if after is _kept:
        return formula.output(axes, entry, x.dtype, reducer, over)
    total = formula.stage(axes, entry, x.dtype, reducer, over)
    return formula.output(axes, after(total[tuple(axes)], terms), x.dtype)


def _along_reduced(
    site: Site, x: Operand, reduced: tuple[int, ...]
) -> tuple[Formula, tuple[Axis, ...], tuple[Axis, ...], Expression]:
    """A program, the axes that stay, those that are reduced, and the entry at their place."""
    formula = Formula(site)
    kept = [axis for axis in range(x.rank) if axis not in reduced]
    axes = formula.axes(x.shape[axis] for axis in kept)
    over = formula.axes((x.shape[axis] for axis in reduced), first=len(kept))
    at: dict[int, Axis] = dict(zip((*kept, *reduced), (*axes, *over), strict=True))
    return formula, axes, over, formula.read(x, [at[axis] for axis in range(x.rank)])


def _mean(x: Expression, terms: int) -> Expression:
    return x * (1.0 / terms)


def _by_type(
    of_reals: Callable[[Site], Carried],
    of_integers: Callable[[Site], Carried],
    of_unsigned: Callable[[Site], Carried] | None = None,
) -> Callable[[Site], Carried]:
    """For reductions that are stated in different ways."""

    def carry(site: Site) -> Carried:
        if site.needed(0).dtype is DType.F32:
            return of_reals(site)
        unsigned = of_unsigned is not None and is_of_unsigned(site)
        return of_unsigned(site) if of_unsigned and unsigned else of_integers(site)

    return carry


def _in_order(reducer: Reducer) -> Callable[[Site], Carried]:
    return _reduction(reducer, ranked, lambda x, _: ranked(x))


def _whole_root(total: Expression) -> Expression:
    """The root of a sum of squares without its fraction, from that of f32, which errs by one at the
    most. The sum is a number of 32 bits without a sign."""
    near: Expression = smallest(Cast(root(real_of_unsigned(total)), DType.I32), 65_535)
    near = near - truth(below(total, near * near))
    above = near + 1
    return Choice((above <= 65_535, at_most(above * above, total)), above, near)


def _whole_logarithm(total: Expression) -> Expression:
    """The logarithm without its fraction: as many powers of e are not above the number. That of 0
    and of negative numbers is the least integer, as -∞ and NaN are on x86."""
    count = _counted(truth(Integer(power) <= total) for power in _POWERS_OF_E[:-1])
    return Choice((total <= 0,), Integer(LEAST), count)


def _whole_logarithm_of_unsigned(total: Expression) -> Expression:
    count = _counted(truth(at_most(Integer(_held(power)), total)) for power in _POWERS_OF_E)
    return Choice((equal(total, 0),), Integer(LEAST), count)


_POWERS_OF_E = tuple(int(exp_of(power)) + 1 for power in range(1, 23))
"""The least integers above e, e², …; but for the last they are below 2³¹, and it is below 2³²."""


def _held(number: int) -> int:
    return number - (1 << 32) if number > MOST else number


def _counted(truths: Iterable[Expression]) -> Expression:
    total: Expression = Integer(0)
    for each in truths:
        total = total + each
    return total


def _log_sum_exp_of_integers(site: Site) -> Carried:
    """Computes as for real numbers, without the fraction: the largest, and what is whole of log Σ
    exp, which is f32. A difference that is no i32 is of a power that is 0."""
    x, reduced = site.needed(0), _reduced_axes(site)
    unsigned = is_of_unsigned(site)
    formula, axes, over, entry = _along_reduced(site, x, reduced)
    entry = ranked(entry) if unsigned else entry
    most = formula.stage(axes, entry, x.dtype, Reducer.MAX, over)
    largest_entry = most[tuple(axes)]
    below_it = entry - largest_entry
    power = Choice((below_it <= 0,), exp(Cast(below_it)), Real(0.0))
    total = formula.stage(axes, power, reducer=Reducer.SUM, over=over)
    logarithm = log(total[tuple(axes)])
    result = largest_entry + Cast(logarithm, DType.I32)
    if unsigned:
        return site.view(formula.output(axes, ranked(result), x.dtype), site.shape)
    # What is negative loses its fraction upwards.
    has_fraction = differs(logarithm, Cast(Cast(logarithm, DType.I32)))
    upwards = Choice((result < 0, has_fraction), Integer(1), Integer(0))
    return site.view(formula.output(axes, result + upwards, x.dtype), site.shape)


def _log_sum_exp(site: Site) -> Carried:
    """log Σ exp(x − largest) + largest, so that no power overflows; without it where the largest
    is infinite."""
    x, reduced = site.needed(0), _reduced_axes(site)
    formula, axes, over, entry = _along_reduced(site, x, reduced)
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
        entry = ranked(entry) if is_of_unsigned(site) else entry
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
    ranks = in_ranks(site, rows)
    places = formula.output(axes, formula.read(ranks, (axes[0], t)), DType.I32, reducer, (t,))
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
    "ReduceL1": _by_type(
        _reduction(Reducer.SUM, absolute),
        _reduction(Reducer.SUM, lambda x: largest(x, 0 - x)),
        _reduction(Reducer.SUM),
    ),
    "ReduceL2": _by_type(
        _reduction(Reducer.SUM, _square, lambda x, _: root(x)),
        _reduction(Reducer.SUM, _square, lambda x, _: _whole_root(x)),
    ),
    "ReduceLogSum": _by_type(
        _reduction(Reducer.SUM, after=lambda x, _: log(x)),
        _reduction(Reducer.SUM, after=lambda x, _: _whole_logarithm(x)),
        _reduction(Reducer.SUM, after=lambda x, _: _whole_logarithm_of_unsigned(x)),
    ),
    "ReduceLogSumExp": _by_type(_log_sum_exp, _log_sum_exp_of_integers),
    "ReduceMax": _by_type(
        _reduction(Reducer.MAX, named="row_max"), _reduction(Reducer.MAX), _in_order(Reducer.MAX)
    ),
    "ReduceMean": _by_type(
        _reduction(Reducer.SUM, after=_mean, named="row_mean"),
        _reduction(Reducer.SUM, after=lambda x, terms: quotient(x, Integer(terms))),
        _reduction(Reducer.SUM, after=lambda x, terms: unsigned_quotient(x, Integer(terms))),
    ),
    "ReduceMin": _by_type(_reduction(Reducer.MIN), _reduction(Reducer.MIN), _in_order(Reducer.MIN)),
    "ReduceProd": _reduction(Reducer.PROD),
    "ReduceSum": _reduction(Reducer.SUM, named="row_sum"),
    "ReduceSumSquare": _reduction(Reducer.SUM, _square),
    "Softmax": _softmax,
    "TopK": _top,
}

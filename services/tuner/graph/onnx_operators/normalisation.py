"""Operators that bring entries to a mean of 0 or a variance of 1."""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from kernelzoo.domain.operators.expressions import (
    Axis,
    Call,
    Choice,
    Expression,
    Function,
    Real,
    Reducer,
    Stage,
    number,
    power,
)
from services.tuner.graph.building import Carried, Formula, Operand, Site
from services.tuner.graph.onnx_operators.elementwise import absolute, root

EPSILON = 1e-5


def _rsqrt(x: Expression) -> Expression:
    return Call(Function.RSQRT, x)


def _batch(site: Site) -> Carried:
    """One factor and one summand for each channel."""
    if site.integer("training_mode"):
        raise site.refusal("it is in training mode", "call model.eval() before the export")
    x, scale, bias, mean, variance = (site.needed(n) for n in range(5))
    epsilon = site.real("epsilon", EPSILON)
    known = [each.constant for each in (scale, bias, mean, variance)]
    formula = Formula(site)
    axes = formula.axes(x.shape)
    channel = (axes[1],) if x.rank > 1 else (0,)
    if all(each is not None for each in known):
        gamma, beta, centre, spread = (np.asarray(each, np.float64) for each in known)
        factor = gamma / np.sqrt(spread + epsilon)
        by, plus = (
            site.constant(each.astype(np.float32)) for each in (factor, beta - centre * factor)
        )
        value = formula.read(x, axes) * formula.read(by, channel) + formula.read(plus, channel)
        return formula.output(axes, value)
    gamma_, beta_, mean_, variance_ = (
        formula.read(each, channel) for each in (scale, bias, mean, variance)
    )
    rest = formula.read(x, axes) - mean_
    return formula.output(axes, rest * _rsqrt(variance_ + epsilon) * gamma_ + beta_)


def _layer(site: Site) -> Carried:
    x, axis = site.needed(0), site.axis(default=-1)
    n = prod(x.shape[axis:])
    rows = site.view(x, (x.elements // n, n))
    gamma = _of_columns(site, site.input(1), x.shape[axis:], 1.0)
    beta = _of_columns(site, site.input(2), x.shape[axis:], 0.0)
    epsilon = site.real("epsilon", EPSILON)
    result = site.norm("layer_norm", rows, epsilon, gamma, beta)
    if result is None:
        result = _standardised_rows(site, rows, epsilon, gamma, beta)
    return site.view(result, site.shape), *_moments(site, rows, epsilon)


def _moments(site: Site, rows: Operand, epsilon: float) -> tuple[Operand | None, ...]:
    """Mean and inverse deviation of each row, where they are asked for."""
    wanted = (*site.outputs[1:], None, None)[:2]
    made: list[Operand | None] = []
    for place, type_ in enumerate(wanted):
        if type_ is None:
            made.append(None)
            continue
        formula = Formula(site)
        row, (k,) = formula.axes(rows.shape[:1]), formula.axes(rows.shape[1:], first=1)
        entry, share = formula.read(rows, (*row, k)), 1.0 / rows.shape[1]
        total = formula.stage(row, entry, reducer=Reducer.SUM, over=(k,))
        value = total[row] * share
        if place:
            rest = entry - value
            square = formula.stage(row, rest * rest, reducer=Reducer.SUM, over=(k,))
            value = _rsqrt(square[row] * share + epsilon)
        made.append(site.view(formula.output(row, value), type_.shape))
    return tuple(made)


def _rms(site: Site) -> Carried:
    x, axis = site.needed(0), site.axis(default=-1)
    n = prod(x.shape[axis:])
    rows = site.view(x, (x.elements // n, n))
    gamma = _of_columns(site, site.input(1), x.shape[axis:], 1.0)
    epsilon = site.real("epsilon", EPSILON)
    result = site.norm("rms_norm", rows, epsilon, gamma)
    if result is None:
        formula = Formula(site)
        axes, (k,) = formula.axes(rows.shape), formula.axes((n,), first=2)
        square = _sum_of_squares(formula, rows, axes, k)
        factor = _rsqrt(square[axes[:1]] * (1.0 / n) + epsilon)
        value = formula.read(rows, axes) * factor * formula.read(gamma, axes[1:])
        result = formula.output(axes, value)
    return site.view(result, site.shape)


def _sum_of_squares(formula: Formula, rows: Operand, axes: Sequence[Axis], k: Axis) -> Stage:
    entry = formula.read(rows, (axes[0], k))
    return formula.stage(axes[:1], entry * entry, reducer=Reducer.SUM, over=(k,))


def _of_columns(site: Site, given: Operand | None, shape: Sequence[int], default: float) -> Operand:
    """A parameter with a value for each column."""
    n = prod(shape)
    if given is None:
        return site.constant(np.full(n, default, np.float32))
    if given.elements == n:
        return site.view(given, (n,))
    if given.constant is not None:
        return site.constant(np.broadcast_to(given.constant, tuple(shape)).reshape(n).copy())
    formula = Formula(site)
    axes = formula.axes(shape)
    return site.view(formula.output(axes, formula.broadcast(given, axes)), (n,))


def _standardised_rows(
    site: Site, rows: Operand, epsilon: float, gamma: Operand, beta: Operand
) -> Operand:
    """Each row of x[m, n] less its mean, divided by its deviation."""
    formula = Formula(site)
    axes, (k,) = formula.axes(rows.shape), formula.axes(rows.shape[1:], first=2)
    entry = formula.read(rows, axes)
    moments = _Moments(formula, axes[:1], (k,), formula.read(rows, (axes[0], k)))
    rest = moments.rest(axes, entry, axes[:1])
    factor = moments.factor(rest[(axes[0], k)], epsilon)
    value = rest[axes] * factor[axes[:1]]
    return formula.output(
        axes, value * formula.read(gamma, axes[1:]) + formula.read(beta, axes[1:])
    )


class _Moments:
    """Stages of the mean and of the deviation of `entry`, for each place of `kept` over `over`."""

    def __init__(
        self, formula: Formula, kept: Sequence[Axis], over: Sequence[Axis], entry: Expression
    ) -> None:
        self._formula, self._kept, self._over = formula, tuple(kept), tuple(over)
        self._share = 1.0 / prod(number(axis.extent) for axis in over)
        self._total = formula.stage(kept, entry, reducer=Reducer.SUM, over=over)

    def rest(self, axes: Sequence[Axis], entry: Expression, place: Sequence[Expression]) -> Stage:
        """Entries less the mean of their `place`."""
        return self._formula.stage(axes, entry - self._total[tuple(place)] * self._share)

    def factor(self, rest: Expression, epsilon: float) -> Stage:
        """Makes the factor that brings the entries of a place to a variance of 1."""
        square = self._formula.stage(self._kept, rest * rest, reducer=Reducer.SUM, over=self._over)
        value = _rsqrt(square[self._kept] * self._share + epsilon)
        return self._formula.stage(self._kept, value)


def _instance(site: Site) -> Carried:
    """Every channel of every image by itself."""
    return _standardised_channels(site, groups=site.needed(0).shape[1])


def _group(site: Site) -> Carried:
    """Channels in groups; a factor and a summand for each channel, before opset 21 for each
    group."""
    return _standardised_channels(site, groups=site.integer("num_groups", 1))


def _standardised_channels(site: Site, groups: int) -> Operand:
    """One program over the whole image, so that it can lie in any order of axes."""
    x, gamma, beta = site.needed(0), site.needed(1), site.needed(2)
    channels = x.shape[1] // groups
    formula = Formula(site)
    axes = formula.axes(x.shape)
    kept = formula.axes((x.shape[0], groups))
    inner = formula.axes((channels, *x.shape[2:]), first=2)
    over = inner if channels > 1 else inner[1:]
    own = kept[1] * channels + inner[0] if channels > 1 else kept[1]
    place = (axes[0], axes[1] // channels if channels > 1 else axes[1])
    at = (kept[0], own, *inner[1:])
    moments = _Moments(formula, kept, over, formula.read(x, at))
    rest = moments.rest(axes, formula.read(x, axes), place)
    factor = moments.factor(rest[at], site.real("epsilon", EPSILON))
    parameter = axes[1] if gamma.elements == x.shape[1] else place[1]
    value = rest[axes] * factor[place] * formula.read(gamma, (parameter,))
    return formula.output(axes, value + formula.read(beta, (parameter,)))


def _local_response(site: Site) -> Carried:
    """x / (bias + alpha / size · Σ x²)^beta over neighbouring channels."""
    x, size = site.needed(0), site.integer("size", 1)
    before = (size - 1) // 2
    formula = Formula(site)
    axes = formula.axes(x.shape)
    (k,) = formula.axes((size,), first=x.rank)
    channel = axes[1] + k - before
    entry = formula.read(x, (axes[0], channel, *axes[2:]))
    inside = (channel >= 0, channel < x.shape[1])
    value = Choice(inside, entry * entry, Real(0.0))
    square = formula.stage(axes, value, reducer=Reducer.SUM, over=(k,))
    base = square[axes] * (site.real("alpha") / size) + site.real("bias", 1.0)
    return formula.output(axes, formula.read(x, axes) / power(base, site.real("beta")))


def _to_unit_length(site: Site) -> Carried:
    x, axis, p = site.needed(0), site.axis(default=-1), site.integer("p", 2)
    formula = Formula(site)
    axes = formula.axes(x.shape)
    (k,) = formula.axes((x.shape[axis],), first=x.rank)
    rest = axes[:axis] + axes[axis + 1 :]
    entry = formula.read(x, (*axes[:axis], k, *axes[axis + 1 :]))
    term = entry * entry if p == 2 else absolute(entry)
    total = formula.stage(rest, term, reducer=Reducer.SUM, over=(k,))
    length = root(total[rest]) if p == 2 else total[rest]
    zero = Choice((length <= 0.0,), Real(1.0), length)
    return formula.output(axes, formula.read(x, axes) / zero)


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "BatchNormalization": _batch,
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "LRN": _local_response,
    "LayerNormalization": _layer,
    "LpNormalization": _to_unit_length,
    "RMSNormalization": _rms,
}

"""Regions of images, brought to one size: RoiAlign.

Each entry of a region is the mean of samples, or the largest of what their neighbours contribute.
A sample lies between two rows and two columns; where it lies more than 1 outside, it counts as 0.
Rows and columns are found once for all channels:

    place[r, p, s]   along an axis, for sample s of entry p of region r
    low[r, p, s]     the entry before it
    near, far        the shares of that entry and of the next
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Cast,
    Choice,
    Comparison,
    Expression,
    Integer,
    Real,
    Reducer,
    Stage,
    largest,
    smallest,
)
from services.tuner.graph.building import Carried, Formula, Operand, Site


@dataclass(frozen=True, slots=True)
class Samples:
    """Counts the samples that regions have along an axis: one number for all, or a number for
    each."""

    most: int
    each: Operand | None = None

    def count(self, formula: Formula, region: Axis) -> Expression:
        return Integer(self.most) if self.each is None else formula.read(self.each, (region,))


@dataclass(frozen=True, slots=True)
class Lines:
    """Rows or columns between which samples lie."""

    low: Stage
    near: Stage
    far: Stage
    extent: int

    def pair(self, *at: Expression) -> tuple[tuple[Expression, Expression], ...]:
        """Both lines and their shares."""
        low = self.low[at]
        return (low, self.near[at]), (smallest(low + 1, self.extent - 1), self.far[at])


def _aligned(site: Site) -> Carried:
    x, rois, batches = (site.needed(n) for n in range(3))
    formula = Formula(site)
    axes = formula.axes(site.shape)
    region, channel, row, column = axes
    samples = [_samples(site, rois, axis) for axis in range(2)]
    inner = formula.axes((each.most for each in samples), first=4)
    vertical, horizontal = (
        _lines(site, formula, rois, axis, each) for axis, each in enumerate(samples)
    )
    batch = formula.read(batches, (region,))
    inside = largest(smallest(batch, x.shape[0] - 1), 0)
    terms = [
        share * other * formula.read(x, (inside, channel, line, place))
        for line, share in vertical.pair(region, row, inner[0])
        for place, other in horizontal.pair(region, column, inner[1])
    ]
    if site.text("mode", "avg") == "avg":
        total = formula.stage(axes, _folded(_add, terms), reducer=Reducer.SUM, over=inner)
        return formula.output(axes, total[axes] / _number(formula, samples, region))
    taken = _taken(formula, samples, region, inner)
    entry = _folded(largest, terms)
    value = Choice(taken, entry, Real(-inf)) if taken else entry
    most = formula.stage(axes, value, reducer=Reducer.MAX, over=inner)
    some = tuple(each.count(formula, region) > 0 for each in samples if each.each is not None)
    return formula.output(axes, Choice(some, most[axes], Real(0.0)) if some else most[axes])


def _samples(site: Site, rois: Operand, axis: int) -> Samples:
    """`axis` is 0 for rows, 1 for columns. Without a ratio it depends on the size of a region."""
    ratio = site.integer("sampling_ratio")
    if ratio > 0:
        return Samples(ratio)
    if rois.constant is None:
        raise site.refusal(
            "the number of its samples depends on the model's inputs",
            "export it with a sampling_ratio above 0",
        )
    corners = rois.constant.astype(np.float32) * np.float32(site.real("spatial_scale", 1.0))
    offset = np.float32(_offset(site))
    sizes = (corners[:, 3 - axis] - offset) - (corners[:, 1 - axis] - offset)
    if not offset:
        sizes = np.maximum(sizes, np.float32(1))
    counts = np.ceil(sizes / np.float32(site.shape[2 + axis])).clip(0).astype(np.int32)
    return Samples(max(1, int(counts.max(initial=0))), site.constant(counts))


def _offset(site: Site) -> float:
    """Before opset 16 a pixel's centre was its corner."""
    usual = "half_pixel" if site.step.version >= 16 else "output_half_pixel"
    return 0.5 if site.text("coordinate_transformation_mode", usual) == "half_pixel" else 0.0


def _lines(site: Site, formula: Formula, rois: Operand, axis: int, samples: Samples) -> Lines:
    extent, entries = site.needed(0).shape[2 + axis], site.shape[2 + axis]
    axes = formula.axes((rois.shape[0], entries, samples.most))
    region, entry, sample = axes
    scale, offset = site.real("spatial_scale", 1.0), _offset(site)
    start, end = (
        formula.read(rois, (region, Integer(corner))) * scale - offset
        for corner in (1 - axis, 3 - axis)
    )
    size = end - start if offset else largest(end - start, 1.0)
    count = samples.count(formula, region)
    step = size / float(entries)
    apart = (Cast(sample) + 0.5) * step / Cast(largest(count, 1))
    place = formula.stage(axes, start + Cast(entry) * step + apart)[axes]
    inner = largest(place, 0.0)
    low = formula.stage(axes, smallest(Cast(inner, DType.I32), extent - 1), DType.I32)
    counts: list[Comparison] = [place >= -1.0, place <= float(extent)]
    if samples.each is not None:
        counts.append(sample < count)
    rest = Choice((low[axes] < extent - 1,), inner - Cast(low[axes]), Real(0.0))
    far = formula.stage(axes, Choice(tuple(counts), rest, Real(0.0)))
    near = formula.stage(axes, Choice(tuple(counts), 1.0 - rest, Real(0.0)))
    return Lines(low, near, far, extent)


def _number(formula: Formula, samples: list[Samples], region: Axis) -> Expression:
    """Counts the samples of an entry; at least 1, as a region without any is 0."""
    rows, columns = (each.count(formula, region) for each in samples)
    return Cast(largest(rows * columns, 1))


def _taken(
    formula: Formula, samples: list[Samples], region: Axis, inner: tuple[Axis, ...]
) -> tuple[Comparison, ...]:
    return tuple(
        axis < each.count(formula, region)
        for axis, each in zip(inner, samples, strict=True)
        if each.each is not None
    )


def _add(left: Expression, right: Expression) -> Expression:
    return left + right


def _folded(
    combined: Callable[[Expression, Expression], Expression], terms: list[Expression]
) -> Expression:
    value = terms[0]
    for term in terms[1:]:
        value = combined(value, term)
    return value


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {"RoiAlign": _aligned}

"""Resizing: nearest entries are read where they stand; interpolation is a product with a matrix of
weights along each axis."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Choice,
    Expression,
    Integer,
    Real,
    Reducer,
    equal,
)
from services.tuner.graph.building import Carried, Formula, Operand, Site


def _resize(site: Site) -> Carried:
    x = site.needed(0)
    plan = _ResizePlan(site)
    if site.text("mode", "nearest") == "nearest":
        formula = Formula(site)
        axes = formula.axes(site.shape)
        places: list[Expression] = []
        for number, axis in enumerate(axes):
            index = plan.nearest(number)
            places.append(_regular_place(formula, site, axis, index))
        x = formula.output(axes, formula.read(x, places), x.dtype)
    else:
        for number in range(x.rank):
            if not plan.is_kept(number):
                x = _interpolated(site, x, number, plan.weights(number))
    return _extrapolated(site, x, [plan.inside(number) for number in range(x.rank)])


def _extrapolated(site: Site, x: Operand, inside: Sequence[NDArray[np.bool_]]) -> Operand:
    """One number stands where a crop reaches out of its image along any axis."""
    if all(np.all(each) for each in inside):
        return x
    formula = Formula(site)
    axes = formula.axes(x.shape)
    conditions = tuple(
        equal(formula.read(site.constant(each.astype(np.int32)), (axis,)), 1)
        for each, axis in zip(inside, axes, strict=True) if not np.all(each)
    )  # fmt: skip
    value = site.real("extrapolation_value")
    outside: Expression = Real(value) if x.dtype is DType.F32 else Integer(int(value))
    return formula.output(axes, Choice(conditions, formula.read(x, axes), outside), x.dtype)


def _regular_place(
    formula: Formula, site: Site, axis: Axis, index: NDArray[np.int64]
) -> Expression:
    """An index as a function of the place, or read from a table."""
    count = len(index)
    places = np.arange(count)
    if np.array_equal(index, places):
        return axis
    for times in range(2, count + 1):
        if np.array_equal(index, places // times):
            return axis // times
        if np.array_equal(index, places * times):
            return axis * times
    return formula.read(site.constant(index.astype(np.int32)), (axis,))


def _interpolated(site: Site, x: Operand, axis: int, weights: NDArray[np.float64]) -> Operand:
    matrix = site.constant(np.ascontiguousarray(weights.astype(np.float32)))
    formula = Formula(site)
    shape = (*x.shape[:axis], weights.shape[0], *x.shape[axis + 1 :])
    axes = formula.axes(shape)
    (k,) = formula.axes((x.shape[axis],), first=x.rank)
    entry = formula.read(x, (*axes[:axis], k, *axes[axis + 1 :]))
    value = entry * formula.read(matrix, (axes[axis], k))
    return formula.output(axes, value, reducer=Reducer.SUM, over=(k,))


class _ResizePlan:
    """Plans which entries, with which weights, make each entry along an axis.

    Scales and places are numbers of f32, as onnxruntime has them: which entry is the nearest, and
    which floor a place has, depends on how they are rounded.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        x = site.needed(0)
        self._coordinates = site.text("coordinate_transformation_mode", "half_pixel")
        self._shape = x.shape
        axes = site.integers("axes")
        self._axes = range(x.rank) if axes is None else [axis % x.rank for axis in axes]
        self._scales = self._told_scales()
        self._regions = self._told_regions()
        if site.integer("antialias") and site.text("mode", "nearest") == "nearest":
            raise site.refusal("it filters what is nearest", "export it with antialias=False")
        if x.dtype is not DType.F32 and site.text("mode", "nearest") != "nearest":
            raise site.refusal(
                "it interpolates integers, which runtimes round in different ways",
                "cast them to float before, and back after it",
            )

    def _told_scales(self) -> list[np.float32]:
        told = self._site.known(2, "scale")
        made, given = (np.array(shape, np.float32) for shape in (self._site.shape, self._shape))
        scales = list(made / given)
        sizes = self._site.known(3, "size")
        policy = self._site.text("keep_aspect_ratio_policy", "stretch")
        if told is not None and told.size:
            for number, axis in enumerate(self._axes):
                scales[axis] = np.float32(told[number])
        elif sizes is not None and policy != "stretch":
            ratios = [
                np.float32(sizes[n]) / np.float32(self._shape[axis])
                for n, axis in enumerate(self._axes)
            ]
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            for axis in self._axes:
                scales[axis] = ratio
        return scales

    def _told_regions(self) -> list[tuple[np.float32, np.float32]]:
        """The parts of axes that are cut out, all of them but with tf_crop_and_resize."""
        regions = [(np.float32(0), np.float32(1))] * len(self._shape)
        if self._coordinates != "tf_crop_and_resize":
            return regions
        told = self._site.known(1, "region")
        if told is None or told.size != 2 * len(self._axes):
            raise self._site.refusal("it crops, and no region says to what", "export it with one")
        for number, axis in enumerate(self._axes):
            regions[axis] = (
                np.float32(told[number]), np.float32(told[number + len(self._axes)])
            )  # fmt: skip
        return regions

    def is_kept(self, axis: int) -> bool:
        """Returns whether an axis stays as it is."""
        same = self._site.shape[axis] == self._shape[axis] and self._scales[axis] == 1
        start, end = self._regions[axis]
        return bool(same and start == 0 and end == 1)

    def _places(self, axis: int) -> NDArray[np.float64]:
        """Computes where each entry stands in the input."""
        made, scale = self._site.shape[axis], self._scales[axis]
        extent = np.float32(self._shape[axis])
        half, one = np.float32(0.5), np.float32(1)
        out, last = np.arange(made, dtype=np.float32), np.float32(made - 1)
        match self._coordinates:
            case "half_pixel" | "tf_half_pixel_for_nn":
                places = (out + half) / scale
                if self._coordinates == "half_pixel":
                    places -= half
            case "pytorch_half_pixel":
                places = (out + half) / scale - half if made > 1 else out
            case "half_pixel_symmetric":
                adjustment = np.float32(made) / (scale * extent)
                places = extent / 2 * (one - adjustment) + (out + half) / scale - half
            case "align_corners":
                places = out * (extent - one) / last if made > 1 else out
            case "asymmetric":
                places = out / scale
            case "tf_crop_and_resize":
                start, end = self._regions[axis]
                if made > 1:
                    places = start * (extent - one) + out * (end - start) * (extent - one) / last
                else:
                    places = np.array([half * (start + end) * (extent - one)])
            case unknown:
                raise self._site.refusal(
                    f"its coordinate_transformation_mode {unknown} is unknown",
                    "export it with half_pixel",
                )
        return places.astype(np.float64)

    def inside(self, axis: int) -> NDArray[np.bool_]:
        """Returns whether each entry stands within the input, as all do unless it is cropped."""
        if self._coordinates != "tf_crop_and_resize" or self.is_kept(axis):
            return np.ones(self._site.shape[axis], np.bool_)
        places = self._places(axis)
        return (places >= 0) & (places <= self._shape[axis] - 1)

    def nearest(self, axis: int) -> NDArray[np.int64]:
        extent, made = self._shape[axis], self._site.shape[axis]
        if self.is_kept(axis):
            return np.arange(made)
        places = self._places(axis)
        match self._site.text("nearest_mode", "round_prefer_floor"):
            case "round_prefer_floor":
                index = np.ceil(places - 0.5)
            case "round_prefer_ceil":
                index = np.floor(places + 0.5)
            case "floor":
                index = np.floor(places)
            case "ceil":
                index = np.ceil(places)
            case unknown:
                raise self._site.refusal(
                    f"its nearest_mode {unknown} is unknown", "export it with round_prefer_floor"
                )
        return np.clip(index, 0, extent - 1).astype(np.int64)

    def weights(self, axis: int) -> NDArray[np.float64]:
        """float64[entries made, entries given]."""
        extent, made = self._shape[axis], self._site.shape[axis]
        places = self._places(axis)
        first = np.floor(places).astype(np.int64)
        share = places - first
        cubic = self._site.text("mode") == "cubic"
        # A filter against aliasing is as much wider as the image becomes smaller.
        antialias = bool(self._site.integer("antialias"))
        narrowed = min(1.0, float(self._scales[axis])) if antialias else 1.0
        reach = int(np.ceil((2 if cubic else 1) / narrowed))
        a = self._site.real("cubic_coeff_a", -0.75)
        weights = np.zeros((made, extent))
        for tap in range(1 - reach, reach + 1):
            distance = np.abs(share - tap) * narrowed
            own = _cubic(distance, a) if cubic else np.maximum(0, 1 - distance)
            index = first + tap
            if self._excludes_outside:
                own = np.where((index < 0) | (index >= extent), 0.0, own)
            np.add.at(weights, (np.arange(made), np.clip(index, 0, extent - 1)), own)
        if self._excludes_outside or antialias:
            total = weights.sum(axis=1, keepdims=True)
            weights /= np.where(total == 0, 1.0, total)
        return weights

    @property
    def _excludes_outside(self) -> bool:
        return bool(self._site.integer("exclude_outside"))


def _cubic(distance: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {"Resize": _resize}

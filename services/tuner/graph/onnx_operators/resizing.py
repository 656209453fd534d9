"""Resizing: nearest entries are read where they stand; interpolation is a product with a matrix of
weights along each axis."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.expressions import Axis, Expression, Reducer
from services.tuner.graph.building import Carried, Formula, Operand, Site


def _resize(site: Site) -> Carried:
    x = site.needed(0)
    plan = _ResizePlan(site)
    if site.text("mode", "nearest") == "nearest":
        formula = Formula(site)
        axes = formula.axes(site.shape)
        places: list[Expression] = []
        for number, (axis, extent) in enumerate(zip(axes, x.shape, strict=True)):
            index = plan.nearest(number)
            places.append(_regular_place(formula, site, axis, index, extent))
        return formula.output(axes, formula.read(x, places), x.dtype)
    for number in range(x.rank):
        if site.shape[number] != x.shape[number] or plan.scales[number] != 1.0:
            x = _interpolated(site, x, number, plan.weights(number))
    return x


def _regular_place(
    formula: Formula,
    site: Site,
    axis: Axis,
    index: NDArray[np.int64],
    extent: int,
) -> Expression:
    """An index as a function of the place, or read from a table."""
    count = len(index)
    places = np.arange(count)
    if np.array_equal(index, places):
        return axis
    for times in range(2, count + 1):
        if np.array_equal(index, np.minimum(places // times, extent - 1)):
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
    """Which entries, with which weights, make each entry along an axis."""

    def __init__(self, site: Site) -> None:
        self._site = site
        x = site.needed(0)
        if (
            site.integer("antialias")
            or site.text("coordinate_transformation_mode") == "tf_crop_and_resize"
        ):
            raise site.refusal(
                "it filters or crops while it resizes", "export it with antialias=False"
            )
        self._shape = x.shape
        self.scales = self._told_scales(x.rank)

    def _told_scales(self, rank: int) -> list[float]:
        axes = self._site.integers("axes")
        chosen = range(rank) if axes is None else [axis % rank for axis in axes]
        told = self._site.known(2, "scale")
        scales = [made / extent for made, extent in zip(self._site.shape, self._shape, strict=True)]
        sizes = self._site.known(3, "size")
        if told is not None and told.size:
            for number, axis in enumerate(chosen):
                scales[axis] = float(told[number])
        elif (
            sizes is not None
            and self._site.text("keep_aspect_ratio_policy", "stretch") != "stretch"
        ):
            ratios = [float(sizes[n]) / self._shape[axis] for n, axis in enumerate(chosen)]
            policy = self._site.text("keep_aspect_ratio_policy")
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            for axis in chosen:
                scales[axis] = ratio
        return scales

    def _places(self, axis: int) -> NDArray[np.float64]:
        """Where each entry stands in the input."""
        extent, made, scale = self._shape[axis], self._site.shape[axis], self.scales[axis]
        out = np.arange(made, dtype=np.float64)
        whole = scale * extent
        match self._site.text("coordinate_transformation_mode", "half_pixel"):
            case "half_pixel":
                return (out + 0.5) / scale - 0.5
            case "pytorch_half_pixel":
                return (out + 0.5) / scale - 0.5 if whole > 1 else np.zeros(made)
            case "half_pixel_symmetric":
                centre = extent / 2 * (1 - made / whole)
                return centre + (out + 0.5) / scale - 0.5
            case "align_corners":
                return out * (extent - 1) / (whole - 1) if whole > 1 else np.zeros(made)
            case "asymmetric":
                return out / scale
        raise self._site.refusal("its mode is unknown", "export it with half_pixel")

    def nearest(self, axis: int) -> NDArray[np.int64]:
        extent, made = self._shape[axis], self._site.shape[axis]
        if self.scales[axis] == 1.0 and extent == made:
            return np.arange(made)
        places = self._places(axis)
        match self._site.text("nearest_mode", "round_prefer_floor"):
            case "round_prefer_floor":
                index = np.ceil(places - 0.5)
            case "round_prefer_ceil":
                index = np.floor(places + 0.5)
            case "floor":
                index = np.floor(places)
            case _:
                index = np.ceil(places)
        return np.clip(index, 0, extent - 1).astype(np.int64)

    def weights(self, axis: int) -> NDArray[np.float64]:
        """float64[entries made, entries given]."""
        extent, made = self._shape[axis], self._site.shape[axis]
        cubic = self._site.text("mode") == "cubic"
        places = self._places(axis)
        first = np.floor(places).astype(np.int64)
        share = places - first
        a = self._site.real("cubic_coeff_a", -0.75)
        taps = range(-1, 3) if cubic else range(2)
        weights = np.zeros((made, extent))
        for tap in taps:
            own = (
                _cubic(np.abs(share - tap), a) if cubic else np.maximum(0, 1 - np.abs(share - tap))
            )
            index = first + tap
            if self._site.integer("exclude_outside"):
                own = np.where((index < 0) | (index >= extent), 0.0, own)
            np.add.at(weights, (np.arange(made), np.clip(index, 0, extent - 1)), own)
        if self._site.integer("exclude_outside"):
            weights /= weights.sum(axis=1, keepdims=True)
        return weights


def _cubic(distance: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {"Resize": _resize}

"""Implicit GEMM: a convolution as the product of two matrices, the first of which is gathered.

    a[(image, y, x), (r, q, channel)] =
        images[image, y·stride + r·dilation - before, x·stride + q·dilation - before, channel]
    b[(r, q, channel), o]  = the weights, as they lie
    c[(image, y, x), o]    = the output, as it lies

Row (image, y, x) of a is the window of that pixel of the output; its columns are the taps (r, q) of
the window with their channels. What a thread reads of a row are neighbouring channels of one pixel
of the images, or zeros outside of them. Any number of axes does: which of them are pixels and which
taps, the program's reduction says, and its first stage what lies outside.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from kernelzoo.domain.operators.expressions import (
    Choice,
    CompareOp,
    Comparison,
    Expression,
    Read,
    Real,
    number,
)
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import UnsupportedProgram
from services.tuner import ir
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.fused import Fused, fused, substituted
from services.tuner.schedules.base.iteration import (
    Contraction,
    IterationSpace,
    contraction,
    implicit_gemm,
    iteration_space,
    reads_of,
)
from services.tuner.schedules.base.places import affine, row_major

PIXELS, TAPS = ("t", "z", "b", "y", "x"), ("p", "s", "r", "q")
"""Kernels call axes so, by the last of these where there are fewer."""

Dims = tuple[tuple[ir.Affine, int], ...]
"""A place in the images: the index along each axis, and how long that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """`images` is the input that windows move over. `dims` are indices by the names of axes, of the
    product's m and k."""

    product: Contraction
    images: str
    dims: Dims

    @property
    def channels(self) -> int:
        return self.dims[-1][1]


@lru_cache(maxsize=1024)
def gathered(space: IterationSpace) -> Gathered | None:
    """None for a program that is no product of windows of an image and a matrix of weights."""
    product, whole = implicit_gemm(space), fused(space.program)
    if product is None or whole is None:
        return None
    read = next(r for r in reads_of(whole.reduction.value) if r.tensor == product.a.tensor)
    found = images_of(whole, read, 0.0)
    if found is None or len(product.m) > len(PIXELS) or len(product.k) > len(TAPS) + 1:
        return None
    images, dims = found[0], tuple((_moving(index, product), size) for index, size in found[1])
    channels = (ir.variable(product.k[-1]), product.nest.size(product.k[-1:]))
    return Gathered(product=product, images=images, dims=dims) if dims[-1] == channels else None


def _moving(index: ir.Affine, product: Contraction) -> ir.Affine:
    """Without axes of one entry, as windows of one pixel have."""
    terms = tuple(term for term in index.terms if term[0] in (*product.m, *product.k))
    return ir.Affine(constant=index.constant, terms=terms)


def images_of(whole: Fused, read: Read, outside: float) -> tuple[str, Dims] | None:
    """The input that a reduction reads, at once or through a stage that has `outside` around it."""
    inputs = {each.name: each.shape for each in whole.inputs}
    if read.tensor in inputs:
        return _place(read, inputs[read.tensor]) if not whole.before else None
    if len(whole.before) != 1:
        return None
    (stage,) = whole.before
    match stage.value:
        case Choice(conditions, Read(tensor) as inner, Real(value)) if (
            tensor in inputs and value == outside
        ):
            sizes = {axis.name: (0, number(axis.extent) - 1) for axis in stage.axes}
            own = _place(inner, inputs[tensor])
            if own is None or not _are_bounds(conditions, own[1], sizes):
                return None
            names = (axis.name for axis in stage.axes)
            moved = substituted(inner, dict(zip(names, read.at, strict=True)))
            return _place(Read(tensor, tuple(_operands(moved))), inputs[tensor])
    return None


def _operands(read: Expression) -> tuple[Expression, ...]:
    return read.at if isinstance(read, Read) else ()


def _place(read: Read, shape: tuple[int, ...]) -> tuple[str, Dims] | None:
    indices = [affine(place) for place in read.at]
    if any(index is None for index in indices):
        return None
    found = tuple((index, size) for index, size in zip(indices, shape, strict=True) if index)
    return read.tensor, found


def _are_bounds(
    conditions: tuple[Comparison, ...], dims: Dims, ranges: Mapping[str, tuple[int, int]]
) -> bool:
    """True if conditions say that a place is in the images, and nothing else."""
    said = set()
    for each in conditions:
        left, right = affine(each.left), affine(each.right)
        if left is None or right is None or each.op not in (CompareOp.LT, CompareOp.LE):
            return False
        limit = 0 if each.op is CompareOp.LT else 1
        said.add(_alone((left - right).below(limit)))
    inside = {_alone(bound) for index, size in dims for bound in _bounds_of(index, size)}
    left_out = ir.Frame(ranges=dict(ranges)).undecided(inside - said)
    return said <= inside and not left_out


def _bounds_of(index: ir.Affine, size: int) -> tuple[ir.Bound, ir.Bound]:
    return index.below(size), index.at_least(0)


def _alone(bound: ir.Bound) -> ir.Bound:
    """Moves the constant of the index into the limit."""
    index = ir.Affine(constant=0, terms=bound.index.terms)
    return index.below(bound.limit - bound.index.constant)


@lru_cache(maxsize=1024)
def product_extents(workload: Workload) -> Extents:
    """The extents of the product. Raises UnsupportedProgram for an operator that is none."""
    found = gathered(iteration_space(workload))
    if found is None:
        return Extents.of(workload)
    size, product = found.product.nest.size, found.product
    return Extents(
        batch=0,
        m=size(product.m),
        k=size(product.k),
        n=size(product.n),
        b_dtype=product.b.dtype,
        epilogue=product.epilogue,
    )


def operand_names(workload: Workload) -> tuple[str, str]:
    """The tensors of the workload that a and b are read from."""
    space = iteration_space(workload)
    product = contraction(space)
    if product is not None:
        return product.a.tensor, product.b.tensor
    found = gathered(space)
    if found is None:
        raise UnsupportedProgram(f"{workload.key} is no product of two tensors")
    return found.images, found.product.b.tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageWindow:
    """Windows over images that lie as `dims` says. `pixels` and `taps` are axes with their lengths
    and what kernels call them; the last axis of the images are `channels`.

    Columns of a are read from multiples of `step` on.
    """

    dims: Dims
    pixels: tuple[tuple[str, str, int], ...]
    taps: tuple[tuple[str, str, int], ...]
    channels: int
    step: int

    def pixel(self, frame: ir.Frame, name: str, place: ir.Affine) -> tuple[ir.Affine, ...]:
        """Row number `place` of a as a pixel of the output."""
        parts = [(f"{name}.{called}", size) for _, called, size in self.pixels]
        return tuple(frame.delinearize(place, parts))

    @property
    def unit(self) -> int:
        """Channels of a pixel that one tap covers: those of a whole step, or four, or one."""
        return next(size for size in (self.step, ir.LANES, 1) if self.channels % size == 0)

    def tap(
        self, frame: ir.Frame, name: str, start: ir.Affine, k: ir.Affine
    ) -> tuple[ir.Affine, ...]:
        """Column `start + k` of a as a place in the window, and channel. Columns behind the last
        wrap around to the first."""
        unit = self.unit
        parts = (
            *((f"{name}.{called}", size) for _, called, size in self.taps),
            (f"{name}.c", self.channels // unit),
        )
        if unit == self.step:
            *place, channel = frame.delinearize(start.divided(unit), parts)
            return (*place, channel * unit + k)
        *place, channel = frame.delinearize((start + k).divided(unit), parts)
        return (*place, channel * unit)

    def element(self, pixel: tuple[ir.Affine, ...], tap: tuple[ir.Affine, ...]) -> ir.Affine:
        """The index of a pixel's tap in the images."""
        places, sizes = zip(*self._places(pixel, tap), strict=True)
        return row_major((*places, tap[-1]), (*sizes, self.channels))

    def bounds(
        self, pixel: tuple[ir.Affine, ...], tap: tuple[ir.Affine, ...]
    ) -> tuple[ir.Bound, ...]:
        """Returns the bounds that hold where the tap is inside of the image."""
        return tuple(
            bound for place, size in self._places(pixel, tap) for bound in _bounds_of(place, size)
        )

    def _places(
        self, pixel: tuple[ir.Affine, ...], tap: tuple[ir.Affine, ...]
    ) -> list[tuple[ir.Affine, int]]:
        """The index along each axis of the images besides the channels."""
        names = (name for name, _, _ in (*self.pixels, *self.taps))
        values = dict(zip(names, (*pixel, *tap[:-1]), strict=True))
        found = []
        for index, size in self.dims[:-1]:
            place = ir.constant(index.constant)
            for name, factor in index.terms:
                place = place + values[name] * factor
            found.append((place, size))
        return found


@lru_cache(maxsize=1024)
def window_of(workload: Workload, step: int) -> ImageWindow | None:
    """None where a lies in memory as a matrix."""
    found = gathered(iteration_space(workload))
    if found is None:
        return None
    size, product = found.product.nest.size, found.product
    *taps, _ = product.k
    return ImageWindow(
        dims=found.dims,
        pixels=tuple(
            (axis, called, size((axis,)))
            for axis, called in zip(product.m, PIXELS[-len(product.m) :], strict=True)
        ),
        taps=tuple(
            (axis, called, size((axis,)))
            for axis, called in zip(taps, TAPS[len(TAPS) - len(taps) :], strict=True)
        ),
        channels=found.channels,
        step=step,
    )

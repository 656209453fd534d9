"""Implicit GEMM: a convolution as the product of two matrices, the first of which is gathered.

    a[(image, y, x), (r, q, channel)] =
        images[image, y·stride + r - padding, x·stride + q - padding, channel]
    b[(r, q, channel), o]  = the weights, as they lie
    c[(image, y, x), o]    = the output, as it lies

Row (image, y, x) of a is the window of that pixel of the output; its columns are the taps (r, q) of
the window with their channels. What a thread reads of a row are neighbouring channels of one pixel
of the images, or zeros outside of them.
"""

from dataclasses import dataclass
from functools import lru_cache

from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame
from services.tuner.ir.nodes import LANES, Bound
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.iteration import implicit_gemm, iteration_space


@lru_cache(maxsize=1024)
def product_extents(workload: Workload) -> Extents:
    """The extents of the product. Raises UnsupportedProgram for an operator that is none."""
    product = implicit_gemm(iteration_space(workload))
    if product is None:
        return Extents.of(workload)
    size = product.nest.size
    return Extents(
        batch=0,
        m=size(product.m),
        k=size(product.k),
        n=size(product.n),
        b_dtype=product.b.dtype,
        epilogue=product.epilogue,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Windows of `kh` × `kw` over images[`batch`, `height`, `width`, `channels`], with a `stride`
    and `padding`; the output has `out_height` × `out_width` of them.

    Columns of a are read from multiples of `step` on.
    """

    batch: int
    height: int
    width: int
    channels: int
    kh: int
    kw: int
    stride: int
    padding: int
    out_height: int
    out_width: int
    step: int

    def pixel(self, frame: Frame, name: str, place: Affine) -> tuple[Affine, ...]:
        """Row number `place` of a as a pixel of the output: image, row and column."""
        parts = (
            (f"{name}.b", self.batch),
            (f"{name}.y", self.out_height),
            (f"{name}.x", self.out_width),
        )
        return tuple(frame.delinearize(place, parts))

    @property
    def unit(self) -> int:
        """Channels of a pixel that one tap covers: those of a whole step, or four, or one."""
        return next(size for size in (self.step, LANES, 1) if self.channels % size == 0)

    def tap(self, frame: Frame, name: str, start: Affine, k: Affine) -> tuple[Affine, ...]:
        """Column `start + k` of a as row and column of the window, and channel. Columns behind the
        last wrap around to the first."""
        unit = self.unit
        parts = (
            (f"{name}.r", self.kh),
            (f"{name}.q", self.kw),
            (f"{name}.c", self.channels // unit),
        )
        if unit == self.step:
            *place, channel = frame.delinearize(start.divided(unit), parts)
            return (*place, channel.times(unit).plus(k))
        *place, channel = frame.delinearize(start.plus(k).divided(unit), parts)
        return (*place, channel.times(unit))

    def element(self, pixel: tuple[Affine, ...], tap: tuple[Affine, ...]) -> Affine:
        """The index of a pixel's tap in the images."""
        row, column = self._place(pixel, tap)
        line = pixel[0].times(self.height).plus(row)
        return line.times(self.width).plus(column).times(self.channels).plus(tap[-1])

    def bounds(self, pixel: tuple[Affine, ...], tap: tuple[Affine, ...]) -> tuple[Bound, ...]:
        """What holds where the tap is inside of the image."""
        row, column = self._place(pixel, tap)
        found = []
        for place, size in ((row, self.height), (column, self.width)):
            found.append(Bound(index=place, limit=size))
            if self.padding:
                found.append(Bound(index=place.times(-1), limit=1))
        return tuple(found)

    def _place(self, pixel: tuple[Affine, ...], tap: tuple[Affine, ...]) -> tuple[Affine, Affine]:
        _, y, x = pixel
        before = Affine(constant=-self.padding)
        row = y.times(self.stride).plus(tap[0]).plus(before)
        return row, x.times(self.stride).plus(tap[1]).plus(before)


@lru_cache(maxsize=1024)
def window_of(workload: Workload, step: int) -> Window | None:
    """None where a lies in memory as a matrix."""
    if implicit_gemm(iteration_space(workload)) is None:
        return None
    e = workload.extent
    return Window(
        batch=e["b"],
        height=e["h"],
        width=e["w"],
        channels=e["c"],
        kh=e["kh"],
        kw=e["kw"],
        stride=e["stride"],
        padding=e["pad"],
        out_height=e["y"],
        out_width=e["x"],
        step=step,
    )

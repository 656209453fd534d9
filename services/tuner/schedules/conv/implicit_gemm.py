"""A convolution as the product of two matrices, the first of which is never written down.

Row (b, y, x) of a is the window of that pixel of the output, its columns are (r, q, c): what a
thread reads of a row are neighbouring channels of one pixel of the image, or zeros outside of it.
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
    """Those of the product. Raises UnsupportedProgram for an operator that is none."""
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
        epilogue=workload.epilogue,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Windows of `rows` x `columns` over images[`batch`, `height`, `width`, `channels`], with a
    `stride` and `padding`: so many to a column (`high`) and to a row (`wide`) of an image.

    Columns of a are read from multiples of `step` on.
    """

    batch: int
    height: int
    width: int
    channels: int
    rows: int
    columns: int
    stride: int
    padding: int
    high: int
    wide: int
    step: int

    @property
    def elements(self) -> int:
        """Of all images."""
        return self.batch * self.height * self.width * self.channels

    def pixel(self, frame: Frame, name: str, place: Affine) -> tuple[Affine, ...]:
        """Image, row and column of the output, of a row of a."""
        parts = ((f"{name}.b", self.batch), (f"{name}.y", self.high), (f"{name}.x", self.wide))
        return tuple(frame.delinearize(place, parts))

    @property
    def unit(self) -> int:
        """Channels of a pixel that are read together: those of a step, or neighbours, or each."""
        return next(size for size in (self.step, LANES, 1) if self.channels % size == 0)

    def tap(self, frame: Frame, name: str, start: Affine, k: Affine) -> tuple[Affine, ...]:
        """Row and column of the window, and channel, of column `start + k` of a. Columns behind the
        last are some of the first."""
        unit = self.unit
        parts = (
            (f"{name}.r", self.rows),
            (f"{name}.q", self.columns),
            (f"{name}.c", self.channels // unit),
        )
        if unit == self.step:
            *place, channel = frame.delinearize(start.divided(unit), parts)
            return (*place, channel.times(unit).plus(k))
        *place, channel = frame.delinearize(start.plus(k).divided(unit), parts)
        return (*place, channel.times(unit))

    def element(self, pixel: tuple[Affine, ...], tap: tuple[Affine, ...]) -> Affine:
        """Of the images."""
        row, column = self._place(pixel, tap)
        line = pixel[0].times(self.height).plus(row)
        return line.times(self.width).plus(column).times(self.channels).plus(tap[-1])

    def bounds(self, pixel: tuple[Affine, ...], tap: tuple[Affine, ...]) -> tuple[Bound, ...]:
        """What holds inside of the image, and elsewhere does not."""
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
    """None where rows of a lie in memory as they are."""
    if implicit_gemm(iteration_space(workload)) is None:
        return None
    e = workload.extent
    return Window(
        batch=e["b"],
        height=e["h"],
        width=e["w"],
        channels=e["c"],
        rows=e["kh"],
        columns=e["kw"],
        stride=e["stride"],
        padding=e["pad"],
        high=e["y"],
        wide=e["x"],
        step=step,
    )

"""Which pieces of a and b threads read: four neighbours in memory at a time.

Rows and columns outside of a matrix do not exist, and what is computed of them is never stored, so
a piece there is read from the edge instead.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame
from services.tuner.ir.kinds import LANES
from services.tuner.ir.nodes import Buffer, Load
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.conv.implicit_gemm import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A matrix of `extent` rows or columns and k, for each of the batch.

    `k_outer`: it lies as [k, extent], else as [extent, k]. Where there is a `window`, rows are
    gathered from images.
    """

    buffer: Buffer
    extent: int
    k: int
    k_outer: bool
    batch: Affine
    window: Window | None = None

    @property
    def inner(self) -> int:
        """Length of the axis along which neighbours lie."""
        if self.window is not None:
            return self.window.channels
        return self.extent if self.k_outer else self.k

    @property
    def wide(self) -> bool:
        """Every piece is one vector."""
        return self.inner % LANES == 0

    def at(self, place: Affine, k: Affine) -> Load:
        within = k.times(self.extent).plus(place) if self.k_outer else place.times(self.k).plus(k)
        start = self.batch.times(self.extent * self.k)
        return Load(buffer=self.buffer, index=start.plus(within))


def operands_of(
    parameters: tuple[Buffer, ...], extents: Extents, batch: Affine, window: Window | None
) -> tuple[Operand, Operand]:
    a, b, *_ = parameters
    return (
        Operand(
            buffer=a,
            extent=extents.m,
            k=extents.k,
            k_outer=extents.a_turned,
            batch=batch,
            window=window,
        ),
        Operand(buffer=b, extent=extents.n, k=extents.k, k_outer=not extents.b_turned, batch=batch),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Four neighbours of an operand: `places` are rows or columns, one for all four or one each;
    `k` is from the start of a block. They are kept from element `slot` of a local buffer on. Where
    the operand has a window, the one place is a pixel, by image, row and column."""

    operand: Operand
    places: tuple[Affine, ...]
    k: Affine
    slot: int


def piece(frame: Frame, name: str, operand: Operand, place: Affine, k: Affine, slot: int) -> Piece:
    """The piece at a row or column, which the frame names where it has to be moved inside."""
    places: tuple[Affine, ...]
    if operand.window is not None:
        inside = frame.clamped(name, place, operand.extent, 1)
        places = operand.window.pixel(frame, name, inside)
    elif not operand.k_outer:
        places = (frame.clamped(name, place, operand.extent, 1),)
    elif operand.wide:
        places = (frame.clamped(name, place, operand.extent, LANES),)
    else:
        each = (replace(place, constant=place.constant + lane) for lane in range(LANES))
        places = tuple(
            frame.clamped(f"{name}.{lane}", one, operand.extent, 1) for lane, one in enumerate(each)
        )
    return Piece(operand=operand, places=places, k=k, slot=slot)

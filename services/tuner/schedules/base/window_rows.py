"""Rows of the output of convolutions that read the image where it lies, in tiles of pixels.

Tiles at both ends of a row, whose windows reach beyond the image, have bodies of their own; those
between them share one in a loop. The first and last rows are split off by
`passes/loop_partition.py`. Nothing is copied.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from kernelzoo.domain.workload import Workload
from services.tuner import ir

Tile = Callable[[range, ir.Affine], ir.Block]
"""The body of a tile: columns of the output, moved by so many in a loop."""
Products = Callable[[ir.Affine, ir.Affine], ir.Block]
"""Makes the products of one row of the windows: the row of the image, and which row of the window
it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRow:
    """A row of the output, of `image` and at `y`, and the windows of its pixels."""

    frame: ir.Frame
    extent: Mapping[str, int]
    tile_x: int
    image: ir.Affine
    y: ir.Affine

    @classmethod
    def of(cls, workload: Workload, tile_x: int) -> Self:
        e, frame = workload.extent, ir.Frame()
        row = frame.variable("row", e["b"] * e["y"])
        image, y = frame.delinearize(row, (("image", e["b"]), ("y", e["y"])))
        return cls(frame=frame, extent=e, tile_x=tile_x, image=image, y=y)

    def column(self, x: int) -> int:
        """The first column of the image that the window of a pixel of the output covers."""
        return x * self.extent["stride"] - self.extent["pad"]

    def program(self, parameters: tuple[ir.Buffer, ...], tile: Tile) -> ir.Program:
        """The loop over all rows of all images."""
        body = self.frame.enclose(tuple(self._tiles(tile)))
        rows = self.extent["b"] * self.extent["y"]
        return ir.program(parameters, "row", rows, body)

    def window(self, products: Products) -> ir.Block:
        """The loop over the rows of the windows that the image has."""
        e = self.extent
        r = self.frame.variable("r", e["kh"])
        line = self.y * e["stride"] + r - e["pad"]
        inside = (line.below(e["h"]), line.at_least(0))
        body = ir.under(self.frame.undecided(inside), products(line, r))
        return ir.serial("r", e["kh"], body)

    def _tiles(self, tile: Tile) -> Iterable[ir.Statement]:
        step, width = self.tile_x, self.extent["x"]
        firsts = range(0, width, step)
        whole = [first for first in firsts if self._is_whole(first)]
        for first in firsts:
            if first not in whole:
                yield from tile(range(first, min(first + step, width)), ir.ZERO)
            elif first == whole[0]:
                move = self.frame.variable("x1", len(whole)) * step
                yield from ir.serial("x1", len(whole), tile(range(first, first + step), move))

    def _is_whole(self, first: int) -> bool:
        """Returns whether all that a tile's windows cover lies in the image."""
        last = first + self.tile_x - 1
        end = self.column(last) + self.extent["kw"]
        return last < self.extent["x"] and self.column(first) >= 0 and end <= self.extent["w"]

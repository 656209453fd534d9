"""Rows of a block in register tiles of nearly equal height."""

from collections.abc import Iterator
from dataclasses import dataclass

from services.tuner import ir


@dataclass(frozen=True, slots=True)
class RowTiles:
    """`count` tiles of `rows` rows each, after `before` tiles and rows up to `first`."""

    before: int
    first: int
    count: int
    rows: int

    def read_ahead(self, frame: ir.Frame, bodies: int, step: int, size: int) -> ir.Affine:
        """The word of a panel of `size` words that body k1 of tile m1 reads ahead: each of its
        `bodies` is `step` words from the one before, and tiles together go through the panel."""
        place = (frame.variable("m1", self.count) + self.before) * bodies
        part = frame.least(f"part{self.rows}", place, size // step - bodies)
        return (part + ir.variable("k1")) * step


def row_tiles(m: int, tile_m: int) -> Iterator[RowTiles]:
    """All rows in as few tiles as there may be, each of as many rows as another or one less."""
    count = -(-m // tile_m)
    rows = -(-m // count)
    less = count * rows - m
    yield RowTiles(0, 0, count - less, rows)
    if less:
        yield RowTiles(count - less, (count - less) * rows, less, rows - 1)

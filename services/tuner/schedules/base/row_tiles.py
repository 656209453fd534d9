"""Rows of a block in register tiles of nearly equal height."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowTiles:
    """`count` tiles of `rows` rows each, after `before` tiles and rows up to `first`."""

    before: int
    first: int
    count: int
    rows: int


def row_tiles(m: int, tile_m: int) -> Iterator[RowTiles]:
    """All rows in as few tiles as there may be, each of as many rows as another or one less."""
    count = -(-m // tile_m)
    rows = -(-m // count)
    less = count * rows - m
    yield RowTiles(0, 0, count - less, rows)
    if less:
        yield RowTiles(count - less, (count - less) * rows, less, rows - 1)

"""Which part of a contraction a workgroup and a thread have."""

from dataclasses import dataclass

from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame
from services.tuner.ir.kinds import LANES
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.matmul.webgpu_config import Cache, TilesConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Batch, first row and column of the workgroup, its part of k, and which tile is the thread's,
    and which of the threads that share one it is, its `layer`.

    A thread's rows are four neighbours each time where they are `grouped`, else lie apart, so that
    threads side by side read rows side by side. Its columns are four neighbours each time. Threads
    side by side are of one layer, or where `layered` of one tile.
    """

    batch: Affine
    row: Affine
    column: Affine
    part: Affine
    thread: Affine
    layer: Affine
    tile_row: Affine
    tile_column: Affine
    grouped: bool
    layered: bool
    rows: int
    columns: int

    def own_row(self, number: int) -> Affine:
        """Inside the block, of row `number` of the thread's tile."""
        if not self.grouped:
            return self.tile_row.plus(Affine(constant=number * self.rows))
        group, lane = divmod(number, LANES)
        first = self.tile_row.plus(Affine(constant=group * self.rows))
        return first.times(LANES).plus(Affine(constant=lane))

    def own_column(self, number: int) -> Affine:
        """Inside the block, of column `number` of the thread's tile."""
        group, lane = divmod(number, LANES)
        first = self.tile_column.plus(Affine(constant=group * self.columns))
        return first.times(LANES).plus(Affine(constant=lane))

    def among(self, layer: Affine, layers: int) -> Affine:
        """The thread's number, were it one of that layer, and were there so many."""
        tile = self.tile_row.times(self.columns).plus(self.tile_column)
        if self.layered:
            return tile.times(layers).plus(layer)
        return layer.times(self.rows * self.columns).plus(tile)


def place_of(frame: Frame, extents: Extents, config: TilesConfig) -> Place:
    batches, rows, columns = config.blocks(extents)
    parts = (
        ("batch", batches),
        ("part", config.split_k),
        ("panel", rows // config.group_m),
        ("column", columns),
        ("row", config.group_m),
    )
    group = frame.variable("group", config.workgroups(extents))
    batch, part, panel, column, row = frame.digits(group, parts)
    thread = frame.variable("thread", config.threads)
    layered = extents.b_turned and config.cache is Cache.NONE
    layer, tile_row, tile_column = _own(frame, config, thread, layered=layered)
    grouped = extents.a_turned if config.cache is Cache.NONE else config.cache is Cache.TURNED
    return Place(
        batch=batch,
        row=panel.times(config.group_m).plus(row).times(config.block_m),
        column=column.times(config.block_n),
        part=part,
        thread=thread,
        layer=layer,
        tile_row=tile_row,
        tile_column=tile_column,
        grouped=grouped,
        layered=layered,
        rows=config.rows,
        columns=config.columns,
    )


def _own(frame: Frame, config: TilesConfig, thread: Affine, *, layered: bool) -> list[Affine]:
    """Threads side by side read neighbours of b: columns, or k where b is stored turned and read
    from where it lies."""
    layers, tiles = ("z", config.depth), (("y", config.rows), ("x", config.columns))
    if layered:
        *own, layer = frame.digits(thread, (*tiles, layers))
        return [layer, *own]
    return frame.digits(thread, (layers, *tiles))

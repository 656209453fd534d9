"""A product of few rows for wasm, which reads its weights ahead.

Shapes, named by the settings of `WasmPrefetchingMatmulConfig`:

    range         block_n columns
    b             [n / tile_n][k][tile_n]                  panels, packed before
    tile          c[tile_m, tile_n], sums in registers; the last tiles may have a row less each, so
                  that none has only a few: 128 rows are 18 tiles of 6 and 4 of 5
    loop body     unroll_k of k, and a word of the next panel

What it makes of matmul+bias:f32:m16k8n32:constant=b with tiles of 6x8, block_n=16 and unroll_k=1:

    for block < 2 range:
      for panel < 2:
        next = min(2·block + panel + 1, 3)                   1. the panel that is read ahead
        for m1 < 1:                                          2. tiles of 6 rows, then of 5
          part = min(8·m1, 13)                               3. a part of it for each tile
          sums[48] = 0
          for k1 < 8:
            ahead = b[next, 3·part + 3·k1]                   4. nobody uses it
            sums[8·m0 + n0] += a[…] · b[…]                   m0 < 6 unrolled, n0 < 8 vector
          c[…] = sums[…] + bias[…]                           5. stored once
        for m1 < 2: …

Where rows may be spare, of 16 those of a part each, tiles follow what is there:

        for m1 < 2, while 6·m1 + spare < 16:
          if 6·m1 + 4 + spare < 16: c[6, 8]                  a whole tile; one row may be spare
          else: c[4, 8]                                      up to 4 rows that are left
        if 12 + spare < 16: c[4, 8]                          rows behind the last whole tile

A single row, as a step of a decoder has, is a tile over several panels, of which each brings two
sums that do not wait for one another:

    if 1 + spare < 16: …
    else: for group < 1: c[1, 16]                            two panels, those of the block

Weights of a network are in no cache when the turn of their layer comes. The processor foresees what
is read in order, but only as fast as it is read: while the first rows pass by a new panel it waits
for memory. WebAssembly has no instruction that prefetches. A load whose value is dropped does, as
engines keep it because it might trap. With 128 rows, products of MiniLM went from 91 to 98 % of the
register-only limit in their network.
"""

from dataclasses import replace

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.finish import stored_product
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.row_tiles import RowTiles, row_tiles
from services.tuner.schedules.base.scheduled import ScheduledProgram, panels_layout
from services.tuner.schedules.base.spare import READ, with_spare
from services.tuner.schedules.base.tile_sums import TileSums
from services.tuner.schedules.prefetching_matmul.config import WasmPrefetchingMatmulConfig

FEWEST_ROWS = 4
"""A tile of fewer rows and 8 columns takes as long: its sums wait for one another."""

MOST_PANELS = 6
"""Sums of so many panels of 8 columns are twelve vectors."""


def lower(candidate: Candidate) -> ScheduledProgram:
    workload = candidate.workload
    config = WasmPrefetchingMatmulConfig.of(replace(candidate, workload=workload.whole))
    parts = workload.spare_parts
    if parts and (workload.spare_blocks > 1 or Extents.of(workload.whole).m % parts):
        nest = with_spare(_PrefetchingMatmulNest(workload.whole, config).program(), workload)
    else:
        nest = _PrefetchingMatmulNest(workload, config).program()
    return ScheduledProgram(
        nests=(nest,),
        options=PassOptions(fma=config.fma),
        layout=panels_layout(config.tile_n),
    )


class _PrefetchingMatmulNest:
    """`parameters` are those of the workload, flat."""

    def __init__(self, workload: Workload, config: WasmPrefetchingMatmulConfig) -> None:
        self.extents, self.config = Extents.of(workload.whole), config
        self.parameters = parameters_of(workload)
        parts = workload.spare_parts
        self.part_rows = self.extents.m // parts if parts else 0
        self.parts = parts

    def program(self) -> ir.Program:
        extents, config, frame = self.extents, self.config, ir.Frame()
        blocks, panels = extents.n // config.block_n, config.block_n // config.tile_n
        place = frame.variable("block", blocks) * panels + frame.variable("panel", panels)
        following = frame.least("next", place + 1, blocks * panels - 1)
        tiles: ir.Block = ()
        if self.parts:
            tiles = self._rows_there(place, following)
        else:
            for each in row_tiles(extents.m, config.tile_m):
                tiles = (*tiles, *self._rows(each, place, following))
        body = ir.serial("panel", panels, frame.enclose(tiles))
        if self.parts:
            if self.part_rows == 1 and extents.m > 1:
                body = ir.under((self._there(ir.constant(1)),), body, self._single_row(panels))
            *_, spare, _ = self.parameters
            body = (ir.let(READ, spare[0], self.parts, body),)
        return ir.program(self.parameters, "block", blocks, body)

    def _rows_there(self, panel: ir.Affine, following: ir.Affine) -> ir.Block:
        """Tiles up to the last row that is there."""
        first, *_ = row_tiles(self.extents.m, self.config.tile_m)
        whole, left = divmod(self.extents.m, first.rows)
        tiles = self._rows(RowTiles(0, 0, whole, first.rows), panel, following)
        if not left:
            return tiles
        behind = RowTiles(whole, whole * first.rows, 1, left)
        return (*tiles, *self._rows(behind, panel, following))

    def _single_row(self, panels: int) -> ir.Block:
        """The first row, by the panels of a block, several at once."""
        config, extents, width = self.config, self.extents, self.config.tile_n
        together = next(n for n in range(MOST_PANELS, 0, -1) if panels % n == 0)
        a, b, *_ = self.parameters
        sums = TileSums(together, width, "p0", "n0")
        panel = ir.affine(block=panels, group=together, p0=1)
        lane, k = ir.variable("n0"), ir.affine(k1=config.unroll_k, k0=1)
        product = a[k] * b[(panel * extents.k + k) * width + lane]
        at = (ir.ZERO, ir.ZERO, panel * width + lane)
        tile: ir.Block = (
            *sums.start(),
            *ir.serial("k1", extents.k // config.unroll_k, sums.add(config.unroll_k, product)),
            *sums.each(stored_product(extents, self.parameters, at, sums.held)),
        )
        return ir.serial("group", panels // together, ir.allocated((sums.buffer,), tile))

    def _there(self, row: ir.Affine) -> ir.Bound:
        return (row + ir.variable(READ) * self.part_rows).below(self.extents.m)

    def _rows(self, tiles: RowTiles, panel: ir.Affine, following: ir.Affine) -> ir.Block:
        """Tiles of as many rows. Each reads its part of the next panel."""
        config, size, frame = self.config, self.extents.k * self.config.tile_n, ir.Frame()
        bodies = self.extents.k // config.unroll_k
        word = tiles.read_ahead(frame, bodies, config.step(self.extents.m), size)
        ahead = following * size + word
        m1 = frame.variable("m1", tiles.count)
        first = m1 * tiles.rows + tiles.first
        tile = self._tile(first, tiles.rows, panel, ahead)
        if self.parts and tiles.rows > FEWEST_ROWS:
            few = self._tile(first, FEWEST_ROWS, panel, ahead)
            tile = ir.under((self._there(first + FEWEST_ROWS),), tile, few)
        block = frame.enclose(tile)
        if self.parts:
            block = ir.under((self._there(first),), block)
        return ir.serial("m1", tiles.count, block)

    def _tile(self, first: ir.Affine, rows: int, panel: ir.Affine, ahead: ir.Affine) -> ir.Block:
        config, extents, width = self.config, self.extents, self.config.tile_n
        a, b, *_ = self.parameters
        sums = TileSums(rows, width, "m0", "n0")
        unused = ir.local("ahead", 1)
        lane, row = ir.variable("n0"), first + ir.variable("m0")
        k = ir.affine(k1=config.unroll_k, k0=1)
        left = a[row * extents.k + k]
        right = b[(panel * extents.k + k) * width + lane]
        at = (ir.ZERO, row, panel * width + lane)
        body = (unused.store(0, b[ahead]), *sums.add(config.unroll_k, left * right))
        tile: ir.Block = (
            *sums.start(),
            *ir.serial("k1", extents.k // config.unroll_k, body),
            *sums.each(stored_product(extents, self.parameters, at, sums.held)),
        )
        return ir.allocated((unused, sums.buffer), tile)

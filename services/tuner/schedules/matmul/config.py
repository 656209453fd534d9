"""The settings of one kernel of a contraction: nnJIT's Table 1, as a value.

Table 1 names tiles x, y, r for rows, columns and the summed axis, 0 for the register tile and 1 for
the cache tile: `tile_m` is x0, `tile_n` y0, `unroll_k` r0, `block_m` x1, `block_n` y1; r1 is k.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.extents import Extents, Shape, panel_shape, round_up
from services.tuner.schedules.base.wasm_config import (
    MAX_PANEL_COLUMNS,
    MAX_SCRATCH_BYTES,
    Pack,
    WasmConfig,
    tile_fault,
)


class Outer(StrEnum):
    """The axis of the outermost loop, the one that a caller may slice."""

    BATCH = "b"
    ROWS = "m"
    COLUMNS = "n"


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmMatmulConfig(WasmConfig):
    """Tiles and blocks count elements. `fma` lets products and sums round once."""

    family: ClassVar = "matmul"
    tile_m: int
    tile_n: int
    unroll_k: int
    block_m: int
    block_n: int
    pack: Pack
    outer: Outer

    @property
    def panels(self) -> int:
        """Columns of a panel of b, where b comes in panels; else 0."""
        return self.tile_n if self.pack is Pack.PREPACKED else 0

    def shapes(self, extents: Extents) -> tuple[Shape, ...]:
        """The shapes of a, b, the inputs of the epilogue and c, as the kernel reads them."""
        a, b, *rest = extents.shapes
        if self.panels:
            b = (*b[:-2], *panel_shape(extents, self.panels))
        return a, b, *rest

    def rounded(self, extents: Extents) -> Extents:
        """The extents rounded up to whole blocks."""
        return replace(
            extents,
            m=round_up(extents.m, self.block_m),
            k=round_up(extents.k, self.unroll_k),
            n=round_up(extents.n, self.block_n),
        )

    def range_extent(self, extents: Extents) -> int:
        """Iterations of the outermost loop."""
        whole = self.rounded(extents)
        return {
            Outer.BATCH: whole.batch or 1,
            Outer.ROWS: whole.m // self.block_m,
            Outer.COLUMNS: whole.n // self.block_n,
        }[self.outer]

    def fault(self, workload: Workload) -> str:
        extents = Extents.of(workload)
        tiles = (self.tile_m, self.tile_n, self.unroll_k, self.block_m, self.block_n)
        if min(tiles) < 1:
            return "tiles, blocks and unroll_k start at 1"
        if found := tile_fault(self.tile_m, self.tile_n, self.unroll_k):
            return found
        return self._block_fault(extents)

    def _block_fault(self, extents: Extents) -> str:
        whole = self.rounded(extents)
        for axis, block, tile, size in (
            ("m", self.block_m, self.tile_m, extents.m),
            ("n", self.block_n, self.tile_n, extents.n),
        ):
            if block % tile or block > round_up(size, tile):
                return f"block_{axis}={block} must be whole tiles of {tile} within {size}"
        if self.outer is Outer.BATCH and not extents.batch:
            return "outer=b needs a batch axis; use m or n"
        if self.pack is Pack.PREPACKED:
            return "" if extents.b_constant else "pack=prepacked needs constant=b in the key"
        if self.pack is Pack.NONE:
            if extents.b_transposed:
                return "pack=none reads a transposed b one entry at a time; use kernel"
            return ""
        if self.outer is Outer.ROWS:
            return "pack=kernel with outer=m would pack again for every block of rows; use b or n"
        if self.block_n > MAX_PANEL_COLUMNS or 4 * whole.k * self.block_n > MAX_SCRATCH_BYTES:
            return (
                f"packing {whole.k}x{self.block_n} at once is too much; use at most "
                f"{MAX_PANEL_COLUMNS} columns and {MAX_SCRATCH_BYTES} bytes"
            )
        return ""

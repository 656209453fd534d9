"""The lite space of products by Strassen's algorithm."""

from collections.abc import Iterator

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.extents import Extents, largest_divisor
from services.tuner.schedules.base.ranking import by_rank, ranked
from services.tuner.schedules.base.rules import BASE_TILES, FEWEST_SLICES, FMA_TILES, SLICES_WANTED
from services.tuner.schedules.strassen_matmul.config import SUMS, WasmStrassenMatmulConfig

LEAST_ROWS, LEAST_K, LEAST_COLUMNS = 96, 256, 128
"""Below, sums of quarters cost what a product less saves: 128x384x384 gains 1 %, 128x384x1536 6 %,
384x512x2048 8 %."""

ROW_SUMS_BYTES = (4 << 20, 2 << 20)
"""Panels are summed anew for each block of rows, so that large blocks win although their sums do
not fit the second cache: 384x2048x512 takes 12.7 ms with 192 rows, 13.0 with 96."""

SLICES = (FEWEST_SLICES, SLICES_WANTED)
"""Rows are summed anew for each slice of columns."""

SLICE_FLOPS = 230_000_000
"""A slice of more takes longer than 3 ms, and an abort would wait for it."""

UNROLL_K = (4, 2)


def wasm_strassen_matmul_configs(workload: Workload) -> tuple[WasmStrassenMatmulConfig, ...]:
    """Ordered by the sum of the ranks of their settings; none for other workloads."""
    extents = Extents.of(workload)
    if extents.m < LEAST_ROWS or extents.k < LEAST_K or extents.n < LEAST_COLUMNS:
        return ()
    return by_rank(_points(extents), workload)


def _points(extents: Extents) -> Iterator[tuple[WasmStrassenMatmulConfig, float]]:
    for fma in (True, False):
        tile = (FMA_TILES if fma else BASE_TILES)[0]
        for rank, sums_bytes, slices, unroll_k in ranked(ROW_SUMS_BYTES, SLICES, UNROLL_K):
            if rank < 2:
                yield _config(extents, tile, sums_bytes, slices, unroll_k, fma=fma), rank


def _config(
    extents: Extents,
    tile: tuple[int, int],
    sums_bytes: int,
    slices: int,
    unroll_k: int,
    *,
    fma: bool,
) -> WasmStrassenMatmulConfig:
    tile_m, tile_n = tile
    rows, panels = extents.m // 2, max(1, extents.n // 2 // tile_n)
    block_m = largest_divisor(rows, sums_bytes // (4 * SUMS * (extents.k // 2)))
    flops = 2 * extents.m * extents.k * extents.n
    wanted = max(-(-slices * block_m // rows), -(-flops * block_m // (rows * SLICE_FLOPS)))
    return WasmStrassenMatmulConfig(
        tile_m=tile_m,
        tile_n=tile_n,
        unroll_k=unroll_k,
        block_m=block_m,
        block_n=tile_n * largest_divisor(panels, panels // wanted),
        fma=fma,
    )

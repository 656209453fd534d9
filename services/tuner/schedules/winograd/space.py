"""The lite space of Winograd's convolutions: register tiles, and rows of tiles to a block."""

from collections.abc import Iterator
from itertools import product

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.ranking import by_rank
from services.tuner.schedules.base.rules import BASE_TILES, FMA_TILES, SLICES_WANTED
from services.tuner.schedules.winograd.config import OUT, WasmWinogradConfig, is_winograd

TILES_WANTED = (14, 7, 28)
"""Tiles to a block: so many products share what is read of the weights, and their transforms stay
in the second-level cache."""

UNROLL_K = (2, 4)


def wasm_winograd_configs(workload: Workload) -> tuple[WasmWinogradConfig, ...]:
    """Ordered by the sum of the ranks of their settings; none for other workloads."""
    if not is_winograd(workload):
        return ()
    e = workload.extent
    across, down = -(-e["x"] // OUT), -(-e["y"] // OUT)
    heights = dict.fromkeys(min(down, -(-wanted // across)) for wanted in TILES_WANTED)
    return by_rank(_points(workload, tuple(heights)), workload)


def _points(
    workload: Workload, heights: tuple[int, ...]
) -> Iterator[tuple[WasmWinogradConfig, int]]:
    e = workload.extent
    down = -(-e["y"] // OUT)
    for fma in (True, False):
        tiles = [tile for tile in (FMA_TILES if fma else BASE_TILES) if e["o"] % tile[1] == 0]
        points = product(enumerate(tiles[:3]), enumerate(heights), enumerate(UNROLL_K))
        for (tile_rank, (tile_m, tile_n)), (row_rank, rows), (rank, unroll) in points:
            config = WasmWinogradConfig(
                block_y=rows,
                block_n=_block_n(e["o"], tile_n, e["b"] * -(-down // rows)),
                tile_m=tile_m,
                tile_n=tile_n,
                unroll_k=unroll,
                fma=fma,
            )
            if not (rank and tile_rank):
                yield config, tile_rank + row_rank + rank + (not fma)


def _block_n(channels: int, tile_n: int, blocks: int) -> int:
    """The most channels that leave slices enough; each slice transforms its tiles again."""
    sizes = (n for n in range(channels, 0, -tile_n) if channels % n == 0)
    return next((n for n in sizes if blocks * channels // n >= SLICES_WANTED), tile_n)

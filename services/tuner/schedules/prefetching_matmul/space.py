"""The lite space of products that read their weights ahead."""

from collections.abc import Iterator
from itertools import product

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.ranking import by_rank
from services.tuner.schedules.base.rules import BASE_TILES, FMA_TILES
from services.tuner.schedules.prefetching_matmul.config import WasmPrefetchingMatmulConfig

MOST_ROWS = 512
"""The wait of the first rows is little beside the rest of more."""

A_BYTES = 5 << 18
"""All rows pass by each panel: they stay in the second-level cache."""

TILES = 2
SLICES = 32
"""Threads end together only if slices are short, and here short ones cost nothing: the last panel
of a slice reads the first of the next one ahead."""

UNROLL_K = (4, 2, 1)
"""One vector of the next panel is read in each body: longer bodies read fewer."""


def wasm_prefetching_matmul_configs(workload: Workload) -> tuple[WasmPrefetchingMatmulConfig, ...]:
    """Ordered by the sum of the ranks of their settings; none for other workloads."""
    extents = Extents.of(workload)
    if extents.m > MOST_ROWS or 4 * extents.m * extents.k > A_BYTES:
        return ()
    return by_rank(_points(extents), workload)


def _points(extents: Extents) -> Iterator[tuple[WasmPrefetchingMatmulConfig, int]]:
    for fma in (True, False):
        tiles = (FMA_TILES if fma else BASE_TILES)[:TILES]
        points = product(enumerate(tiles), enumerate(UNROLL_K))
        for (tile_rank, (tile_m, tile_n)), (rank, unroll_k) in points:
            config = WasmPrefetchingMatmulConfig(
                tile_m=min(tile_m, extents.m),
                tile_n=tile_n,
                unroll_k=unroll_k,
                block_n=_block_n(extents.n, tile_n),
                fma=fma,
            )
            if not (rank and tile_rank):
                yield config, tile_rank + rank + (not fma)


def _block_n(n: int, tile_n: int) -> int:
    """The most columns that leave slices enough."""
    panels = -(-n // tile_n)
    most = max(1, panels // SLICES)
    return tile_n * next(count for count in range(most, 0, -1) if panels % count == 0)

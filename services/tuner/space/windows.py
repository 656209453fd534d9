"""The lite space of convolutions and pooling: tiles as for contractions, rows of the output to a
block, input channels unrolled."""

from itertools import product

from kernelzoo.domain.workload import Workload
from services.tuner.config import LANES
from services.tuner.space.rules import (
    BASE_TILES,
    FMA_TILES,
    SLICES_WANTED,
    UNROLL_K,
    VECTOR_REGISTERS,
    WINDOW_BLOCKS,
    live_vectors,
)
from services.tuner.window import WindowConfig

BASE_RANK = 2
"""Candidates without fma stand as far back as the third choice of a tile with it."""


def window_configs(workload: Workload) -> tuple[WindowConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Pooling has no products to round."""
    multiplies = len(workload.operator.inputs) > 1
    ranked: dict[WindowConfig, int] = {}
    for fma in (True, False) if multiplies else (False,):
        for (tile_rank, tile), (unroll_rank, unroll), (block_rank, block) in product(
            enumerate(_tiles(workload, fma=fma)),
            enumerate(_unrolls(workload)),
            enumerate(_blocks(workload)),
        ):
            config = WindowConfig(
                tile_x=tile[0], tile_c=tile[1], unroll_c=unroll, block_y=block, fma=fma
            )
            rank = tile_rank + unroll_rank + block_rank + (0 if fma else BASE_RANK)
            if unroll_rank and block_rank:
                continue
            ranked[config] = min(rank, ranked.get(config, rank))
    return tuple(sorted(ranked, key=ranked.__getitem__))


def _tiles(workload: Workload, *, fma: bool) -> list[tuple[int, int]]:
    """Within the live-vector rule, cut to the output; whole columns stand before a tail."""
    extent = workload.extent
    channels = -(-extent[workload.operator.output[1][-1]] // LANES) * LANES
    tiles = FMA_TILES if fma else BASE_TILES
    cut = dict.fromkeys((min(x, extent["x"]), min(c, channels)) for x, c in tiles)
    fitting = [tile for tile in cut if live_vectors(*tile, fma=fma) <= VECTOR_REGISTERS]
    return sorted(fitting, key=lambda tile: extent["x"] % tile[0] > 0)


def _unrolls(workload: Workload) -> list[int]:
    if "c" not in workload.operator.summed:
        return [1]
    return [unroll for unroll in UNROLL_K if workload.extent["c"] % unroll == 0]


def _blocks(workload: Workload) -> list[int]:
    """Rows of the output that share one copy of padded rows, with slices enough left."""
    rows = workload.extent["y"]
    most = max(1, rows // SLICES_WANTED)
    return [block for block in WINDOW_BLOCKS if rows % block == 0 and block <= most]

"""The lite space of convolutions and pooling: tiles as for contractions, rows of the output to a
block, input channels unrolled."""

from itertools import product

from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import LANES
from services.tuner.schedules.base.rules import (
    ALIASING_BYTES,
    BASE_RANK,
    BASE_TILES,
    FEWEST_SLICES,
    FMA_TILES,
    SLICES_WANTED,
    UNROLL_K,
    VECTOR_REGISTERS,
    live_vectors,
)
from services.tuner.schedules.conv.config import WasmConvConfig
from services.tuner.schedules.matmul.config import Pack

WIDEST_TILE = 16
"""Channels in the widest register tile."""

ALIASING_ROWS = 4
"""Rows of weights that lie `ALIASING_BYTES` apart in steps of this many, or closer, share so few
sets of the first cache that a tile of them does not stay there."""

BLOCK_Y = (4, 2, 1, 8)
"""Rows of a convolution's output to a block: more rows copy less padding, fewer slice finer."""


def wasm_conv_configs(workload: Workload) -> tuple[WasmConvConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Pooling has no products to round."""
    multiplies = len(workload.operator.inputs) > 1
    ranked: dict[WasmConvConfig, int] = {}
    for fma in (True, False) if multiplies else (False,):
        for (tile_rank, tile), (unroll_rank, unroll), (place_rank, (pack, block)) in product(
            enumerate(_tiles(workload, fma=fma)),
            enumerate(_unrolls(workload)),
            enumerate(_places(workload)),
        ):
            config = WasmConvConfig(
                tile_x=tile[0], tile_c=tile[1], unroll_c=unroll, block_y=block, pack=pack, fma=fma
            )
            rank = tile_rank + unroll_rank + place_rank + (0 if fma else BASE_RANK)
            if unroll_rank and place_rank:
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


def _places(workload: Workload) -> list[tuple[Pack, int]]:
    """Packing, and rows of the output that share one copy of padded rows, the likely best first.

    Rows without packing leave slices enough; with it tiles of channels are the slices.
    """
    extent = workload.extent
    rows = [block for block in BLOCK_Y if extent["y"] % block == 0]
    most = max(1, extent["y"] // SLICES_WANTED)
    plain = [(Pack.NONE, block) for block in rows if block <= most]
    if "c" not in workload.operator.summed or extent["o"] < WIDEST_TILE * FEWEST_SLICES:
        return plain
    if "b" in workload.constant:
        return [(Pack.BEFORE, rows[0]), *plain]
    packed = (Pack.KERNEL, rows[0])
    aliased = LANES * extent["o"] * ALIASING_ROWS % ALIASING_BYTES == 0
    return [packed, *plain] if aliased else [*plain, packed]

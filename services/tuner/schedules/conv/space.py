"""The lite space of convolutions and pooling: tiles as for contractions, rows of the output to a
block, input channels unrolled."""

from collections.abc import Iterator
from itertools import product

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import round_up
from services.tuner.schedules.base.ranking import by_rank
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
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.base.windows import Windows, windows_of
from services.tuner.schedules.conv.config import MAX_BLOCK_ROWS, WasmConvConfig
from services.tuner.schedules.depthwise.config import WasmDepthwiseConfig
from services.tuner.schedules.depthwise.space import wasm_depthwise_configs
from services.tuner.schedules.direct_conv.config import WasmDirectConvConfig
from services.tuner.schedules.direct_conv.space import wasm_direct_conv_configs
from services.tuner.schedules.winograd.config import WasmWinogradConfig
from services.tuner.schedules.winograd.space import wasm_winograd_configs

WIDEST_TILE = 16
"""Channels in the widest register tile."""

ALIASING_ROWS = 4
"""Rows of weights that lie `ALIASING_BYTES` apart in steps of this many, or closer, share so few
sets of the first cache that a tile of them does not stay there."""

WINOGRAD_EARLY = 4
"""So many stand behind the first direct schedule: on an AMD EPYC they took 0.36 to 0.53 of its time
where 28x28 pixels have 128 channels, and whoever has little time tries the first of a space."""

BLOCK_Y = (4, 2, 1, 8)
"""Rows of a convolution's output to a block: more rows copy less padding, fewer slice finer."""


WasmWindowConfig = WasmConvConfig | WasmDepthwiseConfig | WasmDirectConvConfig | WasmWinogradConfig


def wasm_conv_configs(workload: Workload) -> tuple[WasmWindowConfig, ...]:
    """Depthwise schedules come first, where they fit, then direct ones. The first direct one is
    the default, as Winograd's weights take four times the memory. Those that read images where they
    lie follow, and Winograd's likely best."""
    direct = _window_configs(workload)
    return (*wasm_depthwise_configs(workload), *_behind_first(direct, workload))


def _behind_first(
    direct: tuple[WasmConvConfig, ...], workload: Workload
) -> tuple[WasmWindowConfig, ...]:
    """From each of both kinds of products the first direct schedule, then those that copy nothing
    and a few of Winograd's."""
    in_place = wasm_direct_conv_configs(workload)
    winograd = wasm_winograd_configs(workload)
    ordered: list[WasmWindowConfig] = []
    for config in direct:
        first = all(config.fma != each.fma for each in ordered)
        ordered.append(config)
        if first:
            ordered += [each for each in in_place if each.fma == config.fma]
            ordered += [each for each in winograd if each.fma == config.fma][:WINOGRAD_EARLY]
    return tuple(dict.fromkeys((*ordered, *winograd)))


def _window_configs(workload: Workload) -> tuple[WasmConvConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Pooling has no products to round."""
    return by_rank(_points(windows_of(workload), workload), workload)


def _points(windows: Windows, workload: Workload) -> Iterator[tuple[WasmConvConfig, int]]:
    for fma in (True, False) if windows.multiplies else (False,):
        for (tile_rank, tile), (unroll_rank, unroll), (place_rank, (pack, block)) in product(
            enumerate(_tiles(windows, fma=fma)),
            enumerate(_unrolls(windows)),
            enumerate(_places(windows, workload)),
        ):
            config = WasmConvConfig(
                tile_x=tile[0], tile_c=tile[1], unroll_c=unroll, block_y=block, pack=pack, fma=fma
            )
            rank = tile_rank + unroll_rank + place_rank + (0 if fma else BASE_RANK)
            if not (unroll_rank and place_rank):
                yield config, rank


def _tiles(windows: Windows, *, fma: bool) -> list[tuple[int, int]]:
    """Within the live-vector rule, cut to the output; whole columns stand before a tail."""
    columns = windows.size(windows.x)
    channels = round_up(windows.size(windows.c), ir.LANES)
    tiles = FMA_TILES if fma else BASE_TILES
    cut = dict.fromkeys((min(x, columns), min(c, channels)) for x, c in tiles)
    fitting = [tile for tile in cut if live_vectors(*tile, fma=fma) <= VECTOR_REGISTERS]
    return sorted(fitting, key=lambda tile: columns % tile[0] > 0)


def _unrolls(windows: Windows) -> list[int]:
    if not windows.k:
        return [1]
    return [unroll for unroll in UNROLL_K if windows.summed_channels % unroll == 0]


def _places(windows: Windows, workload: Workload) -> list[tuple[Pack, int]]:
    """Packing, and rows of the output that share one copy of padded rows, the likely best first.

    Rows without packing leave slices enough; with it tiles of channels are the slices, so that all
    rows may share one copy: 3x3 windows of 7 rows copy 9 rows then, and 21 one by one.
    """
    height, channels = windows.size(windows.y), windows.size(windows.c)
    rows = [block for block in BLOCK_Y if height % block == 0]
    most = max(1, height // SLICES_WANTED)
    plain = [(Pack.NONE, block) for block in rows if block <= most]
    if not windows.packs or channels < WIDEST_TILE * FEWEST_SLICES:
        return plain
    if "b" in workload.constant:
        tall = max(block for block in range(1, MAX_BLOCK_ROWS + 1) if height % block == 0)
        return [(Pack.PREPACKED, block) for block in dict.fromkeys((rows[0], tall))] + plain
    packed = (Pack.KERNEL, rows[0])
    aliased = ir.LANES * channels * ALIASING_ROWS % ALIASING_BYTES == 0
    return [packed, *plain] if aliased else [*plain, packed]

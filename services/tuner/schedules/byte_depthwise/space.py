"""The lite space of convolutions of bytes that keep channels apart: pixels to a register tile, rows
to a slice."""

from itertools import product

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.rules import SLICES_WANTED
from services.tuner.schedules.byte_depthwise.config import (
    CHANNELS,
    WasmByteDepthwiseConfig,
    is_byte_depthwise,
)

TILES = (4, 2, 3, 7)


def wasm_byte_depthwise_configs(workload: Workload) -> tuple[WasmByteDepthwiseConfig, ...]:
    """Ordered by the sum of the ranks of their settings; none for other workloads."""
    if not is_byte_depthwise(workload):
        return ()
    e = workload.extent
    blocks = e["b"] * e["c"] // CHANNELS
    divisors = [rows for rows in range(e["y"], 0, -1) if e["y"] % rows == 0]
    shared = [rows for rows in divisors if blocks * (e["y"] // rows) >= SLICES_WANTED]
    heights = (shared or divisors[-1:])[:2]
    tiles = dict.fromkeys(min(tile, e["x"]) for tile in TILES)
    ranked = {
        WasmByteDepthwiseConfig(tile_x=tile, rows=rows, fma=False): tile_rank + rows_rank
        for (tile_rank, tile), (rows_rank, rows) in product(enumerate(tiles), enumerate(heights))
    }
    found = sorted(ranked, key=ranked.__getitem__)
    return tuple(config for config in found if not config.fault(workload))

"""The lite space of convolutions that keep channels apart: pixels to a register tile."""

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.rules import VECTOR_REGISTERS
from services.tuner.schedules.depthwise.config import WasmDepthwiseConfig, is_depthwise

TILES = (4, 5, 3, 7)
"""Wider ones load less for each product and are slower all the same, by up to a quarter at stride 2
(V8 11.3 on Zen 5). Tails cost less than that: 4 is the fastest at 14 columns, too."""


def wasm_depthwise_configs(workload: Workload) -> tuple[WasmDepthwiseConfig, ...]:
    """Ordered by the sum of the ranks of their settings; none for other workloads."""
    if not is_depthwise(workload):
        return ()
    e = workload.extent
    ranked: dict[WasmDepthwiseConfig, int] = {}
    for fma in (True, False):
        # Sums, a row of weights, and a pixel; without fma also its product.
        most = VECTOR_REGISTERS - e["kw"] - (1 if fma else 2)
        tiles = dict.fromkeys(min(tile, e["x"]) for tile in TILES if tile <= max(most, TILES[0]))
        for rank, tile in enumerate(tiles):
            ranked[WasmDepthwiseConfig(tile_x=tile, fma=fma)] = rank + (0 if fma else 1)
    return tuple(sorted(ranked, key=ranked.__getitem__))

"""The settings of one kernel of Winograd's F(4x4, 3x3): 16 entries of the output from 36 products
for each pair of channels, where windows by themselves take 144."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import Shape, round_up
from services.tuner.schedules.base.wasm_config import (
    MAX_SCRATCH_BYTES,
    WasmConfig,
    tile_fault,
)

OUT = 4
"""Entries of the output to a side of a tile."""
IN = OUT + 2
"""Pixels of the image to a side of a tile, and points of the transformation."""
POINTS = IN * IN

FEWEST_CHANNELS = 32
"""Transforming tiles takes as long as it saves with fewer."""
FEWEST_TILES = 28
"""Weights that are four times as large are not worth their memory with fewer. The 16 tiles of 14x14
pixels and 256 channels save a quarter of a call's time, which is 4 % of ResNet-50's, for 35 MB more
on 109; the 49 of 28x28 pixels save 60 %."""
WINDOW = 3


def is_winograd(workload: Workload) -> bool:
    """Returns whether windows of 3 x 3 stand side by side, enough of them, and weights stay the
    same."""
    if workload.operator.name != "conv2d" or "b" not in workload.constant:
        return False
    e = workload.extent
    channels = (e["c"], e["o"])
    return (
        (e["kh"], e["kw"], e["stride"]) == (WINDOW, WINDOW, 1)
        and min(channels) >= FEWEST_CHANNELS
        and all(count % ir.LANES == 0 for count in channels)
        and -(-e["y"] // OUT) * -(-e["x"] // OUT) >= FEWEST_TILES
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmWinogradConfig(WasmConfig):
    """The outermost loop takes `block_n` channels of `block_y` rows of tiles. Products of what
    tiles and weights are transformed to have register tiles of `tile_m` tiles and `tile_n`
    channels, `unroll_k` input channels to a body.
    """

    family: ClassVar = "winograd"
    block_y: int
    block_n: int
    tile_m: int
    tile_n: int
    unroll_k: int

    @property
    def layout(self) -> str:
        """The layout of the weights."""
        return f"winograd{self.tile_n}"

    def tiles(self, workload: Workload) -> int:
        """Tiles of a block, rounded up to whole register tiles."""
        return round_up(self.block_y * -(-workload.extent["x"] // OUT), self.tile_m)

    def blocks(self, workload: Workload) -> int:
        """Blocks of one image."""
        return -(-workload.extent["y"] // (OUT * self.block_y))

    def range_extent(self, workload: Workload) -> int:
        """Iterations of the outermost loop."""
        e = workload.extent
        return e["b"] * self.blocks(workload) * (e["o"] // self.block_n)

    def scratch_entries(self, workload: Workload) -> int:
        return POINTS * self.tiles(workload) * (workload.extent["c"] + self.block_n)

    def fault(self, workload: Workload) -> str:
        if not is_winograd(workload):
            return (
                "transforms are for windows of 3x3 side by side over channels in multiples of "
                f"{ir.LANES}, {FEWEST_CHANNELS} at least, and {FEWEST_TILES} tiles, with constant=b"
            )
        if min(self.block_y, self.block_n, self.tile_m, self.tile_n, self.unroll_k) < 1:
            return "tiles, blocks and unroll_k start at 1"
        if found := tile_fault(self.tile_m, self.tile_n, self.unroll_k):
            return found
        e = workload.extent
        if e["o"] % self.block_n or self.block_n % self.tile_n:
            return (
                f"block_n={self.block_n} must divide {e['o']} channels and be a multiple of "
                f"tile_n={self.tile_n}"
            )
        if e["c"] % self.unroll_k:
            return f"unroll_k={self.unroll_k} must divide {e['c']} input channels"
        if self.block_y > -(-e["y"] // OUT):
            return f"rows={self.block_y} are more rows of tiles than there are"
        if 4 * self.scratch_entries(workload) > MAX_SCRATCH_BYTES:
            return f"rows={self.block_y} take more than {MAX_SCRATCH_BYTES} bytes of scratch memory"
        return ""


def packed_shape(workload: Workload, width: int) -> Shape:
    """The shape of the transformed weights, in panels of `width` channels for each point."""
    e = workload.extent
    return POINTS, e["o"] // width, e["c"], width

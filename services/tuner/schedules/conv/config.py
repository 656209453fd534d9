"""The settings of one kernel of a convolution or pooling: a direct loop nest over windows."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.extents import Extents, Shape, panel_shape, round_up
from services.tuner.schedules.base.wasm_config import Pack, WasmConfig, tile_fault
from services.tuner.schedules.base.windows import Windows, windows_of

MAX_BLOCK_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmConvConfig(WasmConfig):
    """A register tile of `tile_x` columns and `tile_c` channels of the output.

    Without packing the outermost loop takes `block_y` rows of the output. With it the outermost
    loop takes one tile of channels, whose weights are copied next to one another before the rows,
    or lie so already.
    `unroll_c` input channels are unrolled, which only a convolution over channels has.
    """

    family: ClassVar = "conv"
    tile_x: int
    tile_c: int
    unroll_c: int
    block_y: int
    pack: Pack

    @property
    def panels(self) -> int:
        """Output channels of a panel of weights, where they come in panels; else 0."""
        return self.tile_c if self.pack is Pack.PREPACKED else 0

    def shapes(self, workload: Workload) -> tuple[Shape, ...]:
        """The shapes of the tensors of its windows, as the kernel reads them."""
        shapes = windows_of(workload).shapes
        if not self.panels:
            return shapes
        panels = panel_shape(Extents.of_weights(workload), self.panels)
        return shapes[0], panels, *shapes[2:]

    def fault(self, workload: Workload) -> str:
        if min(self.tile_x, self.tile_c, self.unroll_c, self.block_y) < 1:
            return "tiles, blocks and unroll_c start at 1"
        if found := tile_fault(self.tile_x, self.tile_c, self.unroll_c):
            return found
        windows = windows_of(workload)
        summed, rows = windows.summed_channels, windows.size(windows.y)
        if summed % self.unroll_c:
            return f"unroll_c={self.unroll_c} must divide {summed} input channels"
        if self.block_y > MAX_BLOCK_ROWS or rows % self.block_y:
            return f"block_y={self.block_y} must divide {rows} rows and be at most {MAX_BLOCK_ROWS}"
        if self.pack is not Pack.NONE and not windows.packs:
            return f"pack={self.pack} copies weights of channels that are summed; use none"
        if self.pack is Pack.PREPACKED and "b" not in workload.constant:
            return "pack=prepacked needs constant=b in the key; use kernel"
        return ""

    def range_extent(self, workload: Workload) -> int:
        """Iterations of the outermost loop."""
        windows = windows_of(workload)
        if self.pack is Pack.NONE:
            return windows.size(windows.y) // self.block_y
        return round_up(windows.size(windows.c), self.tile_c) // self.tile_c

    def rounded(self, windows: Windows) -> dict[str, int]:
        """Output columns and channels rounded up to whole tiles, by the names of their axes."""
        return {
            windows.x: round_up(windows.size(windows.x), self.tile_x),
            windows.c: round_up(windows.size(windows.c), self.tile_c),
        }

"""The settings of one kernel of a convolution of bytes, of each channel by itself."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.operators.byte_layers import BYTES_OF_WINDOWS
from kernelzoo.domain.operators.integer_products import PER_WORD
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.wasm_config import WasmConfig

CHANNELS = PER_WORD * ir.LANES
"""A block of channels is a vector of words."""
MAX_WINDOW = 7
"""Places to a side of a window: the body has code for each of them."""
MAX_TILE = 8
MAX_LINES_BYTES = 1 << 22


def is_byte_depthwise(workload: Workload) -> bool:
    """Returns whether channels come in whole vectors of words, and windows are small."""
    if workload.operator.name != BYTES_OF_WINDOWS:
        return False
    e = workload.extent
    return e["c"] % CHANNELS == 0 and max(e["kh"], e["kw"]) <= MAX_WINDOW


def lines_of(workload: Workload, rows: int) -> int:
    """Lines of the image, with its padding, that rows of the output read."""
    e = workload.extent
    return (rows - 1) * e["stride"] + e["kh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmByteDepthwiseConfig(WasmConfig):
    """A slice makes `rows` rows of the output, a block of channels of each, in tiles of `tile_x`
    pixels."""

    family: ClassVar = "byte_depthwise"
    tile_x: int
    rows: int

    def fault(self, workload: Workload) -> str:
        if not is_byte_depthwise(workload):
            return (
                f"channels must be a multiple of {CHANNELS}, and windows at most {MAX_WINDOW} "
                "wide, of depthwise_conv2d_u8i8q"
            )
        e = workload.extent
        if self.fma:
            return "sums are rounded as stated; fma must be false"
        if not 1 <= self.tile_x <= min(MAX_TILE, e["x"]):
            return f"tile_x={self.tile_x} must be from 1 to {min(MAX_TILE, e['x'])}"
        if self.rows < 1 or e["y"] % self.rows:
            return f"rows={self.rows} must divide the {e['y']} rows of the output"
        width = e["w"] + 2 * e["pad"]
        if lines_of(workload, self.rows) * width * CHANNELS > MAX_LINES_BYTES:
            return f"a slice takes more than {MAX_LINES_BYTES} bytes of scratch"
        return ""

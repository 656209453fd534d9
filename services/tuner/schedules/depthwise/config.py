"""The settings of one kernel of a convolution of each channel by itself."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.faults import range_fault
from services.tuner.schedules.base.rules import VECTOR_REGISTERS
from services.tuner.schedules.base.wasm_config import WasmConfig

MAX_WINDOW = 7
"""Places to a side of a window: the body has code for each of them."""


def is_depthwise(workload: Workload) -> bool:
    """Returns whether channels come in whole vectors, and windows are small."""
    if workload.operator.name != "depthwise_conv2d":
        return False
    e = workload.extent
    return e["c"] % ir.LANES == 0 and max(e["kh"], e["kw"]) <= MAX_WINDOW


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmDepthwiseConfig(WasmConfig):
    """A register tile of `tile_x` pixels of a row of the output, four channels of each."""

    family: ClassVar = "depthwise"
    tile_x: int

    def fault(self, workload: Workload) -> str:
        if not is_depthwise(workload):
            return (
                f"channels must be a multiple of {ir.LANES}, and windows at most {MAX_WINDOW} "
                "wide, of depthwise_conv2d"
            )
        most = min(VECTOR_REGISTERS, workload.extent["x"])
        return range_fault("tile_x", self.tile_x, 1, most)

"""The settings of one kernel of a convolution of a few channels."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.faults import range_fault
from services.tuner.schedules.base.wasm_config import WasmConfig, tile_fault

MAX_TAPS = 24
"""Products to a row of a window: the body has code for each of them."""


def has_few_channels(workload: Workload) -> bool:
    """Returns whether a convolution's windows are rows of a few neighbouring entries."""
    if workload.operator.name != "conv2d":
        return False
    e = workload.extent
    return e["kw"] > 1 and e["kw"] * e["c"] <= MAX_TAPS and e["o"] % ir.LANES == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmDirectConvConfig(WasmConfig):
    """A register tile of `tile_x` pixels of a row of the output and `tile_o` of their channels."""

    family: ClassVar = "direct_conv"
    tile_x: int
    tile_o: int

    def fault(self, workload: Workload) -> str:
        if not has_few_channels(workload):
            return (
                f"only conv2d with at most {MAX_TAPS} products to a row of its windows, and output "
                f"channels in multiples of {ir.LANES}, reads images where they lie; use conv"
            )
        e = workload.extent
        if self.tile_o < ir.LANES or self.tile_o % ir.LANES or e["o"] % self.tile_o:
            return f"{ir.LANES} must divide tile_o={self.tile_o}, and that {e['o']}"
        return range_fault("tile_x", self.tile_x, 1, e["x"]) or tile_fault(
            self.tile_x, self.tile_o, unrolled=1
        )

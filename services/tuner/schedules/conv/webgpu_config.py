"""The settings of one kernel that slides windows over each channel by itself: depthwise
convolutions and pooling, for GPUs."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.faults import choice_fault, range_fault
from services.tuner.schedules.base.limits import WORKGROUP_THREADS
from services.tuner.schedules.base.webgpu_config import WebgpuConfig
from services.tuner.schedules.conv.channelwise import channelwise_of

MAX_TILE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuConvConfig(WebgpuConfig):
    """`threads` to a workgroup; each makes `tile_x` neighbouring pixels of four channels where
    `vec4`, else of one: four times the threads."""

    family: ClassVar = "conv"
    threads: int
    tile_x: int
    vec4: bool

    def fault(self, workload: Workload) -> str:
        windows = channelwise_of(workload)
        if self.vec4 and windows.size(windows.channel) % ir.LANES:
            return f"vec4 needs channels in multiples of {ir.LANES}; use false"
        most = min(MAX_TILE, windows.size(windows.x))
        return choice_fault("threads", self.threads, WORKGROUP_THREADS) or range_fault(
            "tile_x", self.tile_x, 1, most
        )

"""The settings of one kernel that slides windows over each channel by itself: depthwise
convolutions and pooling, for GPUs."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
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

    def workgroup_bytes_for(self, _: Workload) -> int:
        return 0

    def fault(self, workload: Workload) -> str:
        if self.threads not in WORKGROUP_THREADS:
            return f"threads={self.threads} must be one of {', '.join(map(str, WORKGROUP_THREADS))}"
        windows = channelwise_of(workload)
        most = min(MAX_TILE, windows.size(windows.x))
        if not 1 <= self.tile_x <= most:
            return f"tile_x={self.tile_x} must be from 1 to {most}"
        if self.vec4 and windows.size(windows.channel) % ir.LANES:
            return f"vec4 needs channels in multiples of {ir.LANES}; use false"
        return ""

"""The settings of one kernel that transposes a matrix, for WebGPU."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.faults import choice_fault
from services.tuner.schedules.base.limits import WORKGROUP_THREADS
from services.tuner.schedules.base.webgpu_config import WebgpuConfig

TILES = (8, 16, 32, 64)
MOST_STEPS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuTransposeConfig(WebgpuConfig):
    """A workgroup of `threads` transposes a block of `tile` x `tile`."""

    family: ClassVar = "transpose"
    tile: int
    threads: int

    @property
    def rows(self) -> int:
        """Rows of the tile that all threads read or write at once."""
        return self.threads // self.tile

    @property
    def elements(self) -> int:
        """Elements of the tile in workgroup memory, where its rows are one element longer."""
        return self.tile * (self.tile + 1)

    @property
    def workgroup_bytes(self) -> int:
        return DType.F32.size_bytes * self.elements

    def workgroup_bytes_for(self, _: Workload) -> int:
        return self.workgroup_bytes

    def fault(self, _: Workload) -> str:
        found = choice_fault("tile", self.tile, TILES) or choice_fault(
            "threads", self.threads, WORKGROUP_THREADS
        )
        if found:
            return found
        if not 1 <= self.rows <= self.tile or self.tile // self.rows > MOST_STEPS:
            return f"threads={self.threads} must be 1 to {self.tile} rows of the tile"
        return ""

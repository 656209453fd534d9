"""The settings of a kernel that finds the range of activations on WebGPU."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.faults import power_fault, range_fault
from services.tuner.schedules.base.limits import MAX_THREADS
from services.tuner.schedules.base.webgpu_config import WebgpuConfig

MAX_PARTS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuRangeConfig(WebgpuConfig):
    """`parts` workgroups of `threads` each find the range of a part; one workgroup of the second
    dispatch joins them."""

    family: ClassVar = "quantisation"
    threads: int
    parts: int

    def fault(self, workload: Workload) -> str:
        if self.parts > 1 and (self.parts - 1) * self.threads >= workload.tensors[0].elements:
            return f"parts={self.parts} leave a workgroup without entries"
        return power_fault("threads", self.threads, 32, MAX_THREADS) or range_fault(
            "parts", self.parts, 1, MAX_PARTS
        )

    def workgroup_bytes_for(self, _: Workload) -> int:
        return 2 * self.threads * DType.F32.size_bytes

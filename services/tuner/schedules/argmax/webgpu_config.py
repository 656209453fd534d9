"""The settings of a kernel that finds the largest of many entries."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.decoding import argmax_count
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.base.faults import power_fault, range_fault
from services.tuner.schedules.base.limits import MAX_THREADS
from services.tuner.schedules.base.webgpu_config import WebgpuConfig

MAX_PARTS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuArgmaxConfig(WebgpuConfig):
    """`parts` workgroups of `threads` each find the largest of a part; one workgroup of the second
    dispatch finds the largest of those. One part needs no second dispatch."""

    family: ClassVar = "argmax"
    threads: int
    parts: int

    def fault(self, workload: Workload) -> str:
        if self.parts > 1 and (self.parts - 1) * self.threads >= count_of(workload):
            return f"parts={self.parts} leave a workgroup without entries"
        return power_fault("threads", self.threads, 32, MAX_THREADS) or range_fault(
            "parts", self.parts, 1, MAX_PARTS
        )

    def workgroup_bytes_for(self, _: Workload) -> int:
        return 2 * self.threads * DType.F32.size_bytes


def count_of(workload: Workload) -> int:
    found = argmax_count(workload.program)
    if found is None:
        raise InvalidSchedule(f"{workload.key} is not the place of the largest of many entries")
    return found

"""The settings of a kernel for WebGPU that takes values in order."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.faults import choice_fault
from services.tuner.schedules.base.limits import required
from services.tuner.schedules.base.webgpu_config import WebgpuConfig

DIGIT_BITS = 4
DIGITS = 1 << DIGIT_BITS
THREADS = (128, 64, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuOrderedConfig(WebgpuConfig):
    """`threads` to a workgroup."""

    family: ClassVar = "ordered"
    threads: int

    def fault(self, _: Workload) -> str:
        return choice_fault("threads", self.threads, THREADS)

    def workgroup_bytes_for(self, _: Workload) -> int:
        """Counts the bytes for how often each thread meets each digit, and for where each digit
        starts."""
        return (self.threads + 1) * DIGITS * DType.I32.size_bytes

    def requires(self, workload: Workload) -> tuple[str, ...]:
        return required(workload, threads=self.threads)

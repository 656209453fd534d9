"""The settings of a kernel whose threads each make a few entries, from the operator as stated.

Any operator may be computed so, however many passes over memory it takes: a program of several loop
nests becomes several dispatches.
"""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner.passes.thread_binding import Stride
from services.tuner.schedules.base.faults import choice_fault, range_fault
from services.tuner.schedules.base.limits import WORKGROUP_THREADS
from services.tuner.schedules.base.webgpu_config import WebgpuConfig

MAX_VECTORS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuElementwiseConfig(WebgpuConfig):
    """`threads` to a workgroup; each makes four neighbours at once where `vec4` and possible, and
    does so `vectors` times, a `stride` apart."""

    family: ClassVar = "elementwise"
    threads: int
    vectors: int
    vec4: bool
    stride: Stride = Stride.BLOCK

    def fault(self, _: Workload) -> str:
        return choice_fault("threads", self.threads, WORKGROUP_THREADS) or range_fault(
            "vectors", self.vectors, 1, MAX_VECTORS
        )

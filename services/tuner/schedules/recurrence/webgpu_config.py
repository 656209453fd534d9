"""The settings of a recurrence on WebGPU."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.gpu import SOFTWARE_DRIVER
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.faults import choice_fault
from services.tuner.schedules.base.limits import WORKGROUP_BYTES, WORKGROUP_THREADS, required
from services.tuner.schedules.base.webgpu_config import WebgpuConfig
from services.tuner.schedules.recurrence.config import slices
from services.tuner.schedules.recurrence.slices import held_entries

SHARED_BYTES = (WORKGROUP_BYTES[0][0], SOFTWARE_DRIVER.workgroup_bytes)
"""Every adapter has the first, and a driver without any GPU compiles the second in two seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuRecurrenceConfig(WebgpuConfig):
    """A workgroup of so many `threads` makes a slice. Each sums one column of a product at once, or
    four with `vec4` where their number is a multiple of four. At most `shared_bytes` of what the
    slice holds lie in workgroup memory, the rest in scratch memory."""

    family: ClassVar = "recurrence"
    threads: int
    vec4: bool
    shared_bytes: int

    def fault(self, _: Workload) -> str:
        return choice_fault("threads", self.threads, WORKGROUP_THREADS) or choice_fault(
            "shared_bytes", self.shared_bytes, SHARED_BYTES
        )

    def workgroup_bytes_for(self, workload: Workload) -> int:
        held = held_entries(workload.program, 1)
        return sum(DType.F32.size_bytes * held[name][1] for name in self.shared(workload.program))

    def requires(self, workload: Workload) -> tuple[str, ...]:
        program = workload.program
        held, near = held_entries(program, 1), self.shared(program)
        scratch = max((size for name, (_, size) in held.items() if name not in near), default=0)
        return required(
            workload,
            threads=self.threads,
            workgroup_bytes=self.workgroup_bytes_for(workload),
            scratch_bytes=scratch * slices(program, 1) * DType.F32.size_bytes,
        )

    def shared(self, program: Program) -> frozenset[str]:
        """Names what lies in workgroup memory, as `held_entries` does: as much as there is room
        for, what products take first."""
        found, left = set(), self.shared_bytes
        entries = held_entries(program, 1)
        for name in sorted(entries, key=lambda n: (not n.endswith("entering"), entries[n][1])):
            size = DType.F32.size_bytes * entries[name][1]
            if size <= left:
                found.add(name)
                left -= size
        return frozenset(found)

"""The settings of one row-wise kernel for WebGPU: sums, means, norms, softmax."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.faults import choice_fault, power_fault, range_fault
from services.tuner.schedules.base.limits import MAX_THREADS
from services.tuner.schedules.base.webgpu_config import WebgpuConfig
from services.tuner.schedules.reduction.rows import rows_of

MAX_VECTORS = 16
RADICES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuReductionConfig(WebgpuConfig):
    """`threads_per_row` threads share a row, and a workgroup has `block_m` rows.

    A thread takes `vectors` of a row at a time, each next to those of its neighbours: a row that
    fits is read once and stays in registers. The threads of a row reduce what they have by a tree
    in workgroup memory, `radix` values at a time, or by `subgroups`, where `radix` is 1.
    """

    family: ClassVar = "reduction"
    threads_per_row: int
    block_m: int
    vectors: int
    radix: int
    subgroups: bool

    @property
    def threads(self) -> int:
        return self.threads_per_row * self.block_m

    @property
    def levels(self) -> tuple[int, ...]:
        """Values of a row that lie in workgroup memory, one level of the tree after another."""
        if self.threads_per_row == 1:
            return ()
        counts = [self.threads_per_row]
        while not self.subgroups and counts[-1] > self.radix:
            counts.append(max(1, counts[-1] // self.radix))
        return tuple(counts)

    def workgroup_bytes_for(self, workload: Workload) -> int:
        return 4 * len(rows_of(workload).passes) * self.block_m * sum(self.levels)

    def fault(self, workload: Workload) -> str:
        if min(self.threads_per_row, self.block_m) < 1 or self.threads > MAX_THREADS:
            return f"{self._shape} must be from 1 to {MAX_THREADS} threads"
        found = (
            power_fault("threads_per_row", self.threads_per_row, 1, MAX_THREADS)
            or range_fault("vectors", self.vectors, 1, MAX_VECTORS)
            or choice_fault("radix", self.radix, RADICES)
        )
        if found:
            return found
        if (self.radix == 1) is not (self.subgroups or self.threads_per_row == 1):
            return (
                "radix=1 is for subgroups and for threads_per_row=1; use 2 or more without, "
                "1 with them"
            )
        if self.threads_per_row == 1 and self.subgroups:
            return "threads_per_row=1 leaves nothing to reduce; use subgroups=false"
        rows = rows_of(workload)
        if self.threads_per_row > max(1, rows.n) or self.block_m > 2 * rows.m:
            return f"{self._shape} are more than there is to do"
        return ""

    @property
    def _shape(self) -> str:
        return f"threads_per_row={self.threads_per_row} and block_m={self.block_m}"


def width_of(workload: Workload) -> int:
    """Neighbours that are read at once: four where every row starts at a vector."""
    return 1 if rows_of(workload).n % ir.LANES else ir.LANES

"""The settings of one kernel that computes rows by themselves: sums, means, norms, softmax."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.faults import range_fault
from services.tuner.schedules.base.wasm_config import WasmConfig
from services.tuner.schedules.reduction.rows import rows_of

MAX_VECTORS = 8
MAX_BLOCK_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmReductionConfig(WasmConfig):
    """Each sum over a row is `vectors` of four lanes; the outermost loop takes `block_m` rows."""

    family: ClassVar = "reduction"
    vectors: int
    block_m: int

    @property
    def width(self) -> int:
        """Entries of a row that are taken at once."""
        return ir.LANES * self.vectors

    def fault(self, workload: Workload) -> str:
        rows = rows_of(workload).slices
        found = range_fault("block_m", self.block_m, 1, MAX_BLOCK_ROWS)
        if found or rows % self.block_m:
            return found or f"block_m={self.block_m} must divide {rows}"
        return range_fault("vectors", self.vectors, 1, MAX_VECTORS)

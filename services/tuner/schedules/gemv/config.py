"""The settings of one kernel of a contraction with few rows: it streams b once, row after row.

With few rows every entry of b is used a few times only, and reading it is what takes time. A loop
nest with sums in registers jumps from row to row of b; here a step of `unroll_k` rows of b passes
over `block_n` columns, and the sums of these columns stay in the first cache.
"""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.faults import range_fault
from services.tuner.schedules.base.wasm_config import WasmConfig

MAX_M = 4
MAX_UNROLL_K = 16
MAX_VECTORS = 4
MAX_BLOCK_COLUMNS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmGemvConfig(WasmConfig):
    """`unroll_k` rows of b to a step, `vectors` of four columns at once, `block_n` columns to a
    slice."""

    family: ClassVar = "gemv"
    unroll_k: int
    vectors: int
    block_n: int

    @property
    def width(self) -> int:
        return ir.LANES * self.vectors

    def range_extent(self, extents: Extents) -> int:
        """Iterations of the outermost loop."""
        return -(-extents.n // self.block_n)

    def fault(self, workload: Workload) -> str:
        extents = Extents.of(workload)
        found = range_fault("unroll_k", self.unroll_k, 1, MAX_UNROLL_K) or range_fault(
            "vectors", self.vectors, 1, MAX_VECTORS
        )
        if found or extents.k % self.unroll_k:
            return found or f"unroll_k={self.unroll_k} must divide {extents.k}"
        if self.block_n % self.width:
            return f"block_n={self.block_n} must be a multiple of {self.width}"
        return range_fault("block_n", self.block_n, 1, MAX_BLOCK_COLUMNS)

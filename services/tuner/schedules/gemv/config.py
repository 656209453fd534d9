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
        if not 1 <= self.unroll_k <= MAX_UNROLL_K or extents.k % self.unroll_k:
            return (
                f"unroll_k={self.unroll_k} must divide {extents.k} and be from 1 to {MAX_UNROLL_K}"
            )
        if not 1 <= self.vectors <= MAX_VECTORS:
            return f"vectors={self.vectors} must be from 1 to {MAX_VECTORS}"
        if not 1 <= self.block_n <= MAX_BLOCK_COLUMNS or self.block_n % self.width:
            return (
                f"block_n={self.block_n} must be a multiple of {self.width} and at most "
                f"{MAX_BLOCK_COLUMNS}"
            )
        return ""

"""The settings of one kernel of a product by Strassen's algorithm."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import PROGRAM, Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.wasm_config import (
    MAX_SCRATCH_BYTES,
    WasmConfig,
    tile_fault,
)

SUMS = 5
"""Sums of quarters that the seven products take of each operand."""
KEPT = 4
"""Results of products that more than one quarter of a tile of the output takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmStrassenMatmulConfig(WasmConfig):
    """The outermost loop takes `block_m` rows of each half of the output and `block_n` columns of
    each half. All of these rows pass by a panel of weights in register tiles of at most `tile_m` x
    `tile_n`, `unroll_k` terms to a body, before the next panel.
    """

    family: ClassVar = "strassen_matmul"
    tile_m: int
    tile_n: int
    unroll_k: int
    block_m: int
    block_n: int

    def range_extent(self, extents: Extents) -> int:
        return (extents.m // 2 // self.block_m) * (extents.n // 2 // self.block_n)

    def scratch_entries(self, k: int) -> int:
        """Sums of quarters of the rows of a block and of a panel, and a tile of results."""
        sums = SUMS * (k // 2) * (self.block_m + self.tile_n)
        return sums + KEPT * self.block_m * self.tile_n

    def fault(self, workload: Workload) -> str:
        extents = Extents.of(workload)
        if min(self.tile_m, self.tile_n, self.unroll_k, self.block_m, self.block_n) < 1:
            return "tiles, blocks and unroll_k start at 1"
        if workload.operator is PROGRAM or extents.batch or extents.a_transposed:
            return "only a matmul or a convolution of single pixels is cut; use matmul"
        if not extents.b_constant or extents.b_dtype is not DType.F32:
            return "only products with weights (constant=b in the key) of f32 are cut; use matmul"
        if extents.m % 2 or extents.m // 2 % self.block_m or self.tile_m > self.block_m:
            return (
                f"block_m={self.block_m} must divide half of {extents.m} rows and hold "
                f"tile_m={self.tile_m}"
            )
        if found := tile_fault(self.tile_m, self.tile_n, self.unroll_k):
            return found
        if extents.k % (2 * ir.LANES) or extents.k // 2 % self.unroll_k:
            return (
                f"{2 * ir.LANES} must divide {extents.k}, and unroll_k={self.unroll_k} half of it"
            )
        if self.block_n % self.tile_n or extents.n % (2 * self.block_n):
            return (
                f"tile_n={self.tile_n} must divide block_n={self.block_n}, and that half of "
                f"{extents.n}"
            )
        if 4 * self.scratch_entries(extents.k) > MAX_SCRATCH_BYTES:
            return f"block_m={self.block_m} takes more than {MAX_SCRATCH_BYTES} bytes of scratch"
        return ""

"""The settings of one kernel of a product that reads its weights ahead."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import PROGRAM, Workload
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.wasm_config import WasmConfig, tile_fault

LINE_WORDS = 16
"""Words in a line of a cache; reading one of them brings all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmPrefetchingMatmulConfig(WasmConfig):
    """The outermost loop takes `block_n` columns. All rows pass by a panel of weights in register
    tiles of at most `tile_m` x `tile_n`, `unroll_k` terms to a body, before the next panel.
    """

    family: ClassVar = "prefetching_matmul"
    tile_m: int
    tile_n: int
    unroll_k: int
    block_n: int

    def step(self, m: int) -> int:
        """Words of the next panel from one body's read to that of the next body, so that the tiles
        of `m` rows read all of it."""
        return -(-self.unroll_k * self.tile_n // -(-m // self.tile_m))

    def fault(self, workload: Workload) -> str:
        extents = Extents.of(workload)
        if min(self.tile_m, self.tile_n, self.unroll_k, self.block_n) < 1:
            return "tiles, blocks and unroll_k start at 1"
        if workload.operator is PROGRAM or extents.batch or extents.a_transposed:
            return "only a matmul or a convolution of single pixels reads weights ahead; use matmul"
        if not extents.b_constant or extents.b_dtype is not DType.F32:
            return "only weights (constant=b in the key) of f32 are read ahead; use matmul"
        if found := tile_fault(self.tile_m, self.tile_n, self.unroll_k):
            return found
        if self.tile_m > extents.m:
            return f"tile_m={self.tile_m} must be at most {extents.m} rows"
        if self.step(extents.m) > LINE_WORDS:
            return f"the tiles of {extents.m} rows are too few to read a panel ahead; use matmul"
        if extents.k % self.unroll_k:
            return f"unroll_k={self.unroll_k} must divide {extents.k}"
        if self.block_n % self.tile_n or extents.n % self.block_n:
            return f"tile_n={self.tile_n} must divide block_n={self.block_n}, and that {extents.n}"
        return ""

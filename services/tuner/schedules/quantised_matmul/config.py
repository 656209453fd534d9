"""The settings of a product of many rows with quantised weights on WebAssembly."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.quantised import (
    FEW_ROWS_WASM,
    QuantisedProduct,
    quantised_product_of,
)
from services.tuner.schedules.base.wasm_config import WasmConfig

MAX_TILE_VECTORS = 12
"""Sums that a tile keeps in registers."""
MAX_UNROLL_K = 8
MAX_SCRATCH_BYTES = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmQuantisedMatmulConfig(WasmConfig):
    """A slice takes `block_n` rows of the weights, which it unpacks first. `tile_m` rows of a and
    `tile_n` of the weights make the sums that are in registers, `unroll_k` terms at once."""

    family: ClassVar = "quantised_matmul"
    tile_m: int
    tile_n: int
    block_n: int
    unroll_k: int

    def fault(self, workload: Workload) -> str:
        product = quantised_product_of(workload)
        if not unpacks(product):
            return "it needs many rows that are not normalised, and blocks of equal size"
        vectors = self.tile_m * self.tile_n * len(product.weights) // ir.LANES
        if self.tile_m < 1 or self.tile_n % ir.LANES or not 1 <= vectors <= MAX_TILE_VECTORS:
            return f"a tile of {self.tile_m}x{self.tile_n} makes 0 or too many sums"
        if self.block_n < 1 or product.n % self.block_n or self.block_n % self.tile_n:
            return f"block_n={self.block_n} must divide {product.n}, and tile_n divide it"
        if not 1 <= self.unroll_k <= MAX_UNROLL_K or product.k % self.unroll_k:
            return f"unroll_k={self.unroll_k} must divide {product.k} and be at most {MAX_UNROLL_K}"
        if 4 * len(product.weights) * self.block_n * product.k > MAX_SCRATCH_BYTES:
            return f"block_n={self.block_n} takes more than {MAX_SCRATCH_BYTES} bytes of scratch"
        return ""


def unpacks(product: QuantisedProduct) -> bool:
    """Returns whether it has rows enough for weights to be unpacked first, four rows of them at a
    time."""
    return (
        product.m > FEW_ROWS_WASM
        and product.norm is None
        and product.k % product.form.block == 0
        and product.n % ir.LANES == 0
    )

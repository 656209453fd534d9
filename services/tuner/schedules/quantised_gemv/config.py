"""The settings of a product of few rows with quantised weights on WebAssembly."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.operators.quantised import ROW_STEP
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.quantised import (
    FEW_ROWS_WASM,
    QuantisedProduct,
    quantised_product_of,
)
from services.tuner.schedules.base.wasm_config import WasmConfig

MAX_SUMS = 8
"""Sums of four lanes at once; each needs a product and a vector of words beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmQuantisedGemvConfig(WasmConfig):
    """`tile_n` rows of the weights at once, `block_n` of them to a slice, which puts the
    activations in order for itself."""

    family: ClassVar = "quantised_gemv"
    tile_n: int
    block_n: int

    def fault(self, workload: Workload) -> str:
        product = quantised_product_of(workload)
        if not streams(product):
            return "the blocks of a row's weights must be equal, of a multiple of 32 weights"
        if not 1 <= self.tile_n * len(product.weights) * product.m <= MAX_SUMS:
            return f"tile_n={self.tile_n} makes 0 or more than {MAX_SUMS} sums"
        if self.block_n < 1 or product.n % self.block_n or self.block_n % (ir.LANES * self.tile_n):
            return (
                f"block_n={self.block_n} must divide {product.n} and be a multiple of "
                f"{ir.LANES * self.tile_n}"
            )
        return ""


def streams(product: QuantisedProduct) -> bool:
    """Returns whether it has few rows, and weights that are taken 32 at a time."""
    block = product.form.block
    return (
        product.m <= FEW_ROWS_WASM
        and block % ROW_STEP == 0
        and product.k % block == 0
        and product.n % ir.LANES == 0
    )

"""The settings of a product of integers on WebAssembly."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.integer_product import IntegerProduct, integer_product_of
from services.tuner.schedules.base.settings import BASE, RELAXED
from services.tuner.schedules.base.wasm_config import MAX_PANEL_COLUMNS, WasmConfig

MAX_TILE_VECTORS = 16
"""Sums that a tile keeps in registers."""
MAX_UNROLLED_DOTS = 192
MAX_SCRATCH_BYTES = 1 << 24
SEVEN_BITS = 64
"""Weights of 7 bits are from -64 to 63."""


class Dot(StrEnum):
    """Products are summed by one of two instructions: of two i16 in each lane, which is exact of
    all weights, or of four i8, which relaxed SIMD has and which is exact of weights of 7 bits. Or
    relaxed SIMD sums two products of i8 as an i16, and then two of these: fewer instructions on
    x86 without VNNI. Where a device has the feature, that of four is exact of all bytes, whose
    operand on the right is one of numbers with sign (`quads_of_i8`) or without (`quads_of_u8`)."""

    PAIRS = "pairs"
    QUADS = "quads"
    QUADS_IN_TWO = "quads_in_two"
    QUADS_OF_I8 = "quads_of_i8"
    QUADS_OF_U8 = "quads_of_u8"


FEATURES = {Dot.QUADS_OF_I8: "dot-of-i8", Dot.QUADS_OF_U8: "dot-of-u8"}
"""A device must have these for dot products of all bytes."""
OF_SEVEN_BITS = (Dot.QUADS, Dot.QUADS_IN_TWO)


class Slices(StrEnum):
    """A slice takes rows of a and all columns, or columns and all rows."""

    ROWS = "m"
    COLUMNS = "n"


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmIntegerMatmulConfig(WasmConfig):
    """A slice takes `block_m` rows or `block_n` columns. `tile_m` rows and a panel of `tile_n`
    columns make the sums that are in registers, from `unroll_k` words of each at once. `packed`:
    b lies in panels, else each slice copies it there. `prepared`: a slice makes what dot products
    take of a panel before its rows pass, else each tile does. `fma` stands for relaxed SIMD, which
    quads need; sums of reals are rounded twice with either."""

    family: ClassVar = "integer_matmul"
    tile_m: int
    tile_n: int
    block_m: int
    block_n: int
    unroll_k: int
    dot: Dot
    outer: Slices
    packed: bool
    prepared: bool

    @property
    def requires(self) -> tuple[str, ...]:
        if self.dot in FEATURES:
            return (FEATURES[self.dot], *RELAXED)
        return RELAXED if self.fma else BASE

    def fault(self, workload: Workload) -> str:
        product = integer_product_of(workload)
        vectors = self.tile_n // ir.LANES
        if self.tile_m < 1 or self.tile_n % ir.LANES or self.tile_n < ir.LANES:
            return f"a tile of {self.tile_m}x{self.tile_n} must have whole vectors of columns"
        if self.tile_m * vectors > MAX_TILE_VECTORS or self.tile_n > MAX_PANEL_COLUMNS:
            return f"a tile of {self.tile_m}x{self.tile_n} has too many sums for registers"
        dots = 2 * self.tile_m * vectors * self.unroll_k
        if self.unroll_k < 1 or product.words % self.unroll_k or dots > MAX_UNROLLED_DOTS:
            return f"unroll_k={self.unroll_k} must divide {product.words} and be smaller"
        if self.fma is (self.dot is Dot.PAIRS):
            return "quads need relaxed SIMD, which is told as fma, and pairs do not"
        if self.dot in OF_SEVEN_BITS and not has_seven_bits(workload):
            return f"{self.dot} is exact of weights of 7 bits alone; use pairs"
        if self.dot in FEATURES and self.prepared:
            return f"{self.dot} takes weights as they lie, so that there is nothing to prepare"
        if self.packed and "b" not in workload.constant:
            return "packed needs constant=b in the key"
        return self._block_fault(product)

    def _block_fault(self, product: IntegerProduct) -> str:
        if self.outer is Slices.ROWS:
            if self.block_m < 1 or self.block_m % self.tile_m or self.block_n != product.n:
                return "slices of rows take whole tiles of them, and block_n is all columns"
            rows = self.block_m
        else:
            panels = self.block_n // self.tile_n
            if panels < 1 or self.block_n % self.tile_n or self.block_m != product.m:
                return "slices of columns take whole panels, and block_m is all rows"
            if (product.n // self.tile_n) % panels and product.n >= self.tile_n:
                return f"block_n={self.block_n} must divide the whole panels of {product.n}"
            rows = product.m
        copied = 0 if self.packed else self.tile_n * product.k
        scratch = rows * product.k * 2 + copied
        if scratch > MAX_SCRATCH_BYTES:
            return f"a slice takes more than {MAX_SCRATCH_BYTES} bytes of scratch"
        return ""


def has_seven_bits(workload: Workload) -> bool:
    """Returns whether the key tells that weights are of 7 bits."""
    return 0 < workload.tensors[1].limit <= SEVEN_BITS

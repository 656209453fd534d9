"""The settings of a product of few rows with quantised weights."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import ROW_STEP
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.faults import choice_fault, power_fault
from services.tuner.schedules.base.limits import WORKGROUP_THREADS
from services.tuner.schedules.base.quantised import QuantisedProduct, quantised_product_of
from services.tuner.schedules.base.row_threads import shared_bytes
from services.tuner.schedules.base.webgpu_config import WebgpuConfig
from services.tuner.schedules.quantised_gemv.slots import SLOTS

MAX_SUMS = 16
"""Sums of four lanes that a thread keeps in registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuQuantisedGemvConfig(WebgpuConfig):
    """`threads_per_row` of the `threads` of a workgroup share a row of the weights, and take its
    stretches in turn; each of them has `tile_n` rows. Activations lie in workgroup memory,
    `block_k` of a row at a time; with 0 each thread reads its own where they lie. A row's threads
    add up by `subgroups` or through workgroup memory."""

    family: ClassVar = "quantised_gemv"
    threads: int
    threads_per_row: int
    tile_n: int
    block_k: int
    subgroups: bool

    @property
    def row_tiles(self) -> int:
        """Tiles of `tile_n` rows that the threads of a workgroup share, `threads_per_row` each."""
        return self.threads // self.threads_per_row

    @property
    def block_n(self) -> int:
        """Rows of the weights to a workgroup."""
        return self.row_tiles * self.tile_n

    @property
    def pitch(self) -> int:
        """Vectors from one slot of the activations to the next: never a multiple of eight, so that
        the slots of a stretch lie in different banks."""
        blocks = self.block_k // ROW_STEP
        return blocks + (blocks % SLOTS == 0)

    def fault(self, workload: Workload) -> str:
        product = quantised_product_of(workload)
        found = choice_fault("threads", self.threads, WORKGROUP_THREADS) or power_fault(
            "threads_per_row", self.threads_per_row, 1, self.threads
        )
        if found:
            return found
        if not 1 <= self.tile_n <= MAX_SUMS or _sums(product, self.tile_n) > MAX_SUMS:
            return f"tile_n={self.tile_n} makes a thread keep 0 or more than {MAX_SUMS} sums"
        if self.block_k == 0 and product.m > 1:
            return f"block_k=0 is for one row of activations; there are {product.m}"
        if self.block_k < 0 or self.block_k % ROW_STEP or product.k % (self.block_k or product.k):
            return (
                f"block_k={self.block_k} must be a multiple of {ROW_STEP} that divides {product.k}"
            )
        if self.threads_per_row == 1 and self.subgroups:
            return "threads_per_row=1 leaves nothing to reduce; use subgroups=false"
        return ""

    def sums(self, workload: Workload) -> int:
        """Sums of four lanes each that a thread keeps in registers."""
        return _sums(quantised_product_of(workload), self.tile_n)

    def workgroup_bytes_for(self, workload: Workload) -> int:
        product = quantised_product_of(workload)
        staged = (
            0 if self.block_k == 0 else product.m * SLOTS * self.pitch * 4 * DType.F32.size_bytes
        )
        sums = shared_bytes(
            self.threads_per_row,
            self.row_tiles,
            _sums(product, self.tile_n)
            + (0 if self.block_k or product.norm is None else product.m),
            subgroups=self.subgroups,
        )
        if product.norm is not None and self.block_k:
            sums += shared_bytes(self.threads, 1, product.m, subgroups=self.subgroups)
        return staged + sums


def _sums(product: QuantisedProduct, tile_n: int) -> int:
    return len(product.weights) * tile_n * product.m

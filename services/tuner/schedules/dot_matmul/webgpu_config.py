"""The settings of a product of integers on WebGPU that multiplies four bytes at once."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.integer_product import IntegerProduct, integer_product_of
from services.tuner.schedules.base.limits import required
from services.tuner.schedules.matmul.statements import statements_of
from services.tuner.schedules.matmul.webgpu_config import WebgpuMatmulConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuDotMatmulConfig(WebgpuMatmulConfig):
    """The settings of a product of reals, where k counts words of four bytes."""

    family: ClassVar = "dot_matmul"

    def fault(self, workload: Workload) -> str:
        product = integer_product_of(workload)
        if product.b_zero:
            return "weights have zero points, for which sums of rows are wanted; use integer_matmul"
        return self.fault_of(extents_in_words(product))

    def requires(self, workload: Workload) -> tuple[str, ...]:
        return required(
            workload,
            threads=self.threads,
            workgroup_bytes=self.workgroup_bytes,
            scratch_bytes=self.scratch_bytes(extents_in_words(integer_product_of(workload))),
            dots=True,
        )

    def statements(self, workload: Workload) -> int:
        """A vector of products is four dot products."""
        extents = extents_in_words(integer_product_of(workload))
        vectors = self.tile_m * self.tile_n * self.unroll_k // ir.LANES
        return statements_of(self, extents, None) + (ir.LANES - 1) * vectors


def extents_in_words(product: IntegerProduct) -> Extents:
    """The extents of a product of matrices of words, the second of which is transposed."""
    return Extents(batch=0, m=product.m, k=product.words, n=product.n, b_transposed=True)

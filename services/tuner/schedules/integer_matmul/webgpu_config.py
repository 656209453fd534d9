"""The settings of a product of integers on WebGPU."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.integer_product import integer_product_of
from services.tuner.schedules.base.limits import MAX_THREADS
from services.tuner.schedules.base.webgpu_config import WebgpuConfig

MAX_TILE = 8
MAX_TILE_ENTRIES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuIntegerMatmulConfig(WebgpuConfig):
    """A thread makes `tile_m` x `tile_n` entries, of vectors of words that it reads from
    storage."""

    family: ClassVar = "integer_matmul"
    threads: int
    tile_m: int
    tile_n: int

    def fault(self, workload: Workload) -> str:
        if self.threads & (self.threads - 1) or not 32 <= self.threads <= MAX_THREADS:
            return f"threads={self.threads} must be a power of two from 32 to {MAX_THREADS}"
        if not (1 <= self.tile_m <= MAX_TILE and 1 <= self.tile_n <= MAX_TILE):
            return f"a tile of {self.tile_m}x{self.tile_n} must have from 1 to {MAX_TILE} of each"
        if self.tile_m * self.tile_n > MAX_TILE_ENTRIES:
            return f"a tile of {self.tile_m}x{self.tile_n} has more than {MAX_TILE_ENTRIES} entries"
        if integer_product_of(workload).words % ir.LANES:
            return "rows must be whole vectors of words"
        return ""

    def workgroup_bytes_for(self, _: Workload) -> int:
        return 0

    def statements(self, _: Workload) -> int:
        """Products with what is taken out of words, and stores."""
        products = ir.LANES * (2 * self.tile_n + self.tile_m * (2 + self.tile_n))
        return products + 12 * self.tile_m * self.tile_n

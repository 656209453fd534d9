"""The settings of a product of many rows with quantised weights."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import ROW_STEP
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.faults import choice_fault, range_fault
from services.tuner.schedules.base.limits import WORKGROUP_BYTES, WORKGROUP_THREADS
from services.tuner.schedules.base.quantised import quantised_product_of
from services.tuner.schedules.base.webgpu_config import WebgpuConfig

TILES = (4, 8)
SPLITS = (1, 2, 3, 4, 7, 8, 16)
THREADS = (16, *WORKGROUP_THREADS)
"""Two products of the smallest blocks take 6 KiB of workgroup memory, by 16 threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuQuantisedMatmulConfig(WebgpuConfig):
    """A workgroup has `block_m` rows of a and `block_n` of the weights; each of its threads has
    `tile_m` by `tile_n` sums. Of k it takes 32 at a time. `split_k` workgroups share
    the sum of an entry, each with its part of k: a second dispatch adds their sums up."""

    family: ClassVar = "quantised_matmul"
    block_m: int
    block_n: int
    tile_m: int
    tile_n: int
    split_k: int

    @property
    def threads(self) -> int:
        return self.block_m // self.tile_m * (self.block_n // self.tile_n)

    def fault(self, workload: Workload) -> str:
        if self.tile_m not in TILES or self.tile_n not in TILES:
            return f"tile_m={self.tile_m} and tile_n={self.tile_n} must be 4 or 8"
        found = range_fault("block_m", self.block_m, ir.LANES, 256) or range_fault(
            "block_n", self.block_n, ir.LANES, 256
        )
        if found:
            return found
        if self.block_m % self.tile_m or self.block_n % self.tile_n:
            return "block_m and block_n must be multiples of tile_m and tile_n"
        if found := choice_fault("threads", self.threads, THREADS):
            return found
        product = quantised_product_of(workload)
        if self.split_k not in SPLITS or product.k // ROW_STEP % self.split_k:
            return (
                f"split_k={self.split_k} must be one of {', '.join(map(str, SPLITS))} that divides "
                f"the {product.k // ROW_STEP} stretches of k"
            )
        if self.split_k > 1 and product.n % ir.LANES:
            return f"split_k={self.split_k} wants columns in fours, not {product.n}"
        return ""

    def pitches(self, workload: Workload) -> tuple[int, int]:
        """Entries from one row of k to the next in workgroup memory, of a and of the weights.
        Threads side by side store such rows: of large blocks they are set apart, so that they lie
        in different banks, unless that needs more memory than every adapter has."""
        plain = self.block_m, self.block_n
        apart = (
            self.block_m + ir.LANES * (self.block_m >= 64),
            self.block_n + ir.LANES * (self.block_n >= 32),
        )
        steps = {_step(_bytes(pitches, workload)) for pitches in (plain, apart)}
        return apart if len(steps) == 1 else plain

    def workgroup_bytes_for(self, workload: Workload) -> int:
        return _bytes(self.pitches(workload), workload)


def _bytes(pitches: tuple[int, int], workload: Workload) -> int:
    products = len(quantised_product_of(workload).weights)
    return (pitches[0] + products * pitches[1]) * ROW_STEP * DType.F32.size_bytes


def _step(wanted: int) -> int:
    return sum(wanted > most for most, _ in WORKGROUP_BYTES)

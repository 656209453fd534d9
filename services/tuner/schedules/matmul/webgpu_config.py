"""The settings of one matrix product for WebGPU: nnJIT's Table 1 and 2, as a value.

Table 1 names tiles 0 for a thread and 1 for a workgroup: `tile_m` is x0, `tile_n` y0, `unroll_k`
r0, `block_m` x1, `block_n` y1 and `block_k` r1.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import ClassVar

from kernelzoo.domain.workload import KEY_DTYPES, Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.implicit_gemm import product_extents, window_of
from services.tuner.schedules.base.limits import MAX_THREADS, required
from services.tuner.schedules.base.webgpu_config import Cache, WebgpuConfig
from services.tuner.schedules.matmul.statements import statements_of

MAX_TILE = 128
MAX_UNROLLED_PRODUCTS = 2048
MAX_STAGED = 64
MAX_SPLIT = 64
MAX_SCRATCH_BYTES = 1 << 26
BANK_BYTES = 128


class Prefetch(StrEnum):
    """The next block of k goes to one of these while threads work on this one: nowhere; into
    registers; or into registers and then beside this one in workgroup memory (double buffering),
    which saves a barrier."""

    NONE = "none"
    REGISTERS = "registers"
    BLOCKS = "blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuMatmulConfig(WebgpuConfig):
    """A workgroup computes block_m x block_n entries, each of its threads tile_m x tile_n of them.

    `block_k` is what a workgroup reads at a time, `unroll_k` what the loop body does at once.
    `sliced_k` threads share the sum of an entry: each has its slice of every block of k, and they
    add their sums up in workgroup memory. `split_k` workgroups share it as well, each with its part
    of k: a second dispatch adds their sums up. Workgroups take `group_m` rows of blocks at a time,
    so that those that run together read the same columns of b.
    """

    family: ClassVar = "matmul"
    block_m: int
    block_n: int
    block_k: int
    tile_m: int
    tile_n: int
    unroll_k: int
    cache: Cache
    prefetch: Prefetch
    sliced_k: int
    split_k: int
    group_m: int

    @property
    def thread_rows(self) -> int:
        """Rows of tiles in a block."""
        return self.block_m // self.tile_m

    @property
    def thread_columns(self) -> int:
        """Columns of tiles in a block."""
        return self.block_n // self.tile_n

    @property
    def threads(self) -> int:
        return self.thread_rows * self.thread_columns * self.sliced_k

    @property
    def a_stride(self) -> int:
        """Elements from row to row of a in workgroup memory, so that rows that are read at once lie
        in different banks."""
        if self.cache is Cache.TRANSPOSED:
            return self.block_m + ir.LANES
        rows = min(self.thread_rows, max(1, 32 // self.thread_columns))
        places = {4 * row * self.block_k % BANK_BYTES // 16 for row in range(rows)}
        return self.block_k + (0 if len(places) == rows else ir.LANES)

    @property
    def slice_k(self) -> int:
        """The k of a block that each of the threads that share a sum has."""
        return self.block_k // self.sliced_k

    @property
    def block_elements(self) -> int:
        """Elements of blocks of a and b in workgroup memory."""
        if self.cache is Cache.NONE:
            return 0
        rows = self.block_k if self.cache is Cache.TRANSPOSED else self.block_m
        blocks = 2 if self.prefetch is Prefetch.BLOCKS else 1
        return blocks * (rows * self.a_stride + self.block_k * self.block_n)

    @property
    def sum_slots(self) -> int:
        """Slices of sliced-K whose sums are in workgroup memory at once: all but one, or as many as
        fit where blocks were, but at least half of all."""
        if self.cache is Cache.NONE:
            return self.sliced_k - 1
        fitting = self.block_elements // (self.block_m * self.block_n)
        return min(self.sliced_k - 1, max(fitting, self.sliced_k // 2))

    @property
    def workgroup_bytes(self) -> int:
        """The sums of sliced-K take the place of blocks."""
        if self.sliced_k == 1:
            return 4 * self.block_elements
        sums = self.sum_slots * self.block_m * self.block_n
        return 4 * max(self.block_elements, sums)

    def k_blocks(self, extents: Extents) -> int:
        return -(-extents.k // self.block_k)

    def blocks(self, extents: Extents) -> tuple[int, int, int]:
        """Blocks along the batch, m and n."""
        return (max(1, extents.batch), -(-extents.m // self.block_m), -(-extents.n // self.block_n))

    def workgroups(self, extents: Extents) -> int:
        return self.split_k * prod(self.blocks(extents))

    def scratch_bytes(self, extents: Extents) -> int:
        entries = max(1, extents.batch) * extents.m * extents.n
        return 4 * self.split_k * entries if self.split_k > 1 else 0

    def workgroup_bytes_for(self, _: Workload) -> int:
        return self.workgroup_bytes

    def requires(self, workload: Workload) -> tuple[str, ...]:
        return required(
            workload,
            threads=self.threads,
            workgroup_bytes=self.workgroup_bytes,
            scratch_bytes=self.scratch_bytes(product_extents(workload)),
        )

    def statements(self, workload: Workload) -> int:
        window = window_of(workload, ir.LANES)
        return statements_of(self, product_extents(workload), window)

    def fault(self, workload: Workload) -> str:
        return self.fault_of(product_extents(workload))

    def fault_of(self, extents: Extents) -> str:
        """Says what makes the config unusable for a product of these extents, or ''."""
        counts = [
            value for name in self.__dataclass_fields__ if type(value := getattr(self, name)) is int
        ]
        if min(counts) < 1 or max(counts) > 1 << 16:
            return "every count of a config is from 1 to 65536"
        if extents.b_dtype not in KEY_DTYPES:
            return "b is read in vectors of f32 or f16; use a thread for each entry"
        return self._tile_fault() or self._block_fault(extents)

    def _tile_fault(self) -> str:
        if self.tile_n % ir.LANES or self.tile_m * self.tile_n > MAX_TILE:
            return (
                f"a thread's tile of {self.tile_m}x{self.tile_n} must have tile_n a multiple of "
                f"{ir.LANES} and at most {MAX_TILE} entries"
            )
        if self.block_m % self.tile_m or self.block_n % self.tile_n:
            return f"a block of {self.block_m}x{self.block_n} must be whole tiles"
        if self.threads > MAX_THREADS:
            return f"{self.threads} threads to a workgroup are too many; use at most {MAX_THREADS}"
        if self.unroll_k % ir.LANES or self.block_k % (self.unroll_k * self.sliced_k):
            return (
                f"unroll_k={self.unroll_k} must be a multiple of {ir.LANES} and divide "
                "block_k/sliced_k"
            )
        if self.tile_m * self.tile_n * self.unroll_k > MAX_UNROLLED_PRODUCTS:
            return (
                f"unroll_k={self.unroll_k} is too large; use at most {MAX_UNROLLED_PRODUCTS} "
                "products in the loop body"
            )
        if self.cache is Cache.TRANSPOSED and (self.tile_m % ir.LANES or self.block_m % ir.LANES):
            return f"cache=transposed needs tile_m in multiples of {ir.LANES}"
        return self._memory_fault()

    def _memory_fault(self) -> str:
        if self.cache is Cache.NONE:
            if self.block_k != self.unroll_k * self.sliced_k or self.prefetch is not Prefetch.NONE:
                return "cache=none has block_k=unroll_k·sliced_k and no prefetch"
            return ""
        staged = (self.block_m + self.block_n) * self.block_k / self.threads
        if staged > MAX_STAGED * ir.LANES:
            return f"{staged:.0f} elements of a block to a thread are too many"
        return ""

    def _block_fault(self, extents: Extents) -> str:
        if extents.a_transposed and self.cache is Cache.ROWS:
            return "a is stored transposed; use cache=transposed or none"
        if extents.a_transposed and self.tile_m % ir.LANES:
            return f"a is stored transposed; use tile_m in multiples of {ir.LANES}"
        if self.split_k > MAX_SPLIT or self.k_blocks(extents) % self.split_k:
            return (
                f"split_k={self.split_k} must divide {self.k_blocks(extents)} blocks and be at "
                f"most {MAX_SPLIT}"
            )
        if self.blocks(extents)[1] % self.group_m:
            return f"group_m={self.group_m} must divide {self.blocks(extents)[1]} rows of blocks"
        if self.scratch_bytes(extents) > MAX_SCRATCH_BYTES:
            return (
                f"split_k={self.split_k} keeps {self.scratch_bytes(extents)} bytes of partial "
                f"sums; at most {MAX_SCRATCH_BYTES} are allowed"
            )
        return ""

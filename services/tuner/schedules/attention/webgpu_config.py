"""The settings of one kernel of attention of many rows for WebGPU."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.attention import LANES, ManyRowsAttention
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.attention.config import attends
from services.tuner.schedules.base.row_threads import shared_bytes
from services.tuner.schedules.base.webgpu_config import Cache, WebgpuConfig

MOST_PARTS = 16
"""Workgroups that share the keys of a query."""
FEWEST_THREADS, MOST_THREADS = 32, 512
"""Threads of a workgroup."""

MAX_THREADS_PER_ROW = 32
MAX_SCORES = 32
MAX_OUTPUTS = 128
"""Entries that a thread has of scores, and of outputs."""

MAX_COPIED = 16
"""Vectors that a thread copies of queries, of a block of keys, of values, or of outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuAttentionConfig(WebgpuConfig):
    """A workgroup has `block_m` queries of one head and passes over the keys, `block_n` at a time,
    of which each of `sliced_n` groups of its threads has a slice. `threads_per_row` threads share
    `tile_m` queries: they find the largest score by `subgroups` or through workgroup memory. By
    `cache`, queries, keys and values are read from there (rows) or from storage (none).
    """

    family: ClassVar = "attention"
    block_m: int
    block_n: int
    tile_m: int
    threads_per_row: int
    sliced_n: int
    cache: Cache
    subgroups: bool

    @property
    def thread_rows(self) -> int:
        """Groups of threads of a slice that share queries."""
        return self.block_m // self.tile_m

    @property
    def threads(self) -> int:
        return self.sliced_n * self.thread_rows * self.threads_per_row

    @property
    def slice_n(self) -> int:
        """Keys of a block that a slice has."""
        return self.block_n // self.sliced_n

    @property
    def tile_n(self) -> int:
        """Keys of a block that a thread has."""
        return self.slice_n // self.threads_per_row

    @property
    def shares_rows(self) -> bool:
        return self.threads_per_row > 1

    @property
    def power_stride(self) -> int:
        """Elements from key to key of powers in workgroup memory: an odd number of vectors, so that
        those that are written at once lie in different banks."""
        return LANES * (self.block_m // LANES | 1)

    @property
    def parts(self) -> int:
        """Workgroups that share the keys of their queries."""
        return 1

    def blocks(self, given: ManyRowsAttention) -> int:
        """Blocks of keys that a workgroup passes over."""
        return -(-given.n // (self.block_n * self.parts))

    def outputs(self, given: ManyRowsAttention) -> int:
        """Vectors of a row of the output that a thread has."""
        return -(-given.width // (LANES * self.threads_per_row))

    @staticmethod
    def given(workload: Workload) -> ManyRowsAttention:
        """Raises InvalidSchedule for a workload that is no such attention."""
        return attends(workload)

    def fault(self, workload: Workload) -> str:
        given = self.given(workload)
        if not given.in_quads:
            return f"rows of {workload.key} are not whole vectors; use a thread for each entry"
        counts = (self.block_m, self.block_n, self.tile_m, self.threads_per_row, self.sliced_n)
        if min(counts) < 1 or self.threads_per_row.bit_count() != 1:
            return "every count starts at 1, and threads_per_row is a power of two"
        if self.block_m % self.tile_m or self.block_n % (self.sliced_n * self.threads_per_row):
            return (
                f"block_m={self.block_m} must be whole tiles of {self.tile_m} rows, "
                f"block_n={self.block_n} as many keys for each thread of a row"
            )
        if self.shares_rows and self.tile_m % LANES:
            return f"tile_m={self.tile_m} must be a multiple of {LANES} where threads share rows"
        return self._size_fault(given)

    def _size_fault(self, given: ManyRowsAttention) -> str:
        few, most = FEWEST_THREADS, MOST_THREADS
        if not few <= self.threads <= most or self.threads_per_row > MAX_THREADS_PER_ROW:
            return (
                f"{self.threads} threads must be {few} to {most}, at most {MAX_THREADS_PER_ROW} of "
                "them to a row"
            )
        outputs = self.tile_m * self.outputs(given) * LANES
        if self.tile_m * self.tile_n > MAX_SCORES or outputs > MAX_OUTPUTS:
            return f"tile_m={self.tile_m} takes too many scores or outputs to a thread"
        if self.cache is Cache.TRANSPOSED:
            return "keys are read in rows; use cache=rows or none"
        if self.subgroups and not self.shares_rows:
            return "subgroups=True with one thread to a row has nothing to add up"
        rows = max(self.block_m, self.block_n) if self.cache is Cache.ROWS else self.block_m
        copied = rows * max(given.head_dim, given.width)
        copies = self.cache is Cache.ROWS or self.sliced_n > 1
        if copies and copied > MAX_COPIED * LANES * self.threads:
            return f"{self.threads} threads are too few to copy {rows} queries or keys"
        return ""

    def row_stride(self, given: ManyRowsAttention) -> int:
        """Elements from row to row of queries and keys in workgroup memory: an odd number of
        vectors, so that a vector of each of eight rows is read at once."""
        return LANES * (given.head_dim // LANES | 1)

    def memory(self, given: ManyRowsAttention) -> "AttentionMemory":
        """Places everything in workgroup memory."""
        queries = keys = values = 0
        if self.cache is Cache.ROWS:
            queries, keys = (n * self.row_stride(given) for n in (self.block_m, self.block_n))
            values = self.block_n * given.width
        merged = self.sliced_n * self.block_m * given.width if self.sliced_n > 1 else 0
        return AttentionMemory(
            keys=queries,
            values=queries + keys,
            size=max(queries + keys + values, merged),
            powers=self.block_n * self.power_stride if self.shares_rows else 0,
            slices=2 * self.sliced_n * self.block_m if self.sliced_n > 1 else 0,
        )

    def workgroup_bytes_for(self, workload: Workload) -> int:
        held = self.memory(self.given(workload))
        rows = self.sliced_n * self.thread_rows
        sums = shared_bytes(self.threads_per_row, rows, self.tile_m, subgroups=self.subgroups)
        return (held.size + held.powers + held.slices) * DType.F32.size_bytes + 2 * sums


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionMemory:
    """Elements of workgroup memory. Queries, `keys` and `values` lie in one buffer of `size`, in
    which the outputs of all slices take their place in the end. `powers` and `slices`, which are
    the largest scores and the sums of all slices, have buffers of their own."""

    keys: int
    values: int
    size: int
    powers: int
    slices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuSplitAttentionConfig(WebgpuAttentionConfig):
    """Settings as those of attention, but that a workgroup passes over one of `split_n` parts of
    the keys."""

    family: ClassVar = "split_attention"
    split_n: int

    @property
    def parts(self) -> int:
        return self.split_n

    def fault(self, workload: Workload) -> str:
        if not 2 <= self.split_n <= MOST_PARTS:
            return (
                f"split_n={self.split_n} must be 2 to {MOST_PARTS}; use attention for a whole one"
            )
        found = WebgpuAttentionConfig.fault(self, workload)
        if found:
            return found
        n = self.given(workload).n
        if (self.split_n - 1) * self.blocks(self.given(workload)) * self.block_n >= n:
            return f"{n} keys leave a part of split_n={self.split_n} without any"
        return ""

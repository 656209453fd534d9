"""The settings of one kernel of attention: register tiles of its two products, rows of a block."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.operators.attention import ManyRowsAttention, attention_of
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.base.wasm_config import (
    MAX_SCRATCH_BYTES,
    WasmConfig,
    tile_fault,
)


def attends(workload: Workload) -> ManyRowsAttention:
    """Raises InvalidSchedule for a workload that is no such attention."""
    found = attention_of(workload.program)
    if found is None:
        raise InvalidSchedule(f"{workload.key} is no attention of many rows")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class WasmAttentionConfig(WasmConfig):
    """The outermost loop takes each head in `groups` of rows; keys and values of the head are
    packed in each, in panels of `tile_n`. A block of `block_m` rows has its scores in scratch
    memory. Both products have register tiles of `tile_m` x `tile_n`, `unroll_k` terms to a body,
    or as many of them as divide the summed axis, too.
    """

    family: ClassVar = "attention"
    block_m: int
    groups: int
    tile_m: int
    tile_n: int
    unroll_k: int

    def scratch_entries(self, given: ManyRowsAttention) -> int:
        rows = self.block_m * (given.head_dim + given.n + 1)
        return given.n * (given.head_dim + given.width) + rows

    def fault(self, workload: Workload) -> str:
        given = attends(workload)
        if min(self.block_m, self.groups, self.tile_m, self.tile_n, self.unroll_k) < 1:
            return "tiles, blocks, groups and unroll_k start at 1"
        if found := tile_fault(self.tile_m, self.tile_n, self.unroll_k):
            return found
        if self.block_m > given.m or self.groups > -(-given.m // self.block_m):
            return f"{given.m} rows have not {self.groups} groups of blocks of {self.block_m}"
        if 4 * self.scratch_entries(given) > MAX_SCRATCH_BYTES:
            return f"block_m={self.block_m} takes more than {MAX_SCRATCH_BYTES} bytes of scratch"
        return ""

"""The settings of a kernel of attention of a block of rows over a cache."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention
from kernelzoo.domain.operators.decoding import LANES, AttentionShape
from kernelzoo.domain.operators.prefill import block_attention_shape
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.attention.webgpu_config import WebgpuAttentionConfig
from services.tuner.schedules.base.faults import choice_fault, range_fault
from services.tuner.schedules.base.limits import WORKGROUP_THREADS
from services.tuner.schedules.base.row_threads import shared_bytes
from services.tuner.schedules.base.webgpu_config import WebgpuConfig

MAX_THREADS_PER_ROW = 32
OUTPUTS_AT_ONCE = 4
"""Vectors of a row's output that are in workgroup memory at once, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuBlockAttentionConfig(WebgpuConfig):
    """A workgroup has `block_m` rows of one head, and `threads_per_row` threads of each share the
    tokens. They add up by `subgroups` or through workgroup memory."""

    family: ClassVar = "block_attention"
    block_m: int
    threads_per_row: int
    subgroups: bool

    @property
    def threads(self) -> int:
        return self.block_m * self.threads_per_row

    def fault(self, workload: Workload) -> str:
        shape, _ = shape_of(workload)
        if self.subgroups and self.threads_per_row == 1:
            return "subgroups=True with one thread to a row has nothing to add up"
        if shape.head_dim % (2 * LANES):
            return f"{shape.head_dim} entries of a key must be a multiple of {2 * LANES}"
        return choice_fault("threads", self.threads, WORKGROUP_THREADS) or range_fault(
            "threads_per_row", self.threads_per_row, 1, MAX_THREADS_PER_ROW
        )

    def workgroup_bytes_for(self, workload: Workload) -> int:
        shape, _ = shape_of(workload)
        query = self.block_m * shape.head_dim
        mixed = LANES * self.threads * self.outputs_at_once(shape)
        sums = 2 * shared_bytes(self.threads_per_row, self.block_m, 1, subgroups=self.subgroups)
        return (query + mixed) * DType.F32.size_bytes + sums

    def outputs_at_once(self, shape: AttentionShape) -> int:
        """Vectors of a row's output that its threads add up at once."""
        if self.threads_per_row == 1:
            return 0
        return min(self.threads_per_row, shape.head_dim // LANES, OUTPUTS_AT_ONCE)


def shape_of(workload: Workload) -> tuple[AttentionShape, int]:
    """The shape, and the rows of a block."""
    found = block_attention_shape(workload.program)
    if found is None:
        raise InvalidSchedule(f"{workload.key} is no attention of a block over its cache")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuTiledBlockAttentionConfig(WebgpuAttentionConfig):
    """Settings as those of attention of many rows: queries are those of the block, keys and values
    the cache's."""

    family: ClassVar = "tiled_block_attention"

    @staticmethod
    def given(workload: Workload) -> ManyRowsAttention:
        """Returns attention with operands in the order rotated queries, keys, values."""
        shape, rows = shape_of(workload)
        return ManyRowsAttention(
            heads=shape.heads,
            m=rows,
            n=shape.length,
            head_dim=shape.head_dim,
            width=shape.head_dim,
            queries=HeadsOperand(place=0, columns=shape.heads * shape.head_dim),
            keys=HeadsOperand(place=1),
            values=HeadsOperand(place=2),
        )

    def fault(self, workload: Workload) -> str:
        shape, _ = shape_of(workload)
        if shape.head_dim % (2 * LANES):
            return f"{shape.head_dim} entries of a key must be a multiple of {2 * LANES}"
        if shape.span < shape.length:
            return f"tokens see {shape.window} of {shape.length}; use block_attention"
        return WebgpuAttentionConfig.fault(self, workload)

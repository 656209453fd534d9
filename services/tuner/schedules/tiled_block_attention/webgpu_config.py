"""The settings of a kernel of attention of a block over a cache, in tiles of scores."""

from dataclasses import dataclass
from typing import ClassVar

from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention
from kernelzoo.domain.operators.decoding import LANES
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.attention.webgpu_config import WebgpuAttentionConfig
from services.tuner.schedules.block_attention.webgpu_config import shape_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuTiledBlockAttentionConfig(WebgpuAttentionConfig):
    """As of attention of many rows: queries are those of the block, keys and values the cache's."""

    family: ClassVar = "tiled_block_attention"

    @staticmethod
    def given(workload: Workload) -> ManyRowsAttention:
        """With operands in the order rotated queries, keys, values."""
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

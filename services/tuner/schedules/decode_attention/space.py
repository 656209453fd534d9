"""The lite space of attention over a cache: heads and entries of values at once."""

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.ranking import by_rank, ranked
from services.tuner.schedules.decode_attention.config import (
    WasmDecodeAttentionConfig,
    attended_rows,
)

HEADS = (1, 3, 2)
"""One leaves the most slices for threads; more of them read the cache less often."""
VECTORS = (4, 2, 8, 1)


def wasm_decode_attention_configs(workload: Workload) -> tuple[WasmDecodeAttentionConfig, ...]:
    """Ordered by the sum of the ranks of their settings."""
    shape, _ = attended_rows(workload)
    heads = [count for count in HEADS if shape.shared % count == 0]
    points = (
        (WasmDecodeAttentionConfig(heads=count, vectors=vectors, fma=fma), rank)
        for rank, count, vectors, fma in ranked(heads, VECTORS, (True, False))
    )
    return by_rank(points, workload)

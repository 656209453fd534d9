"""The lite space of attention over a cache: heads and entries of values at once."""

from itertools import product

from kernelzoo.domain.workload import Workload
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
    ranked: dict[WasmDecodeAttentionConfig, int] = {}
    for (rank, count), (vector_rank, vectors), (fma_rank, fma) in product(
        enumerate(heads), enumerate(VECTORS), enumerate((True, False))
    ):
        config = WasmDecodeAttentionConfig(heads=count, vectors=vectors, fma=fma)
        if not config.fault(workload):
            ranked[config] = rank + vector_rank + fma_rank
    return tuple(sorted(ranked, key=ranked.__getitem__))

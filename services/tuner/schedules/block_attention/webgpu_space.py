"""The lite space of attention of a block: rows to a workgroup, threads to a row."""

from itertools import product

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.block_attention.webgpu_config import (
    WebgpuBlockAttentionConfig,
    shape_of,
)
from services.tuner.schedules.webgpu_space import plain_first

BLOCKS = (16, 32, 8, 64, 4, 2)
THREADS_PER_ROW = (4, 8, 16, 2, 32, 1)


def block_attention_configs(
    workload: Workload, gpu: GpuModel
) -> tuple[WebgpuBlockAttentionConfig, ...]:
    """Ordered by the sum of the ranks of their settings; the first requires nothing."""
    rows = shape_of(workload)[1]
    ranked: dict[WebgpuBlockAttentionConfig, int] = {}
    for (m_rank, block_m), (row_rank, per_row), subgroups in product(
        enumerate(BLOCKS), enumerate(THREADS_PER_ROW), (True, False)
    ):
        config = WebgpuBlockAttentionConfig(
            block_m=block_m, threads_per_row=per_row, subgroups=subgroups
        )
        if not config.fault(workload) and _fits(config, workload):
            wasted = block_m >= 2 * rows
            ranked[config] = m_rank + row_rank + (not subgroups) + 4 * wasted
    return plain_first(sorted(ranked, key=ranked.__getitem__), workload, gpu)


def _fits(config: WebgpuBlockAttentionConfig, workload: Workload) -> bool:
    try:
        config.requires(workload)
    except InvalidSchedule:
        return False
    return True

"""The lite space of products of many rows with quantised weights: blocks and tiles."""

from itertools import product
from math import log2

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.base.quantised import quantised_product_of
from services.tuner.schedules.quantised_matmul.webgpu_config import (
    TILES,
    WebgpuQuantisedMatmulConfig,
)
from services.tuner.schedules.webgpu_space import plain_first

BLOCKS = (64, 32, 128, 16)


def quantised_matmul_configs(
    workload: Workload, gpu: GpuModel
) -> tuple[WebgpuQuantisedMatmulConfig, ...]:
    """Ordered by the sum of the ranks of their settings, those that leave cores idle behind; the
    first requires nothing."""
    operands = quantised_product_of(workload)
    ranked: dict[WebgpuQuantisedMatmulConfig, float] = {}
    for (m_rank, block_m), (n_rank, block_n), tile_m, tile_n in product(
        enumerate(BLOCKS), enumerate(BLOCKS), TILES, TILES
    ):
        config = WebgpuQuantisedMatmulConfig(
            block_m=block_m, block_n=block_n, tile_m=tile_m, tile_n=tile_n
        )
        if config.fault(workload) or not _fits(config, workload):
            continue
        wasted = (block_m >= 2 * operands.m) + (block_n >= 2 * operands.n)
        workgroups = -(-operands.m // block_m) * -(-operands.n // block_n)
        idle = max(0.0, log2(gpu.cores / workgroups))
        narrow = config.threads < gpu.warp_lanes
        unlikely = 2 * (wasted + narrow) + 1.5 * idle
        ranked[config] = m_rank + n_rank + 0.5 * (tile_m + tile_n > 8) + unlikely
    return plain_first(sorted(ranked, key=ranked.__getitem__), workload, gpu)


def _fits(config: WebgpuQuantisedMatmulConfig, workload: Workload) -> bool:
    try:
        config.requires(workload)
    except InvalidSchedule:
        return False
    return True

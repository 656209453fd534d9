"""The lite space of products of many rows with quantised weights: blocks and tiles."""

from itertools import product

from kernelzoo.domain.gpu import SOFTWARE_DRIVER, GpuModel
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.base.quantised import quantised_product_of
from services.tuner.schedules.quantised_matmul.webgpu_config import (
    TILES,
    WebgpuQuantisedMatmulConfig,
)

BLOCKS = (64, 32, 128, 16)


def quantised_matmul_configs(
    workload: Workload, gpu: GpuModel
) -> tuple[WebgpuQuantisedMatmulConfig, ...]:
    """Ordered by the sum of the ranks of their settings; any driver compiles the first."""
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
        if config.workgroup_bytes_for(workload) <= gpu.driver.workgroup_bytes:
            ranked[config] = m_rank + n_rank + 0.5 * (tile_m + tile_n > 8) + 2 * wasted
    found = sorted(ranked, key=ranked.__getitem__)
    plain = next(one for one in found if _is_small(one, workload))
    return (plain, *(one for one in found if one != plain))


def _is_small(config: WebgpuQuantisedMatmulConfig, workload: Workload) -> bool:
    small = config.workgroup_bytes_for(workload) <= SOFTWARE_DRIVER.workgroup_bytes
    return small and (config.tile_m, config.tile_n) == (4, 4)


def _fits(config: WebgpuQuantisedMatmulConfig, workload: Workload) -> bool:
    try:
        config.requires(workload)
    except InvalidSchedule:
        return False
    return True

"""The lite space of products of integers on WebGPU: tiles and threads."""

from itertools import product

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.integer_product import integer_product_of
from services.tuner.schedules.base.webgpu_config import WebgpuConfig
from services.tuner.schedules.base.webgpu_space import in_turns
from services.tuner.schedules.dot_matmul.webgpu_space import dot_matmul_configs
from services.tuner.schedules.integer_matmul.webgpu_config import WebgpuIntegerMatmulConfig

TILES = ((4, 4), (2, 4), (4, 2), (8, 4), (2, 2), (1, 2), (1, 1))
THREADS = (64, 128, 256, 32)
ENOUGH_THREADS = 8192
"""Smaller tiles come first where a GPU would have fewer."""


def integer_matmul_configs(workload: Workload, gpu: GpuModel) -> tuple[WebgpuConfig, ...]:
    """The first requires nothing. Where weights have no zero points, kernels that take dot products
    of bytes stand among the others: some GPUs have an instruction for these."""
    plain: tuple[WebgpuConfig, ...] = _without_dots(workload)
    if integer_product_of(workload).b_zero:
        return plain
    return in_turns(plain, dot_matmul_configs(workload, gpu))


def _without_dots(workload: Workload) -> tuple[WebgpuIntegerMatmulConfig, ...]:
    """Ordered by the sum of the ranks of their settings."""
    given = integer_product_of(workload)
    cut = dict.fromkeys((min(m, given.m), min(n, given.n)) for m, n in TILES)
    busy = [(m, n) for m, n in cut if -(-given.m // m) * -(-given.n // n) >= ENOUGH_THREADS]
    tiles = busy + sorted((tile for tile in cut if tile not in busy), key=lambda t: t[0] * t[1])
    ranked = {
        WebgpuIntegerMatmulConfig(threads=threads, tile_m=m, tile_n=n): tile_rank + threads_rank
        for (tile_rank, (m, n)), (threads_rank, threads) in product(
            enumerate(tiles), enumerate(THREADS)
        )
    }
    found = sorted(ranked, key=ranked.__getitem__)
    return tuple(config for config in found if not config.fault(workload))

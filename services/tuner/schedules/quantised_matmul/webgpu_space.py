"""The lite space of products of many rows with quantised weights: blocks, tiles and shares of k.

What is likely the best comes first: an estimate of what a core does for a block, and of how many
threads it has to hide what they wait for. Of 384 kernels on an H200 (12 products of prompts) it is
off by 16 % in the mean.
"""

from itertools import product

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.operators.quantised import ROW_STEP
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.quantised import QuantisedProduct, quantised_product_of
from services.tuner.schedules.base.webgpu_space import plain_first
from services.tuner.schedules.quantised_matmul.webgpu_config import (
    SPLITS,
    TILES,
    WebgpuQuantisedMatmulConfig,
)

BLOCKS = (64, 32, 128, 16)
MOST_CANDIDATES = 64

LOAD = 2.0
"""A vector from workgroup memory takes a core as long as so many multiply-adds of a warp."""
UNPACK = 2.0
"""So does a weight that is taken out of its word."""
WARPS_WANTED = 6
"""Warps of a core that hide what each of them waits for."""
DISPATCH = 14_000
"""Multiply-adds of a warp in the time of a second dispatch."""
SCRATCH_BYTE = 0.0023
"""A byte of partial sums, which all cores write and read, takes so long."""


def quantised_matmul_configs(
    workload: Workload, gpu: GpuModel
) -> tuple[WebgpuQuantisedMatmulConfig, ...]:
    """The first requires nothing."""
    operands = quantised_product_of(workload)
    configs = (
        WebgpuQuantisedMatmulConfig(
            block_m=block_m, block_n=block_n, tile_m=tile_m, tile_n=tile_n, split_k=split_k
        )
        for block_m, block_n, tile_m, tile_n, split_k in product(
            BLOCKS, BLOCKS, TILES, TILES, SPLITS
        )
    )
    fitting = [one for one in configs if not one.fault(workload) and one.fits(workload)]
    ordered = sorted(fitting, key=lambda one: _estimate(operands, workload, one, gpu))
    return plain_first(ordered, workload, gpu)[:MOST_CANDIDATES]


def _estimate(
    operands: QuantisedProduct,
    workload: Workload,
    config: WebgpuQuantisedMatmulConfig,
    gpu: GpuModel,
) -> float:
    """Grows with the time of the kernel."""
    products = len(operands.weights)
    tile = config.tile_m * config.tile_n
    read = (config.tile_m + products * config.tile_n) / ir.LANES
    unpacked = (products * config.block_n + config.block_m / 3) / config.threads
    block = ROW_STEP * (products * tile + LOAD * read + UNPACK * unpacked)
    blocks = operands.k / ROW_STEP / config.split_k
    down, along = -(-operands.m // config.block_m), -(-operands.n // config.block_n)
    warps = -(-config.threads // gpu.warp_lanes)
    of_core = -(-config.split_k * down * along // gpu.cores)
    fitting = max(1, gpu.shared_bytes // config.workgroup_bytes_for(workload))
    resident = min(of_core, fitting) * warps
    time = of_core * warps * block * blocks * (1 + WARPS_WANTED / resident)
    if config.split_k == 1:
        return time
    moved = 2 * DType.F32.size_bytes * config.split_k * products * operands.m * operands.n
    return time + DISPATCH + SCRATCH_BYTE * moved

"""Statements of a thread of a matrix product for WebGPU, which a driver has to compile."""

from typing import TYPE_CHECKING

from services.tuner import ir
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.implicit_gemm import ImageWindow
from services.tuner.schedules.base.webgpu_config import Cache

if TYPE_CHECKING:
    from services.tuner.schedules.matmul.webgpu_config import WebgpuMatmulConfig

OTHER_STATEMENTS = 40
"""Indices of a thread, and sums that are set to zero."""


def statements_of(
    config: "WebgpuMatmulConfig", extents: Extents, window: ImageWindow | None
) -> int:
    """Statements of a thread once its loops are unrolled: products, reads for them, stores. The
    estimate is from a third below what the driver sees to twice as much for small kernels."""
    products = config.tile_m * config.tile_n * config.unroll_k // ir.LANES
    stores = config.tile_m * config.tile_n // ir.LANES * _each(extents.n, 12, 2)
    return (
        products + _reads(config, extents, window) + stores + 4 * config.tile_m + OTHER_STATEMENTS
    )


def _reads(config: "WebgpuMatmulConfig", extents: Extents, window: ImageWindow | None) -> int:
    """Vectors of a and b, or their elements where vectors do not lie side by side; twice where k
    may end inside of a block, three times where zeros lie around an image."""
    along_a = extents.m if extents.a_transposed else extents.k
    along_b = extents.k if extents.b_transposed else extents.n
    if window is not None:
        along_a = window.channels
    ends = 2 if extents.k % config.block_k else 1
    each_a = _each(along_a, ir.LANES, 1) * (ends if window is None else 3)
    each_b = _each(along_b, ir.LANES, 1) * ends
    if config.cache is Cache.NONE:
        fours = config.unroll_k // ir.LANES
        return fours * (config.tile_m * each_a + config.tile_n * each_b)
    staged_a, staged_b = (
        -(-length * config.block_k // (ir.LANES * config.threads))
        for length in (config.block_m, config.block_n)
    )
    own = (config.tile_m + config.tile_n) * config.unroll_k // ir.LANES
    return own + staged_a * (each_a + 2) + staged_b * (each_b + 2)


def _each(length: int, single: int, vector: int) -> int:
    return single if length % ir.LANES else vector

"""Which kernels a driver compiles in two seconds, told before they are lowered.

Of loops with too many decisions in a row there are none: `passes/if_conversion.py` sees to that.
"""

from kernelzoo.domain.gpu import Driver
from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import LANES
from services.tuner.schedules.conv.implicit_gemm import product_extents, window_of
from services.tuner.schedules.conv.webgpu_config import PixelsConfig
from services.tuner.schedules.elementwise.webgpu_config import EntriesConfig
from services.tuner.schedules.elementwise.webgpu_transpose import SquareConfig
from services.tuner.schedules.matmul.webgpu_config import Cache, TilesConfig
from services.tuner.schedules.reduction.webgpu_config import TeamConfig

Config = TilesConfig | TeamConfig | PixelsConfig | SquareConfig | EntriesConfig

OTHER_STATEMENTS = 40
"""Places of a thread, and sums that are set to zero."""


def compiles(config: Config, workload: Workload, driver: Driver) -> bool:
    """Operators that are no products have 350 statements at most."""
    if workgroup_bytes_of(config, workload) > driver.workgroup_bytes:
        return False
    return not isinstance(config, TilesConfig) or (
        statements_of(config, workload) <= driver.statements
    )


def workgroup_bytes_of(config: Config, workload: Workload) -> int:
    match config:
        case TilesConfig():
            return config.workgroup_bytes
        case TeamConfig():
            return config.workgroup_bytes(workload)
        case SquareConfig():
            return 4 * config.elements
    return 0


def statements_of(config: TilesConfig, workload: Workload) -> int:
    """Of one thread, once loops are unrolled: products, what is read for them, what is stored.
    From a third below what the driver sees to twice as much for small ones."""
    products = config.tile_m * config.tile_n * config.unroll_k // LANES
    stores = config.tile_m * config.tile_n // LANES * _each(product_extents(workload).n, 12, 2)
    return products + _read(config, workload) + stores + 4 * config.tile_m + OTHER_STATEMENTS


def _read(config: TilesConfig, workload: Workload) -> int:
    """Vectors of a and b, or their elements where vectors do not lie side by side; twice where k
    may end inside of a block, three times where zeros lie around an image."""
    extents, window = product_extents(workload), window_of(workload, LANES)
    along_a = extents.m if extents.a_turned else extents.k
    along_b = extents.k if extents.b_turned else extents.n
    if window is not None:
        along_a = window.channels
    ends = 2 if extents.k % config.block_k else 1
    each_a = _each(along_a, LANES, 1) * (ends if window is None else 3)
    each_b = _each(along_b, LANES, 1) * ends
    if config.cache is Cache.NONE:
        depth = config.unroll_k // LANES
        return depth * (config.tile_m * each_a + config.tile_n * each_b)
    staged_a, staged_b = (
        -(-length * config.block_k // (LANES * config.threads))
        for length in (config.block_m, config.block_n)
    )
    own = (config.tile_m + config.tile_n) * config.unroll_k // LANES
    return own + staged_a * (each_a + 2) + staged_b * (each_b + 2)


def _each(length: int, single: int, vector: int) -> int:
    return single if length % LANES else vector

"""How long a contraction may take: what orders the space. Microseconds, right to 20 % or so.

The factors are fitted to 2,300 kernels of 13 shapes, 300 of five shapes of few rows and 950 of five
shapes whose sums layers of threads share, timed on an H200 (Chromium 156); the formula knows
another GPU by its totals alone.
"""

from math import ceil, prod

from kernelzoo.domain.gpu import GpuModel
from services.tuner.ir.nodes import LANES
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.matmul.usage import registers_of, usage_of
from services.tuner.schedules.matmul.webgpu_config import Cache, Prefetch, TilesConfig

FLOPS_PER_REGISTER_US = 7.6
"""Of a core: a multiply-add of each of 128 lanes at 1.98 GHz, for 65,536 registers."""

OPERAND_COST = 2.9
"""Reading a row or column of a tile costs as much as so many of its products."""

WARPS_WANTED = 8.0
WARPS_POWER = 0.54
"""Fewer warps on a core than wanted hide less of what they wait for."""

PARTLY_UNROLLED = 0.89
PREFETCHES = {Prefetch.NONE: 0.91, Prefetch.REGISTERS: 1.0, Prefetch.BLOCKS: 0.9}
CACHES = {Cache.ROWS: 1.0, Cache.TURNED: 0.99, Cache.NONE: 0.55}
BARRIER_K = 0.1
"""A block of k costs as much more as so many k of it."""

LAYERED_BARRIER_K = 0.32
"""The same where layers of threads share it, of the part of one."""

LAYERED_TURNED = 0.9
LAYERED_PARTLY = 0.9
LAYERED_UNEVEN = 0.87
"""Of the speed of others, where layers have turned blocks, where they are no whole warps, and where
threads copy different numbers of vectors."""

STAGED = 24
STAGED_MORE = 180
"""Elements of a block that each thread of a layer may copy; so many more double the time."""

SHARED_BYTES_US = 116_000
ROUND_US = 0.12
"""Of adding the sums of layers: what a core writes to workgroup memory or reads there, and what
begins and ends it."""

SPILLED_REGISTERS = 36
"""So many registers beyond what a thread can have double the time."""

LAUNCH_US = 2.3
SECOND_LAUNCH_US = 2.5
BYTES_PER_CORE_US = 32_000
STEP_US = 0.78
"""From asking for a piece of memory to having it, with what is done meanwhile."""

LAYER_US = 0.027
SEGMENT_BYTES = 128
NARROW_COST = 0.22
PRODUCTS_US = 0.0127
"""Of one k of an entry, in a thread that mostly waits."""


def estimated_us(extents: Extents, config: TilesConfig, gpu: GpuModel) -> float:
    groups = config.workgroups(extents)
    resident = usage_of(config, gpu).blocks_per_core
    streams = config.depth > 1 and config.cache is Cache.NONE
    body = (
        _streaming_us(extents, config, gpu, groups, resident)
        if streams
        else _shared_us(extents, config, gpu, groups, resident)
    )
    return LAUNCH_US + body * _spilling(config, gpu) + _adding_us(extents, config, gpu)


def _spilling(config: TilesConfig, gpu: GpuModel) -> float:
    beyond = max(0, registers_of(config) - gpu.thread_registers)
    return 1 + beyond / SPILLED_REGISTERS


def _shared_us(
    extents: Extents, config: TilesConfig, gpu: GpuModel, groups: int, resident: float
) -> float:
    """Products are the limit: the core with the most workgroups is done last."""
    tile = config.tile_m * config.tile_n
    reuse = tile / (tile + OPERAND_COST * (config.tile_m + config.tile_n))
    warps = min(resident, max(1.0, groups / gpu.cores)) * config.threads / gpu.warp_lanes
    hidden: float = min(1.0, warps / min(WARPS_WANTED, gpu.warps)) ** WARPS_POWER
    unrolled = 1.0 if config.unroll_k == config.layer_k else PARTLY_UNROLLED
    settings = PREFETCHES[config.prefetch] * CACHES[config.cache] * unrolled
    settings *= _in_blocks(config, gpu)
    each = 2 * config.block_m * config.block_n * extents.k / config.split_k
    peak = FLOPS_PER_REGISTER_US * gpu.registers
    products = each / (peak * reuse * hidden * settings)
    return ceil(groups / gpu.cores) * (products + _layers_us(config))


def _in_blocks(config: TilesConfig, gpu: GpuModel) -> float:
    """Of the speed of products, what copying blocks and waiting for them leaves."""
    if config.depth == 1:
        return config.block_k / (config.block_k + BARRIER_K)
    share = config.layer_k / (config.layer_k + LAYERED_BARRIER_K)
    if config.cache is Cache.TURNED:
        share *= LAYERED_TURNED
    if config.rows * config.columns % gpu.warp_lanes:
        share *= LAYERED_PARTLY
    block = config.block_m, config.block_n
    if any(length * config.block_k % (LANES * config.threads) for length in block):
        share *= LAYERED_UNEVEN
    staged = sum(block) * config.block_k / config.threads
    return share / (1 + max(0.0, staged - STAGED) / STAGED_MORE)


def _layers_us(config: TilesConfig) -> float:
    """All layers of threads but one keep their sums, and each of those sums is added."""
    kept = 4 * config.block_m * config.block_n * (config.depth - 1)
    return 2 * kept / SHARED_BYTES_US + ROUND_US * (config.depth - 1).bit_length()


def _streaming_us(
    extents: Extents, config: TilesConfig, gpu: GpuModel, groups: int, resident: float
) -> float:
    """Waiting for memory is the limit, or its bandwidth."""
    steps = ceil(extents.k / (config.block_k * config.split_k))
    waves = max(1.0, groups / (gpu.cores * resident))
    products = config.unroll_k * config.tile_m * config.tile_n * PRODUCTS_US / 4
    waiting = waves * steps * (STEP_US + products)
    columns = config.depth if extents.b_turned else config.columns * config.tile_n // 4
    narrow = 1 + NARROW_COST * max(0.0, SEGMENT_BYTES / (16 * columns) - 1)
    read = 4 * max(1, extents.batch) * extents.k * extents.n * config.blocks(extents)[1]
    moving = read * narrow / (BYTES_PER_CORE_US * gpu.cores)
    return max(waiting, moving) + LAYER_US * config.depth


def _adding_us(extents: Extents, config: TilesConfig, gpu: GpuModel) -> float:
    if config.split_k == 1:
        return 0.0
    entries = max(1, extents.batch) * prod((extents.m, extents.n))
    moved = 4 * (config.split_k + 1) * entries
    return SECOND_LAUNCH_US + moved / (BYTES_PER_CORE_US * gpu.cores)


def promise(extents: Extents, config: TilesConfig, gpu: GpuModel) -> tuple[float, float, int]:
    """What sorts a space, the best first: by time, then as the paper does, most blocks per core."""
    blocks = usage_of(config, gpu).blocks_per_core
    return round(estimated_us(extents, config, gpu), 1), -blocks, registers_of(config)

"""Tells what a matrix product for WebGPU uses and how long it may take, before it is lowered.

1. Registers, workgroup memory and warps of a core: the formulas of nnJIT's Table 1.
2. Microseconds, right to 20 % or so: what orders the space. The factors are fitted to 2,300 kernels
   of 13 shapes, 300 of five shapes of few rows and 950 of five shapes with sliced-K, timed on an
   H200 (Chromium 156); the formula knows another GPU by its totals alone.
"""

from dataclasses import dataclass
from math import ceil, prod

from kernelzoo.domain.gpu import GpuModel
from services.tuner import ir
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.matmul.webgpu_config import Prefetch, WebgpuMatmulConfig

# 1. What a core can hold.

OTHER_REGISTERS = 32
"""Registers of a thread for indices and counts: the paper's relaxation of the register limit, as it
fits what was measured on an H200."""

MOST_BLOCKS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Workgroups that one core can hold, as registers, workgroup memory and warps allow."""

    by_registers: float
    by_memory: float
    by_warps: float

    @property
    def blocks_per_core(self) -> float:
        """Block_core; at least one runs, however slowly."""
        return max(1.0, min(self.by_registers, self.by_memory, self.by_warps, MOST_BLOCKS))


def occupancy_of(config: WebgpuMatmulConfig, gpu: GpuModel) -> Occupancy:
    needed = registers_of(config)
    warps = max(1.0, config.threads / gpu.warp_lanes)
    return Occupancy(
        by_registers=gpu.registers / (min(gpu.thread_registers, needed) * config.threads),
        by_memory=gpu.shared_bytes / max(1, config.workgroup_bytes),
        by_warps=gpu.warps / warps,
    )


def registers_of(config: WebgpuMatmulConfig) -> int:
    """Reg_thread: x0·r0 + r0·y0 + x0·y0, where a vector of four k of each row of a is held, or one
    k of each, and one of b; and the thread's share of the next blocks."""
    k_of_a = ir.LANES if config.cache is Cache.ROWS else 1
    k_of_b = ir.LANES if config.cache is Cache.NONE else 1
    held = config.tile_m * k_of_a + config.tile_n * k_of_b + config.tile_m * config.tile_n
    if config.cache is not Cache.NONE and config.prefetch is not Prefetch.NONE:
        held += (config.block_m + config.block_n) * config.block_k // config.threads
    return held + OTHER_REGISTERS


# 2. Microseconds.

FLOPS_PER_REGISTER_US = 7.6
"""A core with 65,536 registers multiplies and adds in each of 128 lanes at 1.98 GHz."""

OPERAND_COST = 2.9
"""Reading a row or column of a tile costs as much as so many of its products."""

WARPS_WANTED = 8.0
WARPS_POWER = 0.54
"""Fewer warps on a core than wanted hide less of what they wait for."""

PARTIALLY_UNROLLED = 0.89
PREFETCHES = {Prefetch.NONE: 0.91, Prefetch.REGISTERS: 1.0, Prefetch.BLOCKS: 0.9}
CACHES = {Cache.ROWS: 1.0, Cache.TRANSPOSED: 0.99, Cache.NONE: 0.55}
BARRIER_K = 0.1
"""A block of k costs as much more as so many k of it."""

SLICED_BARRIER_K = 0.32
"""The factor of a barrier with sliced-K, where the k of a block are those that one thread has."""

SLICED_TRANSPOSED = 0.9
SLICED_PARTIAL_WARPS = 0.9
SLICED_UNEVEN = 0.87
"""Sliced-K has this share of its speed left where blocks of a are transposed, where the threads of
one slice are no whole warps, and where threads copy different numbers of vectors."""

STAGED = 24
STAGED_MORE = 180
"""Elements of a block that each thread may copy with sliced-K; so many more double the time."""

SHARED_BYTES_US = 116_000
ROUND_US = 0.12
"""Adding up the sums of sliced-K: bytes that a core writes to workgroup memory or reads there in a
microsecond, and what each halving of the slices costs beside that."""

SPILLED_REGISTERS = 36
"""So many registers beyond what a thread can have double the time."""

LAUNCH_US = 2.3
SECOND_LAUNCH_US = 2.5
BYTES_PER_CORE_US = 32_000
STEP_US = 0.78
"""From asking for a piece of memory to having it, with what is done meanwhile."""

SLICE_US = 0.027
"""Adding up the sums of one more slice, where no blocks are in workgroup memory."""

SEGMENT_BYTES = 128
NARROW_COST = 0.22
PRODUCTS_US = 0.0127
"""One k of four entries, in a thread that mostly waits for memory."""


def estimated_us(extents: Extents, config: WebgpuMatmulConfig, gpu: GpuModel) -> float:
    groups = config.workgroups(extents)
    resident = occupancy_of(config, gpu).blocks_per_core
    streams = config.sliced_k > 1 and config.cache is Cache.NONE
    body = (
        _memory_bound_us(extents, config, gpu, groups, resident)
        if streams
        else _compute_bound_us(extents, config, gpu, groups, resident)
    )
    return LAUNCH_US + body * _spill_factor(config, gpu) + _split_k_us(extents, config, gpu)


def _spill_factor(config: WebgpuMatmulConfig, gpu: GpuModel) -> float:
    beyond = max(0, registers_of(config) - gpu.thread_registers)
    return 1 + beyond / SPILLED_REGISTERS


def _compute_bound_us(
    extents: Extents, config: WebgpuMatmulConfig, gpu: GpuModel, groups: int, resident: float
) -> float:
    """Products are the limit: the core with the most workgroups is done last."""
    tile = config.tile_m * config.tile_n
    reuse = tile / (tile + OPERAND_COST * (config.tile_m + config.tile_n))
    warps = min(resident, max(1.0, groups / gpu.cores)) * config.threads / gpu.warp_lanes
    hidden: float = min(1.0, warps / min(WARPS_WANTED, gpu.warps)) ** WARPS_POWER
    unrolled = 1.0 if config.unroll_k == config.slice_k else PARTIALLY_UNROLLED
    settings = PREFETCHES[config.prefetch] * CACHES[config.cache] * unrolled
    settings *= _blocks_share(config, gpu)
    each = 2 * config.block_m * config.block_n * extents.k / config.split_k
    peak = FLOPS_PER_REGISTER_US * gpu.registers
    products = each / (peak * reuse * hidden * settings)
    return ceil(groups / gpu.cores) * (products + _sliced_k_us(config))


def _blocks_share(config: WebgpuMatmulConfig, gpu: GpuModel) -> float:
    """The share of the speed of products that copying blocks and waiting for them leaves."""
    if config.sliced_k == 1:
        return config.block_k / (config.block_k + BARRIER_K)
    share = config.slice_k / (config.slice_k + SLICED_BARRIER_K)
    if config.cache is Cache.TRANSPOSED:
        share *= SLICED_TRANSPOSED
    if config.thread_rows * config.thread_columns % gpu.warp_lanes:
        share *= SLICED_PARTIAL_WARPS
    block = config.block_m, config.block_n
    if any(length * config.block_k % (ir.LANES * config.threads) for length in block):
        share *= SLICED_UNEVEN
    staged = sum(block) * config.block_k / config.threads
    return share / (1 + max(0.0, staged - STAGED) / STAGED_MORE)


def _sliced_k_us(config: WebgpuMatmulConfig) -> float:
    """Threads of all slices but one write their sums, and each of those sums is read and added."""
    kept = 4 * config.block_m * config.block_n * (config.sliced_k - 1)
    return 2 * kept / SHARED_BYTES_US + ROUND_US * (config.sliced_k - 1).bit_length()


def _memory_bound_us(
    extents: Extents, config: WebgpuMatmulConfig, gpu: GpuModel, groups: int, resident: float
) -> float:
    """Waiting for memory is the limit, or its bandwidth."""
    steps = ceil(extents.k / (config.block_k * config.split_k))
    waves = max(1.0, groups / (gpu.cores * resident))
    products = config.unroll_k * config.tile_m * config.tile_n * PRODUCTS_US / 4
    waiting = waves * steps * (STEP_US + products)
    columns = (
        config.sliced_k if extents.b_transposed else config.thread_columns * config.tile_n // 4
    )
    narrow = 1 + NARROW_COST * max(0.0, SEGMENT_BYTES / (16 * columns) - 1)
    read = 4 * max(1, extents.batch) * extents.k * extents.n * config.blocks(extents)[1]
    moving = read * narrow / (BYTES_PER_CORE_US * gpu.cores)
    return max(waiting, moving) + SLICE_US * config.sliced_k


def _split_k_us(extents: Extents, config: WebgpuMatmulConfig, gpu: GpuModel) -> float:
    if config.split_k == 1:
        return 0.0
    entries = max(1, extents.batch) * prod((extents.m, extents.n))
    moved = 4 * (config.split_k + 1) * entries
    return SECOND_LAUNCH_US + moved / (BYTES_PER_CORE_US * gpu.cores)


def promise(
    extents: Extents, config: WebgpuMatmulConfig, gpu: GpuModel
) -> tuple[float, float, int]:
    """Key that sorts a space, the best first: by time, then as the paper does, most blocks per
    core."""
    blocks = occupancy_of(config, gpu).blocks_per_core
    return round(estimated_us(extents, config, gpu), 1), -blocks, registers_of(config)

"""How much of a core a kernel uses: the formulas of nnJIT's Table 1 for WebGPU."""

from dataclasses import dataclass

from kernelzoo.domain.gpu import GpuModel
from services.tuner.ir.nodes import LANES
from services.tuner.schedules.matmul.webgpu_config import Cache, Prefetch, TilesConfig

OTHER_REGISTERS = 32
"""Of a thread, for places and counts: the paper's relaxation of the register limit, as it fits what
was measured on an H200."""

MOST_BLOCKS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Workgroups that one core can hold, as registers, workgroup memory and warps allow."""

    by_registers: float
    by_memory: float
    by_warps: float

    @property
    def blocks_per_core(self) -> float:
        """Block_core; at least one runs, however slowly."""
        return max(1.0, min(self.by_registers, self.by_memory, self.by_warps, MOST_BLOCKS))


def usage_of(config: TilesConfig, gpu: GpuModel) -> Usage:
    needed = registers_of(config)
    warps = max(1.0, config.threads / gpu.warp_lanes)
    return Usage(
        by_registers=gpu.registers / (min(gpu.thread_registers, needed) * config.threads),
        by_memory=gpu.shared_bytes / max(1, config.workgroup_bytes),
        by_warps=gpu.warps / warps,
    )


def registers_of(config: TilesConfig) -> int:
    """Reg_thread: x0·r0 + r0·y0 + x0·y0, where a vector of four k of each row of a is held, or one
    k of each, and one of b; and the thread's share of the next blocks."""
    depth = LANES if config.cache is Cache.ROWS else 1
    depth_b = LANES if config.cache is Cache.NONE else 1
    held = config.tile_m * depth + config.tile_n * depth_b + config.tile_m * config.tile_n
    if config.cache is not Cache.NONE and config.prefetch is not Prefetch.NONE:
        held += (config.block_m + config.block_n) * config.block_k // config.threads
    return held + OTHER_REGISTERS

"""The space of kernels whose threads each make a few entries."""

from itertools import product

from kernelzoo.domain.gpu import GpuModel
from services.tuner.webgpu.entries import EntriesConfig

THREADS = (64, 256, 128, 32)


def entries_configs(gpu: GpuModel) -> tuple[EntriesConfig, ...]:
    """Whole warps first: with fewer threads than a warp has lanes, some do nothing."""
    counts = sorted(THREADS, key=lambda count: count % gpu.warp_lanes > 0)
    return tuple(
        EntriesConfig(threads=count, wide=wide) for count, wide in product(counts, (True, False))
    )

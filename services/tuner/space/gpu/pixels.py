"""The lite space of depthwise convolutions and pooling: pixels to a thread, threads."""

from itertools import product

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.webgpu.pixels import PixelsConfig

TILES = (2, 4, 1, 8)
"""Windows side by side share most of what they read; more of them leave threads without work."""

THREADS = (64, 128, 256, 32)


def pixels_configs(workload: Workload, gpu: GpuModel) -> tuple[PixelsConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Whole warps alone, where there are."""
    ranked: dict[PixelsConfig, int] = {}
    counts = [count for count in THREADS if count % gpu.warp_lanes == 0] or list(THREADS)
    for (rank, tile), (thread_rank, threads) in product(enumerate(TILES), enumerate(counts)):
        config = PixelsConfig(threads=threads, tile_x=tile)
        if not config.fault(workload):
            ranked[config] = rank + thread_rank
    return tuple(sorted(ranked, key=ranked.__getitem__))

"""The lite space of depthwise convolutions and pooling: pixels to a thread, threads."""

from itertools import product

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.conv.webgpu_config import WebgpuConvConfig
from services.tuner.schedules.elementwise.webgpu_config import WebgpuElementwiseConfig
from services.tuner.schedules.elementwise.webgpu_space import elementwise_configs

TILES = (2, 4, 1, 8)
"""Windows side by side share most of what they read; more of them leave threads without work."""

THREADS = (64, 128, 256, 32)
WHOLE_VECTORS = (True, False)
WANTED = 24
"""The rest is computed as it is stated where windows are too few to lie side by side."""


def conv_configs(
    workload: Workload, gpu: GpuModel
) -> tuple[WebgpuConvConfig | WebgpuElementwiseConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Whole warps alone, where there are."""
    ranked: dict[WebgpuConvConfig, int] = {}
    counts = [count for count in THREADS if count % gpu.warp_lanes == 0] or list(THREADS)
    for (rank, tile), (more, threads), (single, whole) in product(
        enumerate(TILES), enumerate(counts), enumerate(WHOLE_VECTORS)
    ):
        config = WebgpuConvConfig(threads=threads, tile_x=tile, vec4=whole)
        if not config.fault(workload):
            ranked[config] = rank + more + 2 * single
    found = sorted(ranked, key=ranked.__getitem__)
    return (*found, *elementwise_configs(workload, gpu)[: max(0, WANTED - len(found))])

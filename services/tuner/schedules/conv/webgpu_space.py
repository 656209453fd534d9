"""The lite space of depthwise convolutions and pooling: pixels to a thread, threads."""

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.ranking import by_rank, ranked
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
    counts = [count for count in THREADS if count % gpu.warp_lanes == 0] or list(THREADS)
    points = (
        (WebgpuConvConfig(threads=threads, tile_x=tile, vec4=whole), rank)
        for rank, tile, threads, whole in ranked(TILES, counts, WHOLE_VECTORS, weights=(1, 1, 2))
    )
    found = by_rank(points, workload)
    return (*found, *elementwise_configs(workload, gpu)[: max(0, WANTED - len(found))])

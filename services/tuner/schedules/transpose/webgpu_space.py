"""The lite space of transpositions on WebGPU: tiles through workgroup memory, threads."""

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.limits import FEW_LANES
from services.tuner.schedules.elementwise.webgpu_config import WebgpuElementwiseConfig
from services.tuner.schedules.elementwise.webgpu_space import elementwise_configs
from services.tuner.schedules.transpose.webgpu_config import WebgpuTransposeConfig

TILES = (
    *((32, 256), (16, 64), (32, 128), (16, 128), (16, 256), (64, 256), (32, 64), (8, 64)),
    *((64, 128), (32, 32), (16, 32), (8, 32)),
)
"""Tiles with threads, the likely best first."""

MOST_AS_STATED = 12
"""Candidates that read a and write c without workgroup memory."""


def transpose_configs(
    workload: Workload, gpu: GpuModel
) -> tuple[WebgpuTransposeConfig | WebgpuElementwiseConfig, ...]:
    """Through workgroup memory first; on a processor as it is stated first."""
    tiles = [WebgpuTransposeConfig(tile=tile, threads=threads) for tile, threads in TILES]
    as_stated = elementwise_configs(workload, gpu)[:MOST_AS_STATED]
    return (*as_stated, *tiles) if gpu.warp_lanes < FEW_LANES else (*tiles, *as_stated)

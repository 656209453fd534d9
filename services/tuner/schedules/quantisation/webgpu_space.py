"""The lite space of the range of activations on WebGPU: threads, workgroups."""

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.ranking import by_rank, ranked
from services.tuner.schedules.quantisation.webgpu_config import WebgpuRangeConfig

THREADS = (256, 128, 64)
PARTS = (64, 128, 32, 256, 16, 512, 1)


def range_configs(workload: Workload, _: GpuModel) -> tuple[WebgpuRangeConfig, ...]:
    """Ordered by the sum of the ranks of their settings; the first requires nothing."""
    points = (
        (WebgpuRangeConfig(threads=threads, parts=parts), rank)
        for rank, threads, parts in ranked(THREADS, PARTS)
    )
    return by_rank(points, workload)

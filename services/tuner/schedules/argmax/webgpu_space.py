"""The lite space of the place of the largest entry: threads, workgroups."""

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.argmax.webgpu_config import WebgpuArgmaxConfig
from services.tuner.schedules.base.ranking import by_rank, ranked

THREADS = (256, 128, 1024, 512, 64)
PARTS = (32, 64, 128, 16, 1, 256)


def argmax_configs(workload: Workload, _: GpuModel) -> tuple[WebgpuArgmaxConfig, ...]:
    """Ordered by the sum of the ranks of their settings; the first requires nothing."""
    points = (
        (WebgpuArgmaxConfig(threads=threads, parts=parts), rank)
        for rank, threads, parts in ranked(THREADS, PARTS)
    )
    return by_rank(points, workload)

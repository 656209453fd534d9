"""The lite space of the place of the largest entry: threads, workgroups."""

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.argmax.webgpu_config import WebgpuArgmaxConfig

THREADS = (256, 128, 1024, 512, 64)
PARTS = (32, 64, 128, 16, 1, 256)


def argmax_configs(workload: Workload, _: GpuModel) -> tuple[WebgpuArgmaxConfig, ...]:
    """Ordered by the sum of the ranks of their settings; the first requires nothing."""
    ranked = {
        WebgpuArgmaxConfig(threads=threads, parts=parts): threads_rank + parts_rank
        for threads_rank, threads in enumerate(THREADS)
        for parts_rank, parts in enumerate(PARTS)
    }
    found = sorted(ranked, key=ranked.__getitem__)
    return tuple(config for config in found if not config.fault(workload))

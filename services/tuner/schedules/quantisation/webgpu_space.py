"""The lite space of the range of activations on WebGPU: threads, workgroups."""

from itertools import product

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.quantisation.webgpu_config import WebgpuRangeConfig

THREADS = (256, 128, 64)
PARTS = (64, 128, 32, 256, 16, 512, 1)


def range_configs(workload: Workload, _: GpuModel) -> tuple[WebgpuRangeConfig, ...]:
    """Ordered by the sum of the ranks of their settings; the first requires nothing."""
    ranked = {
        WebgpuRangeConfig(threads=threads, parts=parts): threads_rank + parts_rank
        for (threads_rank, threads), (parts_rank, parts) in product(
            enumerate(THREADS), enumerate(PARTS)
        )
    }
    found = sorted(ranked, key=ranked.__getitem__)
    return tuple(config for config in found if not config.fault(workload))

"""The space of kernels for WebGPU that take values in order: threads to a workgroup."""

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.ordered.webgpu_config import THREADS, WebgpuOrderedConfig


def ordered_configs(_: Workload, __: GpuModel) -> tuple[WebgpuOrderedConfig, ...]:
    return tuple(WebgpuOrderedConfig(threads=threads) for threads in THREADS)

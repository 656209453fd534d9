"""The lite space of WebGPU, by the family of an operator. It belongs to a model of GPU."""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.space.gpu.entries import entries_configs


def gpu_space(workload: Workload, gpu: GpuModel) -> tuple[Candidate, ...]:
    """The first requires nothing that not every adapter has."""
    return tuple(config.candidate(workload) for config in entries_configs(gpu))

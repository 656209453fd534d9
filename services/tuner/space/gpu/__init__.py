"""The lite space of WebGPU, by the family of an operator. It belongs to a model of GPU."""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.operators import Family
from kernelzoo.domain.workload import DType, Workload
from services.tuner.extents import Extents, is_pointwise
from services.tuner.space.gpu.contractions import contraction_configs
from services.tuner.space.gpu.entries import entries_configs
from services.tuner.space.gpu.rows import rows_configs


def gpu_space(workload: Workload, gpu: GpuModel) -> tuple[Candidate, ...]:
    """The first requires nothing that not every adapter has.

    Constant weights have the space of all others: no kernel wants them in panels.
    """
    contracts = workload.operator.family is Family.CONTRACTION or is_pointwise(workload)
    if contracts and Extents.of(workload).b_dtype is DType.F32:
        return tuple(config.candidate(workload) for config in contraction_configs(workload, gpu))
    if workload.operator.family is Family.ROWS:
        return tuple(config.candidate(workload) for config in rows_configs(workload, gpu))
    return tuple(config.candidate(workload) for config in entries_configs(gpu))

"""The lite space of WebGPU, by the family of an operator. It belongs to a model of GPU."""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.operators import Family
from kernelzoo.domain.workload import DType, Workload
from services.tuner.space.gpu.contractions import contraction_configs
from services.tuner.space.gpu.entries import entries_configs, square_configs
from services.tuner.space.gpu.pixels import pixels_configs
from services.tuner.space.gpu.rows import rows_configs
from services.tuner.webgpu.contraction import TilesConfig
from services.tuner.webgpu.entries import EntriesConfig
from services.tuner.webgpu.pixels import PixelsConfig
from services.tuner.webgpu.rows import TeamConfig
from services.tuner.webgpu.transpose import SquareConfig
from services.tuner.webgpu.windows import contracts

Config = TilesConfig | TeamConfig | PixelsConfig | SquareConfig | EntriesConfig


def gpu_space(workload: Workload, gpu: GpuModel) -> tuple[Candidate, ...]:
    """The first requires nothing that not every adapter has.

    Constant weights have the space of all others: no kernel wants them in panels.
    """
    return tuple(config.candidate(workload) for config in _configs(workload, gpu))


def _configs(workload: Workload, gpu: GpuModel) -> tuple[Config, ...]:
    # Tiles read b as vectors of f32.
    if contracts(workload) and workload.tensors[1].dtype is DType.F32:
        return contraction_configs(workload, gpu)
    match workload.operator.family:
        case Family.CONVOLUTION:
            return pixels_configs(workload, gpu)
        case Family.ROWS:
            return rows_configs(workload, gpu)
    if workload.operator.name == "transpose":
        return square_configs(workload, gpu)
    return entries_configs(workload, gpu)

"""The lite space of WebGPU, by the family of an operator. It belongs to a model of GPU."""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import ANY_GPU, SOFTWARE_DRIVER, GpuModel
from kernelzoo.domain.operators import Family
from kernelzoo.domain.workload import KEY_DTYPES, Workload
from services.tuner.schedules.base.compilable import Config, compiles
from services.tuner.schedules.base.f16_storage import has_halves, natively
from services.tuner.schedules.conv.implicit_gemm import contracts
from services.tuner.schedules.conv.webgpu_space import pixels_configs
from services.tuner.schedules.elementwise.webgpu_space import entries_configs, square_configs
from services.tuner.schedules.matmul.webgpu_space import contraction_configs
from services.tuner.schedules.reduction.webgpu_space import rows_configs

MOST_OF_HALVES = 40
"""Configs, so that the space has at most 80 points."""


def gpu_space(workload: Workload, gpu: GpuModel) -> tuple[Candidate, ...]:
    """The first requires nothing that not every adapter has.

    Constant weights have the space of all others: no kernel wants them in panels.
    """
    configs = _compilable(_configs(workload, gpu), workload, gpu)
    plain = tuple(config.candidate(workload) for config in configs)
    return _in_both_ways(plain[:MOST_OF_HALVES]) if has_halves(workload) else plain


def _compilable(
    configs: tuple[Config, ...], workload: Workload, gpu: GpuModel
) -> tuple[Config, ...]:
    """Those that the model's driver compiles. The first for any GPU is one that a driver without
    any GPU compiles too: it is what a device is given while nothing else is known of it."""
    found = tuple(one for one in configs if compiles(one, workload, gpu.driver))
    if gpu is not ANY_GPU:
        return found
    needs = min((one.requires(workload) for one in found), key=len)
    first = next(
        one
        for one in found
        if compiles(one, workload, SOFTWARE_DRIVER) and one.requires(workload) == needs
    )
    return (first, *(one for one in found if one != first))


def _in_both_ways(packed: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Every config once before any is repeated: its two ways to hold halves differ by 3 % at most
    on an H200, configs by half. Without shader-f16 the packed ones are left, in their order."""
    first, *others = packed
    native = [natively(one) for one in others]
    return (first, *native, natively(first), *others)


def _configs(workload: Workload, gpu: GpuModel) -> tuple[Config, ...]:
    # Tiles read b as vectors.
    if contracts(workload) and workload.tensors[1].dtype in KEY_DTYPES:
        return contraction_configs(workload, gpu)
    match workload.operator.family:
        case Family.CONVOLUTION:
            return pixels_configs(workload, gpu)
        case Family.ROWS:
            return rows_configs(workload, gpu)
    if workload.operator.name == "transpose":
        return square_configs(workload, gpu)
    return entries_configs(workload, gpu)

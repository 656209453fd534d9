"""Sums of rows by teams of threads: in workgroup memory, level by level, or by subgroups."""

from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import Program
from services.tuner.passes.pipeline import run_gpu_passes
from services.tuner.schedules.reduction.webgpu import reduction_programs
from services.tuner.schedules.reduction.webgpu_config import WebgpuReductionConfig

TEAM = 64
SUMS = Workload.of("row_sum", (4096, 4 * TEAM))
"""A vector of each row for each thread: most of the time goes to adding up what threads have."""

FLOPS = SUMS.flops
TENSORS = tuple(tensor.name for tensor in SUMS.tensors)
"""The source and the sink."""


def levels() -> tuple[Program, ...]:
    return _programs(
        WebgpuReductionConfig(threads_per_row=TEAM, block_m=4, vectors=1, radix=8, subgroups=False)
    )


def subgroups() -> tuple[Program, ...]:
    return _programs(
        WebgpuReductionConfig(threads_per_row=TEAM, block_m=4, vectors=1, radix=1, subgroups=True)
    )


def _programs(config: WebgpuReductionConfig) -> tuple[Program, ...]:
    return tuple(map(run_gpu_passes, reduction_programs(SUMS, config)))

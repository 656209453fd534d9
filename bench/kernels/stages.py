"""The steps of `services.tuner.compile`, timed one by one."""

from itertools import pairwise
from time import perf_counter_ns

from kernelzoo.domain.candidate import Candidate
from services.tuner.codegen.wasm.module import assemble, lower
from services.tuner.codegen.wgsl.module import print_module
from services.tuner.passes.pipeline import ALL_PASSES, PassOptions, run_gpu_passes, run_passes
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.f16_storage import f16_storage_of
from services.tuner.schedules.matmul.config import WasmMatmulConfig
from services.tuner.schedules.matmul.wasm import scheduled
from services.tuner.schedules.registry import scheduled as scheduled_candidate
from services.tuner.tir.lowering import lowered, visited

STAGES = ("schedule", "tvm_lower", "visit", "passes", "wasm_lower", "encode")
"""TVM's schedule, TVM's passes, the visit into our IR, our passes, instructions, bytes."""

GPU_STAGES = ("schedule", "passes", "print")
"""Our loop nests, our passes, text."""


def stage_times_ns(candidate: Candidate) -> tuple[int, ...]:
    """One compilation; times in the order of STAGES."""
    config, extents = WasmMatmulConfig.of(candidate), Extents.of(candidate.workload)
    at = [perf_counter_ns()]
    module = scheduled(extents, config)
    at.append(perf_counter_ns())
    function = lowered(module)
    at.append(perf_counter_ns())
    program = visited(function, config.shapes(extents), config.range_extent(extents))
    at.append(perf_counter_ns())
    program = run_passes(program, ALL_PASSES, PassOptions(fma=config.fma))
    at.append(perf_counter_ns())
    instructions = lower(program, ALL_PASSES).function
    at.append(perf_counter_ns())
    assemble(instructions)
    at.append(perf_counter_ns())
    return tuple(end - start for start, end in pairwise(at))


def gpu_stage_times_ns(candidate: Candidate) -> tuple[int, ...]:
    """One compilation for WebGPU; times in the order of GPU_STAGES."""
    names = tuple(tensor.name for tensor in candidate.workload.tensors)
    at = [perf_counter_ns()]
    programs = scheduled_candidate(candidate).nests
    at.append(perf_counter_ns())
    programs = tuple(map(run_gpu_passes, programs))
    at.append(perf_counter_ns())
    print_module(programs, names, f16_storage_of(candidate))
    at.append(perf_counter_ns())
    return tuple(end - start for start, end in pairwise(at))

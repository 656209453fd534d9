"""The space of kernels for wasm that take values in order: one."""

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.ordered.config import WasmOrderedConfig


def wasm_ordered_configs(_: Workload) -> tuple[WasmOrderedConfig, ...]:
    return (WasmOrderedConfig(fma=False),)

"""The lite space of quantisation: extremes that are held at once, and vectors of words to a
slice."""

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.quantisation.config import WasmQuantisationConfig, finds_range

VECTORS = (4, 6, 2)
CHUNKS = (256, 1024, 64)
"""A thousand vectors of words are 64 KB of activations."""


def wasm_quantisation_configs(workload: Workload) -> tuple[WasmQuantisationConfig, ...]:
    if finds_range(workload.program):
        return tuple(WasmQuantisationConfig(vectors=each, chunk=1, fma=False) for each in VECTORS)
    return tuple(WasmQuantisationConfig(vectors=1, chunk=each, fma=False) for each in CHUNKS)

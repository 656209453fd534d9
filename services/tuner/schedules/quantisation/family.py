"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, webgpu_family
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.quantisation.config import finds_range, makes_bytes
from services.tuner.schedules.quantisation.space import wasm_quantisation_configs
from services.tuner.schedules.quantisation.webgpu_space import range_configs


def _quantises(space: IterationSpace) -> bool:
    """True of both steps of quantisation, which operators name."""
    return space.named and (finds_range(space.program) or makes_bytes(space.program))


def _has_range(space: IterationSpace) -> bool:
    return space.named and finds_range(space.program)


FAMILIES = (
    wasm_family("quantisation", _quantises, wasm_quantisation_configs),
    webgpu_family("quantisation", _has_range, range_configs),
)

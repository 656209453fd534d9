"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, webgpu_family, with_javascript
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.reduction.rows import rows
from services.tuner.schedules.reduction.space import wasm_reduction_configs
from services.tuner.schedules.reduction.webgpu_space import reduction_configs


def _reduces_rows(space: IterationSpace) -> bool:
    return rows(space.program) is not None


FAMILIES = (
    *with_javascript(
        wasm_family("reduction", _reduces_rows, wasm_reduction_configs, programs=True)
    ),
    webgpu_family("reduction", _reduces_rows, reduction_configs, programs=True),
)

"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, webgpu_family, with_javascript
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.ordered.space import wasm_ordered_configs
from services.tuner.schedules.ordered.webgpu_space import ordered_configs


def _takes_values_in_order(space: IterationSpace) -> bool:
    return space.program.is_ordered


FAMILIES = (
    *with_javascript(
        wasm_family(
            "ordered", _takes_values_in_order, wasm_ordered_configs, programs=True, ordered=True
        )
    ),
    webgpu_family("ordered", _takes_values_in_order, ordered_configs, programs=True, ordered=True),
)

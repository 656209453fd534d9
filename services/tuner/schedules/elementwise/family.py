"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, webgpu_family, with_javascript
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.elementwise.space import wasm_elementwise_configs
from services.tuner.schedules.elementwise.webgpu_space import elementwise_configs


def _is_any(_: IterationSpace) -> bool:
    return True


FAMILIES = (
    # Loops as the program is stated.
    *with_javascript(
        wasm_family("elementwise", _is_any, wasm_elementwise_configs, programs=True, states=True)
    ),
    # A thread for each entry, as the program is stated.
    webgpu_family("elementwise", _is_any, elementwise_configs, programs=True, states=True),
)

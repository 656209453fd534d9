"""Lists the families of this folder, and tells which programs each takes."""

from kernelzoo.domain.operators.recurrence import is_recurrent
from services.tuner.schedules.base.family import wasm_family, webgpu_family, with_javascript
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.recurrence.space import wasm_recurrence_configs
from services.tuner.schedules.recurrence.webgpu_space import recurrence_configs


def _is_made_in_steps(space: IterationSpace) -> bool:
    return is_recurrent(space.program)


FAMILIES = (
    *with_javascript(
        wasm_family(
            "recurrence",
            _is_made_in_steps,
            wasm_recurrence_configs,
            programs=True,
            recurrences=True,
        )
    ),
    webgpu_family(
        "recurrence", _is_made_in_steps, recurrence_configs, programs=True, recurrences=True
    ),
)

"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, with_javascript
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.base.windows import windows
from services.tuner.schedules.winograd.space import wasm_winograd_configs


def _has_windows_of_three(space: IterationSpace) -> bool:
    """3 x 3 pixels of all channels."""
    image = windows(space.program) if space.named else None
    return image is not None and image.packs and [*map(image.size, image.window)] == [3, 3]


FAMILIES = with_javascript(wasm_family("winograd", _has_windows_of_three, wasm_winograd_configs))

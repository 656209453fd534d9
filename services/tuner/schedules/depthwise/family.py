"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, with_javascript
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.base.windows import windows
from services.tuner.schedules.depthwise.space import wasm_depthwise_configs


def _keeps_channels_apart(space: IterationSpace) -> bool:
    """Windows of each channel by itself."""
    image = windows(space.program) if space.named else None
    return image is not None and not image.k and image.multiplies


FAMILIES = with_javascript(wasm_family("depthwise", _keeps_channels_apart, wasm_depthwise_configs))

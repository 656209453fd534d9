"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, with_javascript
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.base.windows import windows
from services.tuner.schedules.direct_conv.space import wasm_direct_conv_configs


def _sums_channels(space: IterationSpace) -> bool:
    """Windows over all channels."""
    image = windows(space.program) if space.named else None
    return image is not None and image.packs


FAMILIES = with_javascript(wasm_family("direct_conv", _sums_channels, wasm_direct_conv_configs))

"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import wasm_family, webgpu_family, with_javascript
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.base.windows import windows
from services.tuner.schedules.conv.channelwise import channelwise
from services.tuner.schedules.conv.space import wasm_conv_configs
from services.tuner.schedules.conv.webgpu_space import conv_configs


def _has_windows(space: IterationSpace) -> bool:
    return windows(space.program) is not None


FAMILIES = (
    *with_javascript(wasm_family("conv", _has_windows, wasm_conv_configs, programs=True)),
    webgpu_family("conv", channelwise, conv_configs, programs=True),
)

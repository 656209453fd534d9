"""Lists the families of this folder, and tells which programs each takes."""

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import number
from services.tuner.schedules.base.family import wasm_family
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.byte_depthwise.config import CHANNELS, MAX_WINDOW
from services.tuner.schedules.byte_depthwise.space import wasm_byte_depthwise_configs

RANK = 4


def _keeps_channels_apart(space: IterationSpace) -> bool:
    """Small windows over words of bytes, of each channel by itself, which an operator names."""
    stages = space.program.stages
    if not space.named or len(stages) != RANK or space.program.output_dtype is not DType.I32:
        return False
    total = stages[1]
    sides = [number(axis.extent) for axis in total.over]
    small = len(sides) == 2 and max(sides) <= MAX_WINDOW
    return small and len(total.shape) == RANK and total.shape[-1] % CHANNELS == 0


FAMILIES = (wasm_family("byte_depthwise", _keeps_channels_apart, wasm_byte_depthwise_configs),)

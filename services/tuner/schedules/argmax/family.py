"""Lists the families of this folder, and tells which programs each takes."""

from kernelzoo.domain.operators.decoding import argmax_count
from services.tuner.schedules.argmax.webgpu_space import argmax_configs
from services.tuner.schedules.base.family import webgpu_family
from services.tuner.schedules.base.iteration import IterationSpace


def _is_argmax(space: IterationSpace) -> bool:
    return argmax_count(space.program) is not None


FAMILIES = (webgpu_family("argmax", _is_argmax, argmax_configs, programs=True),)

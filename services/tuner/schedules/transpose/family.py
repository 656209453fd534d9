"""Lists the families of this folder, and tells which programs each takes."""

from services.tuner.schedules.base.family import webgpu_family
from services.tuner.schedules.base.iteration import is_transposition
from services.tuner.schedules.transpose.webgpu_space import transpose_configs

FAMILIES = (webgpu_family("transpose", is_transposition, transpose_configs),)

"""Lists the families of this folder, and tells which programs each takes."""

from kernelzoo.domain.operators.decoding import attention_shape
from services.tuner.schedules.base.family import wasm_family, webgpu_family
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.decode_attention.config import cache_attention
from services.tuner.schedules.decode_attention.space import wasm_decode_attention_configs
from services.tuner.schedules.decode_attention.webgpu_space import decode_attention_configs


def _attends(space: IterationSpace) -> bool:
    return attention_shape(space.program) is not None


def _attends_cache(space: IterationSpace) -> bool:
    """Attention of one token or of a block of them."""
    return cache_attention(space.program) is not None


# Language models do not run in JavaScript, so that nobody would run it there.
FAMILIES = (
    wasm_family(
        "decode_attention",
        _attends_cache,
        wasm_decode_attention_configs,
        programs=True,
        states=True,
    ),
    webgpu_family(
        "decode_attention", _attends, decode_attention_configs, programs=True, states=True
    ),
)

"""Lists the families of this folder, and tells which programs each takes."""

from kernelzoo.domain.operators.decoding import LANES
from kernelzoo.domain.operators.prefill import block_attention_shape
from services.tuner.schedules.base.family import webgpu_family
from services.tuner.schedules.base.iteration import IterationSpace
from services.tuner.schedules.block_attention.webgpu_space import block_attention_configs


def _attends_blocks(space: IterationSpace) -> bool:
    block = block_attention_shape(space.program)
    return block is not None and block[0].head_dim % (2 * LANES) == 0


FAMILIES = (
    webgpu_family(
        "block_attention", _attends_blocks, block_attention_configs, programs=True, states=True
    ),
    webgpu_family(
        "tiled_block_attention",
        _attends_blocks,
        block_attention_configs,
        template="block_attention.webgpu_tiled",
        programs=True,
        states=True,
    ),
)

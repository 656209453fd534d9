"""Lists the families of this folder, and tells which programs each takes."""

from kernelzoo.domain.operators.attention import attention_of
from services.tuner.schedules.attention.space import wasm_attention_configs
from services.tuner.schedules.attention.webgpu_space import webgpu_attention_configs
from services.tuner.schedules.base.family import wasm_family, webgpu_family, with_javascript
from services.tuner.schedules.base.iteration import IterationSpace


def _attends_rows(space: IterationSpace) -> bool:
    operands = attention_of(space.program)
    return operands is not None and operands.in_vectors


def _attends_rows_in_quads(space: IterationSpace) -> bool:
    operands = attention_of(space.program)
    return operands is not None and operands.in_quads and not operands.is_told_spare


FAMILIES = (
    *with_javascript(
        wasm_family("attention", _attends_rows, wasm_attention_configs, programs=True, spares=True)
    ),
    webgpu_family("attention", _attends_rows_in_quads, webgpu_attention_configs, programs=True),
    webgpu_family(
        "split_attention",
        _attends_rows_in_quads,
        webgpu_attention_configs,
        template="attention.webgpu_split",
        programs=True,
    ),
)

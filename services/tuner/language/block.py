"""The calls of a block of a prompt: what they leave is the keys and values of its tokens."""

from kernelzoo.domain.operators.decoding import AttentionShape, gated_q4, normed_heads, scaled_rows
from kernelzoo.domain.operators.prefill import (
    advance_block,
    block_attention,
    block_tokens,
    normed_rows,
)
from services.tuner.language.building import GraphBuilding
from services.tuner.language.config import LanguageConfig
from services.tuner.language.operands import DecoderOperands, LayerOperands

BLOCK_ROWS = 128
"""Tokens of a block, unless told. A prompt's last block computes as many, too."""
GATED = {"silu": "swiglu_q4", "gelu_tanh": "geglu_q4"}
"""Names of the gate's programs."""


def block_calls(
    made: GraphBuilding, config: LanguageConfig, operands: DecoderOperands, rows: int
) -> None:
    length, width = config.length, config.width
    prompt, position, token = operands.prompt, operands.position, operands.token
    tokens = made.program(
        "block_tokens", block_tokens(length, rows), (prompt, position), "block tokens"
    )
    gather = f"gather_q4:f32:m{rows}k{config.vocabulary}n{width}"
    x = made.named(gather, (*operands.embedding, tokens), "block embedded")
    x = scaled(made, config, x, rows)
    for layer in operands.layers:
        attended = _attended(made, config, operands, layer, x, rows)
        # Of the last layer nothing is wanted but its keys and values.
        if layer is not operands.layers[-1]:
            x = _layer_rows(made, config, layer, (attended, x), rows)
    made.program("advance_block", advance_block(length, rows), (prompt, position, token), "behind")


def scaled(made: GraphBuilding, config: LanguageConfig, x: str, rows: int) -> str:
    """Rows of the embedding as the first layer reads them."""
    if config.embedding_scale == 1:
        return x
    program = scaled_rows(rows, config.width, config.embedding_scale)
    return made.program("scaled_rows", program, (x,), f"{x} scaled")


def _attended(
    made: GraphBuilding,
    config: LanguageConfig,
    operands: DecoderOperands,
    layer: LayerOperands,
    x: str,
    rows: int,
) -> str:
    told, width = f"{layer.told} block", config.width
    a = _normed(made, config, (x, layer.gamma), f"{told} normed", rows)
    key = f"matmul_q4{'+bias' * config.bias}:f32:m{rows}k{width}n{config.projected}"
    projected = made.named(key, (a, *layer.projection, *layer.bias), f"{told} projected")
    if config.normed_heads:
        program = normed_heads(config.heads, config.kv_heads, config.head_dim, config.epsilon, rows)
        projected = made.program(
            "normed_heads", program, (projected, *layer.head_gammas), f"{told} normed heads"
        )
    shape = AttentionShape(
        heads=config.heads, kv_heads=config.kv_heads, head_dim=config.head_dim, length=config.length
    )
    place = (*operands.tables, operands.position, layer.keys, layer.values)
    return made.program(
        "block_attention", block_attention(shape, rows), (projected, *place), f"{told} attended"
    )


def _layer_rows(
    made: GraphBuilding,
    config: LanguageConfig,
    layer: LayerOperands,
    given: tuple[str, str],
    rows: int,
) -> str:
    """What a layer makes of its attention and the rows that it was given."""
    told, width, hidden = f"{layer.told} block", config.width, config.hidden
    attended, x = given
    key = f"matmul_q4+residual:f32:m{rows}k{config.heads * config.head_dim}n{width}"
    x = made.named(key, (attended, *layer.output, x), f"{told} summed")
    a = _normed(made, config, (x, layer.gate_gamma), f"{told} gate normed", rows)
    program = gated_q4(rows, width, hidden, gate=config.gate)
    gate = made.program(GATED[config.gate], program, (a, *layer.gate), f"{told} gated")
    key = f"matmul_q4+residual:f32:m{rows}k{hidden}n{width}"
    return made.named(key, (gate, *layer.down, x), f"{told} output rows")


def _normed(
    made: GraphBuilding, config: LanguageConfig, operands: tuple[str, str], output: str, rows: int
) -> str:
    program = normed_rows(rows, config.width, config.epsilon)
    return made.program("normed_rows", program, operands, output)

"""The calls of a block of a prompt: what they leave is the keys and values of its tokens."""

from kernelzoo.domain.operators.decoding import (
    gated_product,
    normed_heads,
    normed_sum,
    scaled_rows,
)
from kernelzoo.domain.operators.prefill import (
    advance_block,
    block_attention,
    block_tokens,
    normed_rows,
)
from services.tuner.language.building import GraphBuilding, Matrix
from services.tuner.language.config import LanguageConfig
from services.tuner.language.operands import DecoderOperands, LayerOperands

BLOCK_ROWS = 128
"""Tokens of a block, unless told. A prompt's last block computes as many, too."""
GATED = {"silu": "swiglu", "gelu_tanh": "geglu"}
"""Names of the gate's programs begin so, before the form of their weights."""


def block_calls(
    made: GraphBuilding, config: LanguageConfig, operands: DecoderOperands, rows: int
) -> None:
    length = config.length
    prompt, position, token = operands.prompt, operands.position, operands.token
    tokens = made.program(
        "block_tokens", block_tokens(length, rows), (prompt, position), "block tokens"
    )
    x = embedded(made, config, operands.embedding, (tokens, "block embedded"), rows)
    for layer in operands.layers:
        attended = _attended(made, config, operands, layer, x, rows)
        # Of the last layer nothing is wanted but its keys and values.
        if layer is not operands.layers[-1]:
            x = _layer_rows(made, config, layer, (attended, x), rows)
    made.program("advance_block", advance_block(length, rows), (prompt, position, token), "behind")


def embedded(
    made: GraphBuilding, config: LanguageConfig, table: Matrix, names: tuple[str, str], rows: int
) -> str:
    """Rows of the embedding as the first layer reads them. `names`: of the tokens, and of what is
    read of the table."""
    tokens, output = names
    key = table.form.key("gather", f"m{rows}k{config.vocabulary}n{config.width}")
    x = made.named(key, (*table.tensors, tokens), output)
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
    product = f"matmul{'+bias' * config.bias}"
    key = layer.projection.form.key(product, f"m{rows}k{width}n{config.projected}")
    given = (a, *layer.projection.tensors, *layer.bias)
    projected = made.named(key, given, f"{told} projected")
    if config.normed_heads:
        program = normed_heads(config.heads, config.kv_heads, config.head_dim, config.epsilon, rows)
        projected = made.program(
            "normed_heads", program, (projected, *layer.head_gammas), f"{told} normed heads"
        )
    place = (*layer.tables, operands.position, layer.keys, layer.values)
    program = block_attention(layer.attention, rows, config.cache)
    return made.program("block_attention", program, (projected, *place), f"{told} attended")


def _layer_rows(
    made: GraphBuilding,
    config: LanguageConfig,
    layer: LayerOperands,
    given: tuple[str, str],
    rows: int,
) -> str:
    """Makes a layer's output of its attention and the rows that it was given."""
    told, width, hidden = f"{layer.told} block", config.width, config.hidden
    attended, x = given
    x = added(made, config, layer, ATTENDED, (attended, x), f"{told} summed")
    a = _normed(made, config, (x, layer.gate_gamma), f"{told} gate normed", rows)
    program = gated_product(rows, width, hidden, gate=config.gate, form=layer.gate.form)
    name = f"{GATED[config.gate]}_{layer.gate.form.name}"
    gate = made.program(name, program, (a, *layer.gate.tensors), f"{told} gated")
    return added(made, config, layer, GATED_ROWS, (gate, x), f"{told} output rows")


ATTENDED, GATED_ROWS = 0, 1
"""The branches of a layer, in their order."""


def added(
    made: GraphBuilding,
    config: LanguageConfig,
    layer: LayerOperands,
    branch: int,
    given: tuple[str, str],
    output: str,
) -> str:
    """`given`: the rows that a branch's last product takes, and those to which it is added."""
    matrix = (layer.output, layer.down)[branch]
    a, x = given
    (rows, columns), width = made.values[a].shape, made.values[x].shape[1]
    extents = f"m{rows}k{columns}n{width}"
    if not layer.branch_gammas:
        key = matrix.form.key("matmul+residual", extents)
        return made.named(key, (a, *matrix.tensors, x), output)
    key = matrix.form.key("matmul", extents)
    product = made.named(key, (a, *matrix.tensors), f"{output} branch")
    program = normed_sum(rows, width, config.epsilon)
    operands = (product, layer.branch_gammas[branch], x)
    return made.program("normed_sum", program, operands, output)


def _normed(
    made: GraphBuilding, config: LanguageConfig, operands: tuple[str, str], output: str, rows: int
) -> str:
    program = normed_rows(rows, config.width, config.epsilon)
    return made.program("normed_rows", program, operands, output)

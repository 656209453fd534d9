"""The graph of a decoder: the calls of a block of the prompt, then those of one token, which are
five a layer (seven where branches are normalised), the head, and the step to the next place."""

from dataclasses import dataclass

from kernelzoo.domain.operators.decoding import (
    advance,
    argmax,
    decode_attention,
    gated_product,
    normed_heads,
    normed_product,
)
from kernelzoo.domain.plan import PortDType
from services.tuner.graph.graph import Graph, GraphPort
from services.tuner.language.block import (
    ATTENDED,
    BLOCK_ROWS,
    GATED,
    GATED_ROWS,
    added,
    block_calls,
    embedded,
)
from services.tuner.language.building import GraphBuilding
from services.tuner.language.checkpoint import Checkpoint
from services.tuner.language.config import LanguageConfig
from services.tuner.language.operands import DecoderOperands, LayerOperands, decoder_operands

LOGITS, CHOSEN = "logits", "chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderGraph:
    """The first `step` calls take a block of `rows` tokens of the prompt; the others one token."""

    graph: Graph
    operands: DecoderOperands
    rows: int
    step: int


def decoder_graph(
    config: LanguageConfig, weights: Checkpoint, block_rows: int = BLOCK_ROWS
) -> DecoderGraph:
    """Its inputs are states: the token, its position and the prompt. Its output is the logits."""
    made = GraphBuilding()
    operands = decoder_operands(made, config, weights)
    rows = min(block_rows, config.length)
    block_calls(made, config, operands, rows)
    step = len(made.nodes)
    _token_calls(made, config, operands)
    given = (operands.token, operands.position, operands.prompt)
    graph = Graph(
        inputs=tuple(GraphPort(name, PortDType.INT32, name) for name in given),
        outputs=(GraphPort(LOGITS, PortDType.FLOAT32, LOGITS),),
        values=made.values,
        constants=made.constants,
        nodes=tuple(made.nodes),
        states=tuple(made.states),
    )
    return DecoderGraph(graph=graph, operands=operands, rows=rows, step=step)


def _token_calls(made: GraphBuilding, config: LanguageConfig, operands: DecoderOperands) -> None:
    rows, width, token = config.vocabulary, config.width, operands.token
    x = embedded(made, config, operands.embedding, (token, "embedded"), 1)
    for layer in operands.layers:
        x = _layer(made, config, operands, layer, x)
    head = operands.head
    program = normed_product(
        1, width, rows, epsilon=config.epsilon, form=head.form, cap=config.logit_cap
    )
    given = (x, operands.gamma, *head.tensors)
    made.program(f"normed_matmul_{head.form.name}", program, given, LOGITS)
    chosen = made.program("argmax", argmax(rows), (LOGITS,), CHOSEN)
    step = (chosen, operands.prompt, operands.position, token)
    made.program("advance", advance(config.length), step, "next")


def _layer(
    made: GraphBuilding,
    config: LanguageConfig,
    operands: DecoderOperands,
    layer: LayerOperands,
    x: str,
) -> str:
    width, head_dim, epsilon, told = config.width, config.head_dim, config.epsilon, layer.told
    # 1. Queries, keys and values of the normalised row, in one product.
    matrix = layer.projection
    program = normed_product(
        1, width, config.projected, epsilon=epsilon, bias=config.bias, form=matrix.form
    )
    given = (x, layer.gamma, *matrix.tensors, *layer.bias)
    projected = made.program(
        f"normed_matmul_{matrix.form.name}", program, given, f"{told} projected"
    )
    if config.normed_heads:
        program = normed_heads(config.heads, config.kv_heads, head_dim, epsilon)
        given = (projected, *layer.head_gammas)
        projected = made.program("normed_heads", program, given, f"{told} normed heads")

    # 2. Attention, with the token's key and value written to the cache.
    place = (*layer.tables, operands.position, layer.keys, layer.values)
    attended = made.program(
        "decode_attention",
        decode_attention(layer.attention, config.cache),
        (projected, *place),
        f"{told} attended",
    )
    x = added(made, config, layer, ATTENDED, (attended, x), f"{told} summed")

    # 3. The gate and what it lets through.
    matrix = layer.gate
    program = gated_product(
        1, width, config.hidden, epsilon=epsilon, gate=config.gate, form=matrix.form
    )
    given = (x, layer.gate_gamma, *matrix.tensors)
    name = f"{GATED[config.gate]}_{matrix.form.name}"
    gate = made.program(name, program, given, f"{told} gated")
    return added(made, config, layer, GATED_ROWS, (gate, x), f"{told} output row")

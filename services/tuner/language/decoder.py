"""The graph of one token: five calls a layer, then the head and the step to the next place."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.decoding import (
    LANES,
    STATE,
    AttentionShape,
    advance,
    argmax,
    decode_attention,
    normed_heads,
    normed_matmul_q4,
    swiglu_q4,
)
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.plan import PortDType
from kernelzoo.domain.workload import Workload
from services.tuner.graph.graph import Graph, GraphPort, Node, Value
from services.tuner.language.checkpoint import Checkpoint
from services.tuner.language.config import LanguageConfig
from services.tuner.language.quantise import Quantised

TOKEN, POSITION, PROMPT, LOGITS, CHOSEN = "token", "position", "prompt", "logits", "chosen"
HEAD_LABEL = "head"


@dataclass(slots=True)
class _Building:
    values: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, NDArray[np.float32 | np.int32]] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    states: list[str] = field(default_factory=list)

    def constant(self, name: str, entries: NDArray[np.float32 | np.int32]) -> str:
        dtype = DType.I32 if entries.dtype == np.int32 else DType.F32
        self.values[name] = Value(name, dtype, entries.shape)
        self.constants[name] = entries
        return name

    def matrix(self, name: str, matrix: Quantised) -> tuple[str, str]:
        return self.constant(name, matrix.words), self.constant(f"{name}.scales", matrix.scales)

    def state(self, name: str, dtype: DType, shape: tuple[int, ...]) -> str:
        self.values[name] = Value(name, dtype, shape)
        self.states.append(name)
        return name

    def call(self, workload: Workload, inputs: Sequence[str], output: str) -> str:
        made = workload.output
        self.values[output] = Value(output, made.dtype, made.shape)
        self.nodes.append(Node(workload, tuple(inputs), output, output))
        return output

    def program(self, name: str, program: Program, inputs: Sequence[str], output: str) -> str:
        return self.call(Workload.of_program(name, program), inputs, output)


def decoder_graph(config: LanguageConfig, weights: Checkpoint) -> Graph:
    """Its inputs are states: the token, its position and the prompt. Its output is the logits."""
    made = _Building()
    token = made.state(TOKEN, DType.I32, (1,))
    position = made.state(POSITION, DType.I32, (STATE,))
    prompt = made.state(PROMPT, DType.I32, (config.length,))
    tables = tuple(
        made.constant(name, table)
        for name, table in zip(("cosines", "sines"), weights.rotation(config), strict=True)
    )
    rows, width = config.vocabulary, config.width
    embedding = made.matrix("embedding", weights.matrix("model.embed_tokens.weight", rows, width))
    gather = Workload.parse(f"gather_q4:f32:m1k{rows}n{width}")
    x = made.call(gather, (*embedding, token), "embedded")
    for layer in range(config.layers):
        x = _layer(made, config, weights, layer, x, (*tables, position))
    head = (
        embedding
        if config.tied
        else made.matrix("head", weights.matrix("lm_head.weight", rows, width))
    )
    gamma = made.constant("norm", weights.vector("model.norm.weight", width))
    program = normed_matmul_q4(1, width, rows, epsilon=config.epsilon)
    made.program("normed_matmul_q4", program, (x, gamma, *head), LOGITS)
    chosen = made.program("argmax", argmax(rows), (LOGITS,), CHOSEN)
    step = (chosen, prompt, position, token)
    made.program("advance", advance(config.length), step, "next")
    return Graph(
        inputs=tuple(GraphPort(name, PortDType.INT32, name) for name in (token, position, prompt)),
        outputs=(GraphPort(LOGITS, PortDType.FLOAT32, LOGITS),),
        values=made.values,
        constants=made.constants,
        nodes=tuple(made.nodes),
        states=tuple(made.states),
    )


def _layer(
    made: _Building,
    config: LanguageConfig,
    weights: Checkpoint,
    layer: int,
    x: str,
    place: tuple[str, ...],
) -> str:
    width, head_dim, epsilon = config.width, config.head_dim, config.epsilon
    told, stored = f"layer {layer}", f"model.layers.{layer}."

    def gamma(name: str, entries: int = width) -> str:
        return made.constant(f"{told} {name}", weights.vector(f"{stored}{name}.weight", entries))

    def matrix(name: str, rows: int, columns: int) -> Quantised:
        return weights.matrix(f"{stored}{name}.weight", rows, columns)

    # 1. Queries, keys and values of the normalised row, in one product.
    parts = (("q", config.heads), ("k", config.kv_heads), ("v", config.kv_heads))
    names = [(f"self_attn.{part}_proj", heads * head_dim) for part, heads in parts]
    joined = Quantised.stacked(*(matrix(name, rows, width) for name, rows in names))
    operands = [x, gamma("input_layernorm"), *made.matrix(f"{told} qkv", joined)]
    if config.bias:
        biases = [weights.vector(f"{stored}{name}.bias", rows) for name, rows in names]
        operands.append(made.constant(f"{told} qkv bias", np.concatenate(biases)))
    program = normed_matmul_q4(1, width, config.projected, epsilon=epsilon, bias=config.bias)
    projected = made.program("normed_matmul_q4", program, operands, f"{told} projected")
    if config.normed_heads:
        gammas = (gamma(f"self_attn.{part}_norm", head_dim) for part in ("q", "k"))
        program = normed_heads(config.heads, config.kv_heads, head_dim, epsilon)
        operands = [projected, *gammas]
        projected = made.program("normed_heads", program, operands, f"{told} normed heads")

    # 2. Attention, with the token's key and value written to the cache.
    kv_heads, length = config.kv_heads, config.length
    shape = AttentionShape(heads=config.heads, kv_heads=kv_heads, head_dim=head_dim, length=length)
    keys = made.state(f"{told} keys", DType.F32, (kv_heads, head_dim // LANES, length, LANES))
    values = made.state(f"{told} values", DType.F32, (kv_heads, length, head_dim))
    operands = [projected, *place, keys, values]
    attended = made.program(
        "decode_attention", decode_attention(shape), operands, f"{told} attended"
    )
    output = made.matrix(
        f"{told} output", matrix("self_attn.o_proj", width, config.heads * head_dim)
    )
    key = f"matmul_q4+residual:f32:m1k{config.heads * head_dim}n{width}"
    x = made.call(Workload.parse(key), (attended, *output, x), f"{told} summed")

    # 3. The gate and what it lets through.
    hidden = config.hidden
    gated = Quantised.stacked(
        matrix("mlp.gate_proj", hidden, width), matrix("mlp.up_proj", hidden, width)
    )
    operands = [x, gamma("post_attention_layernorm"), *made.matrix(f"{told} gate", gated)]
    program = swiglu_q4(1, width, hidden, epsilon=epsilon)
    gate = made.program("swiglu_q4", program, operands, f"{told} gated")
    down = made.matrix(f"{told} down", matrix("mlp.down_proj", width, hidden))
    key = f"matmul_q4+residual:f32:m1k{hidden}n{width}"
    return made.call(Workload.parse(key), (gate, *down, x), f"{told} output row")

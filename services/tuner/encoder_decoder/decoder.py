"""The graph of a model: the calls of the encoder, then those of one token of the decoder with the
head and the step to the next place."""

from dataclasses import dataclass

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.decoding import LANES, STATE, advance, argmax, decode_attention
from kernelzoo.domain.operators.encoding import placed_token
from kernelzoo.domain.plan import PortDType
from kernelzoo.domain.workload import Workload
from services.tuner.encoder_decoder.config import EncoderDecoderConfig, Positions
from services.tuner.encoder_decoder.encoder import SOURCE, encoder_calls
from services.tuner.encoder_decoder.layers import SPARE, Side
from services.tuner.encoder_decoder.naming import DECODER, ENCODER
from services.tuner.encoder_decoder.positions import distance_rows, position_rows
from services.tuner.encoder_decoder.tensors import NamedTensors
from services.tuner.graph.graph import Graph, GraphPort
from services.tuner.language.building import GraphBuilding, Matrix
from services.tuner.language.decoder import CHOSEN, LOGITS
from services.tuner.language.operands import POSITION, PROMPT, TOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoderGraph:
    """The first `encoder_nodes` nodes are those of the encoder. `caches` are the states with the
    decoder's own keys and values."""

    graph: Graph
    encoder_nodes: int
    caches: tuple[str, ...]


def encoder_decoder_graph(
    config: EncoderDecoderConfig, tensors: NamedTensors
) -> EncoderDecoderGraph:
    """Its inputs are states: those of a decoder, the source, and how much of that is spare. Its
    output is the logits."""
    made = GraphBuilding()
    for name, entries in ((TOKEN, 1), (POSITION, STATE), (PROMPT, config.length)):
        made.state(name, DType.I32, (entries,))
    read = config.spectrogram
    if read is None:
        made.state(SOURCE, DType.I32, (config.source_length,))
    else:
        made.state(SOURCE, DType.F32, (read.bands, read.frames))
    made.state(SPARE, DType.I32, (1,))
    embedding, source_embedding, head = _tables(made, config, tensors)
    kept = encoder_calls(made, config, tensors, source_embedding)
    encoder_nodes = len(made.nodes)
    side = Side(name=DECODER, config=config, tensors=tensors, made=made, rows=1)
    caches = _token_calls(side, embedding, head, kept)
    source_dtype = PortDType.INT32 if read is None else PortDType.FLOAT32
    words = [(name, PortDType.INT32) for name in (TOKEN, POSITION, PROMPT)]
    ports = (*words, (SOURCE, source_dtype), (SPARE, PortDType.INT32))
    graph = Graph(
        inputs=tuple(GraphPort(name, dtype, name) for name, dtype in ports),
        outputs=(GraphPort(LOGITS, PortDType.FLOAT32, LOGITS),),
        values=made.values,
        constants=made.constants,
        nodes=tuple(made.nodes),
        states=tuple(made.states),
    )
    return EncoderDecoderGraph(graph=graph, encoder_nodes=encoder_nodes, caches=caches)


def _tables(
    made: GraphBuilding, config: EncoderDecoderConfig, tensors: NamedTensors
) -> tuple[Matrix, Matrix | None, Matrix]:
    """The embeddings of the decoder and of the encoder, and the head. Equal ones are one."""
    naming, width = config.naming, config.width

    def stored(names: tuple[str, ...]) -> str | None:
        return next((each for each in names if each in tensors), None)

    # Of tensors that are one, files of safetensors have any.
    sides = DECODER, ENCODER
    names = tuple(each.format(side=side) for side in sides for each in naming.embedding)
    own = tuple(each.format(side=side) for side in sides[::-1] for each in naming.embedding)
    embedding = made.matrix("embedding", tensors.matrix(names, config.vocabulary, width))
    source: Matrix | None = None
    if config.spectrogram is None:
        source = embedding
        if stored(own) != stored(names):
            table = tensors.matrix(own, config.source_vocabulary, width)
            source = made.matrix("source embedding", table)
    head = embedding
    if not config.tied:
        head = made.matrix("head", tensors.matrix(naming.head, config.vocabulary, width))
    return embedding, source, head


def _token_calls(
    side: Side, embedding: Matrix, head: Matrix, kept: tuple[str, ...]
) -> tuple[str, ...]:
    """Returns the states with the decoder's own keys and values."""
    made, config, naming = side.made, side.config, side.config.naming
    key = embedding.form.key("gather", f"m1k{config.vocabulary}n{config.width}")
    x = made.named(key, (*embedding.tensors, TOKEN), "embedded")
    if config.positions is not Positions.RELATIVE:
        rows = position_rows(config, side.tensors, DECODER)
        program = placed_token(config.length, config.width, config.embedding_scale)
        x = made.program(
            "placed_token", program, (x, made.constant("places", rows), POSITION), "placed"
        )
    if config.normed_embedding:
        x = side.normed(x, naming.part(naming.embedding_norm, DECODER), "embedding normed")
    tables = _attention_tables(side)
    caches = tuple(_cache(side, number) for number in range(config.decoder.layers))
    for number, (source, cache) in enumerate(zip(kept, caches, strict=True)):
        x = _layer(side, number, x, (*tables, *cache), source)
    if config.normed_last:
        x = side.normed(x, naming.part(naming.last_norm, DECODER), "last normed")
    _head(side, x, head)
    made.program("argmax", argmax(config.vocabulary), (LOGITS,), CHOSEN)
    made.program("advance", advance(config.length), (CHOSEN, PROMPT, POSITION, TOKEN), "next")
    return tuple(name for cache in caches for name in cache)


def _cache(side: Side, number: int) -> tuple[str, str]:
    """Keys and values of a layer."""
    config, state = side.config, side.made.state
    heads, head_dim, length = side.stack.heads, config.head_dim, config.length
    keys = state(f"layer {number} keys", DType.F32, (heads, head_dim // LANES, length, LANES))
    return keys, state(f"layer {number} values", DType.F32, (heads, length, head_dim))


def _head(side: Side, x: str, head: Matrix) -> None:
    made, config = side.made, side.config
    names, given = ["matmul"], [x, *head.tensors]
    if config.logit_scale != 1:
        factor = np.array([config.logit_scale], np.float32)
        names.append("scale")
        given.append(made.constant("logit scale", factor))
    bias = config.naming.head_bias
    if bias and bias in side.tensors:
        entries = side.tensors.first((bias,), (1, config.vocabulary)).reshape(-1)
        if entries.any():
            names.append("bias")
            given.append(made.constant("logit bias", entries))
    key = head.form.key("+".join(names), f"m1k{config.width}n{config.vocabulary}")
    made.named(key, given, LOGITS)


def _attention_tables(side: Side) -> tuple[str, ...]:
    """Operands of the attention of a token over those before it, beside its own and the cache:
    tables of an embedding that rotates nothing, the position, and biases of scores where the model
    has them."""
    config, made = side.config, side.made
    half = (config.length, config.head_dim // 2)
    cosines = made.constant("cosines", np.ones(half, np.float32))
    sines = made.constant("sines", np.zeros(half, np.float32))
    if config.positions is not Positions.RELATIVE:
        return cosines, sines, POSITION
    rows = distance_rows(config, side.tensors, DECODER, -np.arange(config.length))
    return cosines, sines, POSITION, made.constant("distances", rows)


def _layer(side: Side, number: int, x: str, place: tuple[str, ...], source: str) -> str:
    """`place`: what attention reads beside the token's row, the cache at last."""
    config, naming, made = side.config, side.config.naming, side.made
    told, layer = f"layer {number}", naming.layer_of(DECODER, number)
    inner, width = side.inner, config.width

    # 1. The tokens before.
    workload = Workload.of_program("decode_attention", decode_attention(config.self_attention))

    def attended_before(projected: str) -> str:
        return made.call(workload, (projected, *place), f"{told} attended")

    x = side.self_attention(x, layer, told, attended_before)

    # 2. What the encoder made.
    queries, _, _, output = (layer + naming.cross_attention + each for each in naming.projections)
    norm = layer + naming.part(naming.cross_norm, DECODER)
    a = side.branch(x, norm, f"{told} source")
    query = side.product(f"{told} source q", (queries,), inner, width)
    asked = side.multiplied(a, query, f"{told} source asked")
    attended = side.attended((asked, 0), (source, 0), "", f"{told} source")
    product = side.product(f"{told} source output", (output,), width, inner)
    x = side.multiplied(attended, product, f"{told} source summed", residual=x)
    x = side.joined(x, norm, f"{told} source")

    # 3. The feed-forward part.
    norm = layer + naming.part(naming.feed_norm, DECODER)
    x = side.fed_forward(side.branch(x, norm, f"{told} feed"), x, layer, told)
    return side.joined(x, norm, f"{told} feed")

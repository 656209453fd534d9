"""A decoder that reads an encoder's states, with and without a cache, as PyTorch exports them for
Optimum, and the one file that Optimum merges them to."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from tests.unit.graph.models import drawn, parsed

WIDTH, HEADS, WORDS = 8, 2, 20
HEAD_WIDTH = WIDTH // HEADS
PREFIX = "past_key_values.0"
LEAST = float(np.finfo(np.float32).min)

WEIGHTS = {
    "shared.weight": (WORDS, WIDTH),
    **{f"onnx::MatMul_{index}": (WIDTH, WIDTH) for index in range(301, 309)},
    "onnx::MatMul_309": (WIDTH, WORDS),
}


def _ports(*ports: tuple[str, str, str]) -> str:
    return ", ".join(f'{kind}[{shape}] "{name}"' for name, kind, shape in ports)


def _cached(name: str, *, of: str, prefix: str) -> tuple[str, str, str]:
    return f"{prefix}.{name}", "float", f"batch_size, {HEADS}, {of}, {HEAD_WIDTH}"


def _split(tensor: str, rows: str) -> str:
    """[batch, rows, width] as [batch, heads, rows, width of a head]."""
    return f"""
        "{tensor}/shape" = Concat <axis = 0> ("/batch", {rows}, "/heads", "/head_width")
        "{tensor}/view" = Reshape ("{tensor}", "{tensor}/shape")
        "{tensor}/split" = Transpose <perm = [0, 2, 1, 3]> ("{tensor}/view")"""


def _attended(at: str, query: str, key: str, value: str, mask: str, weight: str, onto: str) -> str:
    return f"""
        "{at}/keys" = Transpose <perm = [0, 1, 3, 2]> ("{key}")
        "{at}/products" = MatMul ("{query}", "{at}/keys")
        "{at}/scores" = Add ("{at}/products", "{mask}")
        "{at}/shares" = Softmax <axis = -1> ("{at}/scores")
        "{at}/read" = MatMul ("{at}/shares", "{value}")
        "{at}/rows" = Transpose <perm = [0, 2, 1, 3]> ("{at}/read")
        "{at}/flat" = Concat <axis = 0> ("/batch", "/minus", "/width")
        "{at}/joined" = Reshape ("{at}/rows", "{at}/flat")
        "{at}/out" = MatMul ("{at}/joined", "{weight}")
        "{at}/sum" = Add ("{onto}", "{at}/out")"""


def _decoder(*, with_past: bool) -> ModelProto:
    told = "batch_size, decoder_sequence_length"
    inputs = [
        ("encoder_attention_mask", "int64", "batch_size, encoder_sequence_length"),
        ("input_ids", "int64", told),
    ]
    past = {"decoder": "past_decoder_sequence_length", "encoder": "encoder_sequence_length_out"}
    present = {"decoder": "past_decoder_sequence_length + 1", "encoder": "encoder_sequence_length"}
    if with_past:
        inputs += [
            _cached(f"{side}.{part}", of=size, prefix=PREFIX)
            for side, size in past.items()
            for part in ("key", "value")
        ]
    else:
        hidden = f"batch_size, encoder_sequence_length, {WIDTH}"
        inputs.append(("encoder_hidden_states", "float", hidden))
    outputs = [("logits", "float", f"{told}, {WORDS}")] + [
        _cached(f"{side}.{part}", of=f'"{size}"', prefix="present.0")
        for side, size in present.items()
        for part in ("key", "value")
        if side == "decoder" or not with_past
    ]
    before = f'"/shape_of_past" = Shape ("{PREFIX}.decoder.key")' if with_past else ""
    length = (
        '"/past" = Gather <axis = 0> ("/shape_of_past", two)'
        if with_past
        else ('"/past" = Identity (zero)')
    )
    text = f"""main_graph ({_ports(*inputs)}) => ({_ports(*outputs)}) {{
        "/batch" = Constant <value_ints = [1]> ()
        "/minus" = Constant <value_ints = [-1]> ()
        "/heads" = Constant <value_ints = [{HEADS}]> ()
        "/head_width" = Constant <value_ints = [{HEAD_WIDTH}]> ()
        "/width" = Constant <value_ints = [{WIDTH}]> ()
        "/shape" = Shape (input_ids)
        "/rows" = Gather <axis = 0> ("/shape", one)
        {before}
        {length}
        "/all" = Add ("/past", "/rows")
        "/h" = Gather <axis = 0> ("shared.weight", input_ids)
        "/q" = MatMul ("/h", "onnx::MatMul_301")
        "/k" = MatMul ("/h", "onnx::MatMul_302")
        "/v" = MatMul ("/h", "onnx::MatMul_303")
        {_split("/q", '"/minus"')}
        {_split("/k", '"/minus"')}
        {_split("/v", '"/minus"')}
        "/own" = Range ("/past", "/all", one)
        "/seen" = Range (zero, "/all", one)
        "/column" = Unsqueeze ("/own", axis_1)
        "/later" = Greater ("/seen", "/column")
        "/causal" = Where ("/later", least, none)
        {_presents(with_past=with_past)}
        {_attended("/self", "/q/split", "present.0.decoder.key", "present.0.decoder.value",
                   "/causal", "onnx::MatMul_304", "/h")}
        "/xq" = MatMul ("/self/sum", "onnx::MatMul_305")
        {_split("/xq", '"/minus"')}
        {_crossed(with_past=with_past)}
        "/mask" = Cast <to = 1> (encoder_attention_mask)
        "/mask/wide" = Unsqueeze ("/mask", axes_12)
        "/mask/not" = Sub (unit, "/mask/wide")
        "/mask/least" = Mul ("/mask/not", least)
        {_attended("/cross", "/xq/split", _side("key", with_past), _side("value", with_past),
                   "/mask/least", "onnx::MatMul_308", "/self/sum")}
        logits = MatMul ("/cross/sum", "onnx::MatMul_309")
    }}"""  # fmt: skip
    model = parsed(text)
    small = {"zero": 0, "one": 1, "two": 2, "axis_1": [1], "axes_12": [1, 2]}
    constants: dict[str, NDArray[Any]] = {
        name: np.array(value, np.int64) for name, value in small.items()
    }
    constants |= {"least": np.array(LEAST, np.float32), "none": np.array(0, np.float32)}
    constants |= {"unit": np.array(1, np.float32)}
    constants |= {name: drawn(shape, i) / 2 for i, (name, shape) in enumerate(WEIGHTS.items())}
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in constants.items() if name in used
    )
    return model


def _side(part: str, with_past: bool) -> str:
    return f"{PREFIX}.encoder.{part}" if with_past else f"present.0.encoder.{part}"


def _presents(*, with_past: bool) -> str:
    made = {"key": "/k/split", "value": "/v/split"}
    if not with_past:
        return "\n".join(
            f'"present.0.decoder.{part}" = Identity ("{new}")' for part, new in made.items()
        )
    return "\n".join(
        f'"present.0.decoder.{part}" = Concat <axis = 2> ("{PREFIX}.decoder.{part}", "{new}")'
        for part, new in made.items()
    )


def _crossed(*, with_past: bool) -> str:
    """Keys and values of the encoder's states, which a cache has already."""
    if with_past:
        return ""
    return "".join(
        f"""
        "/x{part}" = MatMul (encoder_hidden_states, "onnx::MatMul_{weight}")
        {_split(f"/x{part}", '"/minus"')}
        "present.0.encoder.{part}" = Identity ("/x{part}/split")"""
        for part, weight in (("key", 306), ("value", 307))
    )


def merged_decoder() -> ModelProto:
    """The merged file, as Optimum 1.23's `merge_decoders(..., strict=False)` writes it: weights are
    those of the outer graph, under new names, scalars and shapes lie in both branches, outputs of
    either have the names of the file's, and what the branch with a cache does not make is empty."""
    without, cached = _decoder(with_past=False), _decoder(with_past=True)
    weights = {each.name: each for each in without.graph.initializer if each.name in WEIGHTS}
    branches = [_branch(without.graph, "no_past"), _branch(cached.graph, "with_past")]
    branches[1].node.extend(
        helper.make_node(
            "Constant",
            [],
            [f"present.0.encoder.{part}"],
            value=helper.make_tensor(
                "const_tensor", TensorProto.FLOAT, [0, HEADS, 1, HEAD_WIDTH], []
            ),
        )
        for part in ("key", "value")
    )
    del branches[1].output[:]
    branches[1].output.extend(without.graph.output)
    choice = helper.make_node(
        "If",
        ["use_cache_branch"],
        [output.name for output in without.graph.output],
        name="optimum::if",
        then_branch=branches[1],
        else_branch=branches[0],
    )
    inputs = {port.name: port for port in (*without.graph.input, *cached.graph.input)}
    told = helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1])
    for name, weight in weights.items():
        weight.name = f"{name}_merged_0"
    graph = helper.make_graph(
        [choice], "merged", [*inputs.values(), told], without.graph.output, [*weights.values()]
    )
    return helper.make_model(graph, opset_imports=without.opset_import, ir_version=9)


def _branch(graph: GraphProto, name: str) -> GraphProto:
    for node in graph.node:
        for i, read in enumerate(node.input):
            if read in WEIGHTS:
                node.input[i] = f"{read}_merged_0"
    small = [each for each in graph.initializer if each.name not in WEIGHTS]
    return helper.make_graph(graph.node, name, [], graph.output, small)

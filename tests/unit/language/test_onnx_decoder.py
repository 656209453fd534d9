"""Language models in files of ONNX: the same plans as from their weights, or a refusal."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from bench.models.onnx_f16 import in_f16
from cli.models.importing import imported
from fixtures.language_configs import LLAMA
from fixtures.language_onnx import OnnxForm, decoder_onnx
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.formats.plans import plan_bytes
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.importing import import_model
from services.tuner.language.checkpoint import Seeded
from services.tuner.language.config import LanguageConfig, Rotary
from services.tuner.language.onnx_decoder import read_decoder
from services.tuner.language.planning import plan_decoder, plan_language_model
from services.tuner.language.reference import Reference

RECORDED: dict[str, NDArray[Any]] = dict(
    np.load(Path(__file__).parents[3] / "fixtures" / "recorded" / "language_models.npz")
)
QWEN2 = replace(LLAMA, bias=True, tied=False)
QWEN3 = replace(LLAMA, normed_heads=True)
GEMMA2 = replace(
    LLAMA,
    gate="gelu_tanh",
    embedding_scale=5.66,
    windows=(8, 0),
    score_scale=0.2,
    score_cap=1.5,
    logit_cap=3.0,
    normed_branches=True,
)
GEMMA3 = replace(
    GEMMA2, normed_heads=True, score_cap=0.0, windowed_rotary=Rotary(theta=1e6), logit_cap=0.0
)
PLAIN = OnnxForm(plain=True)


def _saved(folder: Path, model: ModelProto) -> Path:
    path = folder / "onnx" / "model_q4.onnx"
    path.parent.mkdir(exist_ok=True)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("config", [LLAMA, QWEN2, QWEN3, GEMMA2, GEMMA3])
def test_a_file_of_onnx_becomes_the_plan_of_its_weights(
    config: LanguageConfig, tmp_path: Path
) -> None:
    right = plan_decoder(config, Seeded(), "same")
    for form in (OnnxForm(), OnnxForm(joined=True)):
        path = _saved(tmp_path, decoder_onnx(config, Seeded(), form))
        found = plan_language_model(path, "same", [config.length])
        assert plan_bytes(found.plans[0]) == plan_bytes(right.plans[0])
        assert found.golden == right.golden
    path = _saved(tmp_path, decoder_onnx(config, Seeded(), PLAIN))
    read, weights = read_decoder(path, config.length)
    own = None if config.windowed_rotary is None else Rotary(theta=None)
    assert read == replace(config, theta=None, windowed_rotary=own)
    name = "model.layers.1.mlp.down_proj.weight"
    sizes = (config.width, config.hidden)
    words = weights.matrix(name, *sizes).words
    assert np.array_equal(words, Seeded().matrix(name, *sizes).words)


def _with_ports_of_f16(model: ModelProto) -> ModelProto:
    """Without the casts at inputs and outputs, as a cache of f16 needs none."""
    made = in_f16(model)
    ports = [*made.graph.input, *made.graph.output]
    reals = {port.name for port in ports if port.type.tensor_type.elem_type == TensorProto.FLOAT}
    for port in ports:
        if port.name in reals:
            port.type.tensor_type.elem_type = TensorProto.FLOAT16
    nodes = [node for node in made.graph.node if not reals & {*node.input, *node.output}]
    for node in nodes:
        for names in (node.input, node.output):
            names[:] = [name.removesuffix("/f16") for name in names]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


@pytest.mark.parametrize("config", [LLAMA, QWEN2, QWEN3, GEMMA2, GEMMA3])
@pytest.mark.parametrize("changed", [in_f16, _with_ports_of_f16])
def test_a_file_with_values_of_f16_becomes_the_same_calls(
    config: LanguageConfig, changed: Callable[[ModelProto], ModelProto], tmp_path: Path
) -> None:
    """The file is like `model_q4f16.onnx`: scales, norms, biases and tables of f16, computed with
    in f32. A factor that f16 rounds is in the text of its program, so that its hash is another."""
    model = changed(decoder_onnx(config, Seeded()))
    assert not [each for each in model.graph.initializer if each.data_type == TensorProto.FLOAT]
    path = _saved(tmp_path, model)
    right = plan_decoder(config, Seeded(), "same").plans[0]
    found = plan_language_model(path, "same", [config.length]).plans[0]
    assert found.calls == right.calls
    for each, same in zip(found.kernels, right.kernels, strict=True):
        assert each.partition("program:")[0] == same.partition("program:")[0]
        assert each.split(":")[:2] == same.split(":")[:2]
    tokens = [5, 9, 2, 66, 31]
    logits = Reference(*read_decoder(path)).logits(tokens)
    exact = Reference(config, Seeded()).logits(tokens)
    assert 0 < np.abs(logits - exact).max() < 2e-3 * np.abs(exact).max()


@pytest.mark.parametrize("form", [OnnxForm(), PLAIN])
def test_the_file_computes_the_logits_of_the_plan(form: OnnxForm, tmp_path: Path) -> None:
    """By the import of networks, which is held to onnxruntime's records."""
    path = _saved(tmp_path, decoder_onnx(QWEN2, Seeded(), form))
    graph = import_model(path, {"batch": 1, "sequence": 5, "past": 8, "total": 8})
    tokens = [5, 9, 2, 66, 31]
    feeds = {"input_ids": np.array([tokens]), "attention_mask": np.array([[1] * 5 + [0] * 3])}
    if form.plain:
        feeds["position_ids"] = np.arange(5)[None]
    empty = np.zeros((1, 2, 8, 16), np.float32)
    caches = [f"past_key_values.{layer}.{part}" for layer in (0, 1) for part in ("key", "value")]
    found = evaluate(graph, feeds | dict.fromkeys(caches, empty))["logits"].reshape(-1)
    right = Reference(QWEN2, Seeded()).logits(tokens)
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()


def test_the_command_takes_a_decoder_with_its_context_and_its_stop_tokens(tmp_path: Path) -> None:
    path = _saved(tmp_path, decoder_onnx(LLAMA, Seeded()))
    (tmp_path / "config.json").write_text('{"eos_token_id": 7}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')
    weights = tmp_path / "weights"
    made = imported(path, "small", ({"context": 20},), weights, lambda _: None)
    (plan,) = made.plans
    assert plan.decoder is not None
    assert (plan.decoder.length, plan.decoder.stop) == (20, (7, 9))
    assert weights.stat().st_size == plan.memory.weights
    with pytest.raises(InvalidInput, match="texts of 24 tokens; 25"):
        read_decoder(path, 25)


def _node(model: ModelProto, op: str) -> NodeProto:
    found: NodeProto = next(node for node in model.graph.node if node.op_type == op)
    return found


def _told(op: str, **attributes: float) -> Callable[[ModelProto], None]:
    def change(model: ModelProto) -> None:
        node = _node(model, op)
        for name, value in attributes.items():
            kept = [each for each in node.attribute if each.name != name]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute(name, value)])

    return change


def _numbers_for_zero_points(model: ModelProto) -> None:
    node = _node(model, "MatMulNBits")
    rows = next(each.i for each in node.attribute if each.name == "N")
    zeros = np.full((rows, LLAMA.width // 32), 7.5, np.float32)
    model.graph.initializer.append(numpy_helper.from_array(zeros, "zeros"))
    node.input.append("zeros")


def _biased_head(model: ModelProto) -> None:
    bias = numpy_helper.from_array(np.ones(LLAMA.vocabulary, np.float32), "head.bias")
    model.graph.initializer.append(bias)
    node = next(node for node in model.graph.node if "logits" in node.output)
    node.input.extend(["", "", "head.bias"])


def _quantised_cache(model: ModelProto) -> None:
    _node(model, "GroupQueryAttention").input.extend(["", "", "", "sines"])


def _uneven_embedding(model: ModelProto) -> None:
    """Each entry by a factor of its own."""
    factors = np.ones(LLAMA.width, np.float32)
    model.graph.initializer.append(numpy_helper.from_array(factors, "factors"))
    scaled = helper.make_node("Mul", ["embedded", "factors"], ["scaled"], name="/scale")
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            if name == "embedded":
                node.input[place] = "scaled"
    model.graph.node.append(scaled)


def _gelu(model: ModelProto) -> None:
    """Puts GELU with erf in the place of SiLU."""
    _node(model, "Sigmoid").op_type = "Gelu"


def _uneven_cap(model: ModelProto) -> None:
    """Logits are multiplied by another number than they were divided by."""
    for name, number in (("three", 3), ("four", 4)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(number, np.float32), name))
    head = next(node for node in model.graph.node if "logits" in node.output)
    head.output[0] = "product"
    model.graph.node.append(helper.make_node("Div", ["product", "three"], ["within"]))
    model.graph.node.append(helper.make_node("Tanh", ["within"], ["bent"], name="/tanh"))
    model.graph.node.append(helper.make_node("Mul", ["bent", "four"], ["logits"]))


def _no_logits(model: ModelProto) -> None:
    model.graph.output[0].name = "layer.2.norm"


def _unfinished(model: ModelProto) -> None:
    del _node(model, "MatMulNBits").attribute[:]


def _embeddings(model: ModelProto) -> None:
    """The decoder of a model that sees pictures, too."""
    node = _node(model, "GatherBlockQuantized")
    model.graph.input[0].name = node.output[0]
    model.graph.node.remove(node)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_told("MatMulNBits", bits=2), "weights of 2 bits; export them with 4 or 8"),
        (_told("MatMulNBits", block_size=24), "columns in blocks of 24"),
        (
            _numbers_for_zero_points,
            "zero points of float32; quantise it with zero points of as many",
        ),
        (_told("GroupQueryAttention", softcap=30.0), "layer 1 .* another scale or cap"),
        (_told("GroupQueryAttention", scale=0.1), "layer 1 .* another scale or cap"),
        (_told("GroupQueryAttention", smooth_softmax=1), "attention without smooth_softmax"),
        (_told("GroupQueryAttention", num_heads=2), "rotary embedding of all 32"),
        (_told("GroupQueryAttention", do_rotary=0), "with one rotary embedding"),
        (_told("SkipSimplifiedLayerNormalization", epsilon=0.5), "layer 0 .* another epsilon"),
        (_quantised_cache, "without biases, sinks and a quantised cache"),
        (_biased_head, "a head without a bias"),
        (_uneven_embedding, r"'/scale' \(Mul\) stands where the embedding of tokens"),
        (_gelu, "where a product gated by SiLU, or by GELU with tanh, is expected"),
        (_uneven_cap, r"'/tanh' \(Tanh\) stands where a cap of the logits is expected"),
        (_unfinished, "not made as its operator demands"),
        (_no_logits, "no output 'logits'; it has layer.2.norm"),
        (_embeddings, "'embedded' stands where the embedding of tokens"),
    ],
)
def test_a_file_of_another_shape_is_refused_with_the_node(
    change: Callable[[ModelProto], None], fault: str, tmp_path: Path
) -> None:
    model = decoder_onnx(LLAMA, Seeded())
    change(model)
    with pytest.raises((InvalidInput, UnsupportedModel), match=fault):
        read_decoder(_saved(tmp_path, model))


@pytest.mark.parametrize("name", sorted({key.partition("/")[0] for key in RECORDED} - {"tokens"}))
def test_files_of_onnxruntimes_builder_have_the_logits_that_onnxruntime_computed(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(RECORDED[f"{name}/model"].tobytes())
    config, weights = read_decoder(path)
    assert config.bias == (name == "qwen2")
    assert config.normed_heads == (name in ("qwen3", "gemma3_text"))
    found = Reference(config, weights).logits(RECORDED["tokens"].tolist())
    right = RECORDED[f"{name}/logits"]
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()

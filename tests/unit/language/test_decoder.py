"""Language models as plans: read, quantised, and refused where they are of another shape."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.plan import PlanDecoder, validated
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.formats.plans import plan_bytes, read_plan
from services.tuner.graph.graph import faults
from services.tuner.language.checkpoint import Safetensors, Seeded
from services.tuner.language.config import LanguageConfig, config_of, read_config
from services.tuner.language.decoder import decoder_graph
from services.tuner.language.planning import plan_decoder, plan_language_model
from services.tuner.language.quantise import quantised
from services.tuner.language.rotation import rotation

CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 70,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "rope_theta": 10_000.0,
    "eos_token_id": [2, 3],
    "tie_word_embeddings": True,
}


def _write(folder: Path, *, joined: bool = False) -> dict[str, NDArray[np.float32]]:
    """A model whose matrices are bfloat16, as most are; those that read one row may be joined, as
    Phi-3 has them."""
    random = np.random.default_rng(3)
    shapes = {"model.embed_tokens.weight": (70, 32), "model.norm.weight": (32,)}
    layer = {"q": (64, 32), "k": (32, 32), "v": (32, 32), "o": (32, 64)}
    shapes |= {f"model.layers.0.self_attn.{n}_proj.weight": each for n, each in layer.items()}
    mlp = {"gate": (64, 32), "up": (64, 32), "down": (32, 64)}
    shapes |= {f"model.layers.0.mlp.{n}_proj.weight": each for n, each in mlp.items()}
    shapes |= {f"model.layers.0.self_attn.{n}_norm.weight": (16,) for n in "qk"}
    shapes |= {f"model.layers.0.{n}_layernorm.weight": (32,) for n in ("input", "post_attention")}
    halves = {
        name: random.standard_normal(shape, np.float32).view(np.uint32) >> 16
        for name, shape in shapes.items()
    }
    made = {name: (half << 16).view(np.float32) for name, half in halves.items()}
    if joined:
        for parts, matrix in (("q k v", "self_attn.qkv_proj"), ("gate up", "mlp.gate_up_proj")):
            prefix = "model.layers.0." + matrix.partition(".")[0]
            names = [f"{prefix}.{part}_proj.weight" for part in parts.split()]
            rows = np.concatenate([halves.pop(name) for name in names])
            halves[f"model.layers.0.{matrix}.weight"] = rows
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, half in halves.items():
        data = half.astype("<u2").tobytes()
        offsets = [len(body), len(body) + len(data)]
        head[name] = {"dtype": "BF16", "shape": half.shape, "data_offsets": offsets}
        body += data
    text = json.dumps(head).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    kind = {"model_type": "phi3"} if joined else {}
    (folder / "config.json").write_text(json.dumps(CONFIG | kind))
    return made


def test_matrices_that_phi_3_joins_are_those_of_a_model_that_does_not(tmp_path: Path) -> None:
    made = _write(tmp_path, joined=True)
    config = read_config(tmp_path)
    weights = Safetensors(tmp_path, config)
    for name in ("self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
        right = made[f"model.layers.0.{name}.weight"]
        found = weights.matrix(f"model.layers.0.{name}.weight", *right.shape)
        assert np.array_equal(found.words, quantised(right).words)


def test_a_folder_of_safetensors_becomes_a_decoder(tmp_path: Path) -> None:
    made = _write(tmp_path)
    model = plan_language_model(tmp_path, "small", 48)
    (plan,) = model.plans
    assert read_plan(plan_bytes(plan)) == plan
    assert (plan.format, plan.dimensions) == (2, {"context": 48})
    assert isinstance(plan.decoder, PlanDecoder)
    assert plan.decoder.stop == (2, 3)
    assert [state.name for state in plan.states[:3]] == ["token", "position", "prompt"]
    names = [weight.name for weight in plan.weights]
    assert "head" not in names, "the tied head is the embedding"
    words = next(weight for weight in plan.weights if weight.name == "embedding")
    stored = dict(model.weights.parts)[words.offset]
    right = quantised(made["model.embed_tokens.weight"])
    assert stored.tobytes() == right.words.tobytes()


def test_a_quantised_weight_is_half_a_step_away_and_the_largest_is_met() -> None:
    entries = np.random.default_rng(0).standard_normal((3, 96)).astype(np.float32)
    entries[1, 32:64] = 0
    made = quantised(entries)
    steps = np.repeat(np.abs(made.scales), 32, axis=1)
    # The other end of the scale has one step less.
    assert (np.abs(made.dense - entries) <= steps * 1.0001).all()
    assert (np.abs(made.dense - entries) <= steps / 2 * 1.0001).mean() > 0.95
    assert np.array_equal(made.dense[1, 32:64], entries[1, 32:64])
    places = np.abs(entries.reshape(3, 3, 32)).argmax(axis=2)[..., None]
    met = np.take_along_axis((made.dense - entries).reshape(3, 3, 32), places, axis=2)
    assert np.abs(met).max() < 1e-6


def test_graphs_of_all_shapes_are_sound_and_a_lone_head_is_a_weight() -> None:
    config = config_of(CONFIG | {"model_type": "llama", "tie_word_embeddings": False})
    for each in (config, replace(config, bias=True, normed_heads=True)):
        assert faults(decoder_graph(each, Seeded()).graph) == ()
    (plan,) = plan_decoder(config, Seeded(), "untied").plans
    assert "head" in [weight.name for weight in plan.weights]


def test_llama_3_stretches_long_waves_alone() -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    plain, stretched = (
        rotation(config_of(CONFIG | {"rope_scaling": each}))[1] for each in (None, scaling)
    )
    assert np.array_equal(plain[:, 0], stretched[:, 0])
    assert np.allclose(stretched[32, -1], np.sin(32 * 10_000 ** (-14 / 16) / 32))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"model_type": "gemma"}, "none of llama"),
        ({"hidden_act": "gelu"}, "silu alone"),
        ({"attention_bias": True}, "biases of its output"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
        ({"hidden_size": 40}, "multiples of 32"),
        ({"vocab_size": None}, "vocab_size None"),
        ({"model_type": "phi3", "sliding_window": 47}, "window of 47 tokens; give it room for no"),
        ({"partial_rotary_factor": 0.75}, "rotates a part of each head"),
    ],
)
def test_a_model_of_another_shape_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises((InvalidInput, UnsupportedModel), match=fault):
        config_of(CONFIG | changes)


def test_more_room_than_the_model_knows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="texts of 64 tokens; 65"):
        config_of(CONFIG, 65)


def _tiny() -> LanguageConfig:
    return config_of(CONFIG)


def test_a_plan_whose_states_or_decoder_do_not_fit_is_refused() -> None:
    (plan,) = plan_decoder(_tiny(), Seeded(), "small").plans
    decoder = plan.decoder
    assert decoder is not None
    for changed, fault in (
        (replace(plan, format=1), "has format 2 if it has states"),
        (replace(plan, decoder=replace(decoder, length=63)), "prompt must be a state of 63"),
        (replace(plan, decoder=replace(decoder, vocabulary=71)), "logits must be 71"),
        (replace(plan, decoder=replace(decoder, token=decoder.chosen)), "token must be a state"),
        (replace(plan, decoder=replace(decoder, head=len(plan.calls))), "no call between"),
        (replace(plan, decoder=replace(decoder, step=decoder.head)), "no call between"),
        (replace(plan, decoder=replace(decoder, rows=0)), "has 0 rows"),
        (replace(plan, decoder=replace(decoder, stop=(70,))), "not in its vocabulary"),
        (replace(plan, states=(*plan.states, plan.states[-1])), "is there twice"),
    ):
        with pytest.raises(InvalidInput, match=fault):
            validated(changed)

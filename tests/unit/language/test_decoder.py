"""Language models as plans: read, quantised, and refused where they are of another shape."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cli.models.importing import WantedWeights, WeightsChoice, imported
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import Form
from kernelzoo.domain.plan import PlanDecoder
from kernelzoo.domain.plan_checking import validated
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.formats.plans import plan_bytes, read_plan
from services.tuner.graph.graph import faults
from services.tuner.language.checkpoint import Safetensors, Seeded
from services.tuner.language.config import LanguageConfig
from services.tuner.language.config_file import config_of, read_config
from services.tuner.language.decoder import decoder_graph
from services.tuner.language.planning import plan_decoder, plan_language_model
from services.tuner.language.quantise import quantised
from services.tuner.language.reference import Reference
from services.tuner.language.rotation import rotation
from services.tuner.schedules.registry import lite_space
from tests.language_folder import CONFIG, write_folder
from tests.language_steps import prompt_logits


def test_matrices_that_phi_3_joins_are_those_of_a_model_that_does_not(tmp_path: Path) -> None:
    made = write_folder(tmp_path, joined=True)
    config = read_config(tmp_path)
    weights = Safetensors(tmp_path, config)
    for name in ("self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
        right = made[f"model.layers.0.{name}.weight"]
        found = weights.matrix(f"model.layers.0.{name}.weight", *right.shape)
        assert np.array_equal(found.words, quantised(right).words)


def test_a_folder_of_safetensors_becomes_a_decoder(tmp_path: Path) -> None:
    made = write_folder(tmp_path)
    model = plan_language_model(tmp_path, "small", [48])
    (plan,) = model.plans
    assert read_plan(plan_bytes(plan)) == plan
    assert (plan.needs, plan.dimensions) == (("states",), {"context": 48})
    assert isinstance(plan.decoder, PlanDecoder)
    assert plan.decoder.stop == (2, 3)
    assert [state.name for state in plan.states[:3]] == ["token", "position", "prompt"]
    names = [weight.name for weight in plan.weights]
    assert "head" not in names, "the tied head is the embedding"
    words = next(weight for weight in plan.weights if weight.name == "embedding")
    stored = dict(model.weights.parts)[words.offset]
    right = quantised(made["model.embed_tokens.weight"])
    assert stored.tobytes() == right.words.tobytes()


def test_plans_of_several_contexts_share_their_weights_in_the_order_of_the_file(
    tmp_path: Path,
) -> None:
    write_folder(tmp_path)
    model = plan_language_model(tmp_path, "small", [48, 32])
    assert [plan.dimensions["context"] for plan in model.plans] == [32, 48]
    short, long = model.plans
    for plan in model.plans:
        offsets = [weight.offset for weight in plan.weights]
        assert offsets == sorted(offsets), "a page takes them in this order"
    own = {weight.name for weight in long.weights if weight not in short.weights}
    assert own == {"cosines", "sines"}, "tables of the rotary embedding have a row for each place"


@pytest.mark.parametrize("form", [Form(), Form(width=8), Form(width=8, block=64)])
def test_a_quantised_weight_is_half_a_step_away_and_the_largest_is_met(form: Form) -> None:
    entries = np.random.default_rng(0).standard_normal((3, 128)).astype(np.float32)
    entries[1, 64:128] = 0
    made = quantised(entries, form)
    blocks, step = (3, -1, form.block), np.repeat(np.abs(made.scales), form.block, axis=1)
    # The other end of the scale has one step less.
    assert (np.abs(made.dense - entries) <= step * 1.0001).all()
    assert (np.abs(made.dense - entries) <= step / 2 * 1.0001).mean() > 0.95
    assert np.array_equal(made.dense[1, 64:128], entries[1, 64:128])
    places = np.abs(entries.reshape(blocks)).argmax(axis=2)[..., None]
    met = np.take_along_axis((made.dense - entries).reshape(blocks), places, axis=2)
    assert np.abs(met).max() < 1e-6
    assert np.abs(made.scales).max() < 5 / form.middle


def test_a_folder_is_quantised_to_as_many_bits_as_asked_for(tmp_path: Path) -> None:
    write_folder(tmp_path)
    ways = {each: WantedWeights(choice=each) for each in (WeightsChoice.INT8, WeightsChoice.AUTO)}
    given = (tmp_path, "small", ({"context": 48},), tmp_path / "weights", lambda _: None)
    (plan,) = imported(*given, wanted=ways[WeightsChoice.INT8]).plans
    names = {key.split(":")[0] for key in plan.kernels if key.startswith(("matmul", "gather"))}
    assert names == {"matmul_q8", "matmul_q8+residual", "gather_q8"}
    weights = {weight.name: weight.bytes for weight in plan.weights}
    assert weights["embedding"] == 70 * 32
    with pytest.raises(InvalidInput, match="weights int4, which is usual, or int8"):
        imported(*given, wanted=ways[WeightsChoice.AUTO])


def test_graphs_of_all_shapes_are_sound_and_a_lone_head_is_a_weight() -> None:
    config = config_of(CONFIG | {"model_type": "llama", "tie_word_embeddings": False})
    for each in (config, replace(config, bias=True, normed_heads=True)):
        assert faults(decoder_graph(each, Seeded()).graph) == ()
    (plan,) = plan_decoder(config, Seeded(), "untied").plans
    assert "head" in [weight.name for weight in plan.weights]


def test_a_cache_of_f16_is_another_plan_of_the_same_weights(tmp_path: Path) -> None:
    write_folder(tmp_path)
    given = (tmp_path, "small", ({"context": 48},), tmp_path / "weights", lambda _: None)
    model = imported(*given, f16=True)
    assert model.f16 is not None
    (plan,), (halved,) = model.plans, model.f16.plans
    assert read_plan(plan_bytes(halved)) == halved
    assert (plan.needs, halved.needs) == (("states",), ("states", "f16"))
    assert (plan.weights, plan.chunks) == (halved.weights, halved.chunks)
    kept = [state.dtype for state in halved.states[3:]]
    assert kept == [DType.F16] * 2 * CONFIG["num_hidden_layers"]
    assert {state.dtype for state in plan.states[3:]} == {DType.F32}
    error = halved.golden.storage_error
    assert error is not None
    assert 0 < error < 0.01
    assert halved.golden.tolerance == max(plan.golden.tolerance, 4 * error)
    assert model.golden == model.f16.golden, "logits are those with a cache of f32"
    with pytest.raises(InvalidInput, match="with the cache as f16 the golden outputs differ by"):
        imported(*given, WantedWeights(max_error=error / 2), f16=True)


def test_numpy_rounds_keys_and_values_as_a_cache_of_f16_does(tmp_path: Path) -> None:
    write_folder(tmp_path)
    config = replace(read_config(tmp_path), cache=DType.F16)
    weights = Safetensors(tmp_path, config)
    tokens = [5, 61, 7, 7, 30, 12]
    found, _ = prompt_logits(decoder_graph(config, weights, block_rows=4), tokens)
    right, plain = (
        Reference(replace(config, cache=each), weights).logits(tokens)
        for each in (DType.F16, DType.F32)
    )
    # The graph rounds none of the keys that a call itself adds.
    rounding = np.abs(right - plain).max()
    assert 1e-6 < rounding < 1e-2 * np.abs(plain).max()
    assert 1e-6 < np.abs(found - plain).max() < 2 * rounding


@pytest.mark.parametrize("kind", ["qwen3", "gemma"])
def test_a_prompts_block_and_tokens_behind_it_have_the_logits_of_numpy(
    tmp_path: Path, kind: str
) -> None:
    write_folder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"model_type": kind}))
    config = read_config(tmp_path)
    weights = Safetensors(tmp_path, config)
    made = decoder_graph(config, weights, block_rows=4)
    tokens = [5, 61, 7, 7, 30, 12]
    found, chosen = prompt_logits(made, tokens)
    right = Reference(config, weights).logits(tokens)
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()
    assert chosen == right.argmax()


def test_a_gemma_scales_its_embedding_and_adds_one_to_the_factors_of_its_norms(
    tmp_path: Path,
) -> None:
    made = write_folder(tmp_path)
    document = {name: each for name, each in CONFIG.items() if name != "tie_word_embeddings"}
    config = config_of(document | {"model_type": "gemma"})
    assert config.tied, "files of Gemma do not say so"
    factors = Safetensors(tmp_path, config).vector("model.norm.weight", 32)
    assert np.array_equal(factors, made["model.norm.weight"] + np.float32(1))
    assert config.embedding_scale == pytest.approx(32**0.5)
    (plan,) = plan_decoder(config, Seeded(), "gemma").plans
    names = [key.split(":")[1] for key in plan.kernels if key.startswith("program:")]
    assert {"scaled_rows", "geglu_q4"} <= set(names)


CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
RECORDED: dict[str, NDArray[Any]] = dict(
    np.load(Path(__file__).parents[3] / "fixtures" / "recorded" / "transformers_models.npz")
)


@pytest.mark.parametrize("name", sorted({key.partition("/")[0] for key in RECORDED} - {"tokens"}))
def test_folders_of_transformers_have_the_logits_that_it_computed(
    name: str, tmp_path: Path
) -> None:
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).write_bytes(RECORDED[f"{name}/{file}"].tobytes())
    config = read_config(tmp_path)
    weights, tokens = Safetensors(tmp_path, config), RECORDED["tokens"].tolist()
    right = RECORDED[f"{name}/logits"]
    found = Reference(config, weights).logits(tokens)
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()
    made = decoder_graph(config, weights, block_rows=4)
    found, chosen = prompt_logits(made, tokens)
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()
    assert chosen == right.argmax()


def test_programs_of_a_gemma_2_have_schedules_of_their_own() -> None:
    config = config_of(CONFIG | {"model_type": "gemma2", "sliding_window": 8, **CAPS}, 16)
    nodes = decoder_graph(config, Seeded()).graph.nodes
    programs = {node.op for node in nodes if isinstance(node.op, ProgramWorkload)}
    found = {each.name: lite_space(each, TargetKind.WEBGPU)[0].family for each in programs}
    usual = dict.fromkeys(("block_attention", "decode_attention"))
    assert found == {
        **{name: name for name in usual},
        "normed_sum": "reduction",
        "normed_matmul_q4": "quantised_gemv",
        "geglu_q4": "quantised_gemv",
        "normed_rows": "reduction",
        "scaled_rows": "elementwise",
        "argmax": "argmax",
        "advance": "elementwise",
        "advance_block": "elementwise",
        "block_tokens": "elementwise",
    }


@pytest.mark.parametrize(
    ("told", "windows", "bases"),
    [
        ({"model_type": "gemma2"}, (8, 0, 8, 0, 8, 0), (1e4, None)),
        ({"model_type": "gemma3_text"}, (8, 8, 8, 8, 8, 0), (1e6, 1e4)),
        ({"model_type": "mistral"}, (8,) * 6, (1e4, None)),
        ({"model_type": "qwen2"}, (), (1e4, None)),
        (
            {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 4},
            (0, 0, 0, 0, 8, 8),
            (1e4, None),
        ),
    ],
)
def test_older_files_do_not_name_the_layers_that_see_a_window(
    told: dict[str, Any], windows: tuple[int, ...], bases: tuple[float, float | None]
) -> None:
    document = {name: each for name, each in CONFIG.items() if name != "rope_theta"}
    config = config_of(document | {"num_hidden_layers": 6, "sliding_window": 8} | told, 16)
    assert config.windows == windows
    local = config.windowed_rotary
    assert (config.theta, local.theta if local else None) == bases
    assert replace(config, length=8).attention(0).window == 0, "a window of the whole text is none"


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
        ({"model_type": "gpt2"}, "none of llama"),
        ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, "is no decoder"),
        ({"model_type": "mistral", "sliding_window": 4, "layer_types": ["chunked"]}, "layer_types"),
        ({"model_type": "gemma", "hidden_activation": "gelu"}, "gelu_pytorch_tanh alone"),
        ({"hidden_act": "gelu"}, "silu alone"),
        ({"attention_bias": True}, "biases of its output"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
        ({"hidden_size": 40}, "multiples of 32"),
        ({"vocab_size": None}, r"Expected `int`, got `null` - at `\$.vocab_size`"),
        ({"partial_rotary_factor": 0.75}, "rotates a part of each head"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "rotates a part of each head"),
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
        (replace(plan, needs=()), "a plan needs 'states' if it has some"),
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

"""Folders of models of an encoder and a decoder as plans, and refused where they are of another
shape."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.models.importing import WantedWeights, WeightsChoice, imported
from kernelzoo.domain.plan import Plan, PlanEncoder
from kernelzoo.domain.plan_checking import validated
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.formats.plans import plan_bytes, read_plan
from services.tuner.encoder_decoder.config_file import read_config
from tests.encoder_decoder_folders import CONFIGS, write_encoder_decoder


def added(folder: Path, *dimensions: dict[str, int], **more: Any) -> Plan:
    made = imported(
        folder, "small", dimensions or ({},), folder / "weights", lambda _: None, **more
    )
    return made.plans[0]


def test_a_folder_becomes_a_plan_whose_first_calls_are_the_encoder(tmp_path: Path) -> None:
    write_encoder_decoder(tmp_path, "bart")
    plan = added(tmp_path, {"context": 8, "source": 12})
    assert read_plan(plan_bytes(plan)) == plan
    assert plan.needs == ("states", "encoder")
    assert plan.dimensions == {"context": 8, "source": 12}
    decoder = plan.decoder
    assert decoder is not None
    encoder = decoder.encoder
    assert encoder is not None
    assert (encoder.length, encoder.vocabulary, encoder.start) == (12, 90, (2, 0))
    labels = [call.label for call in plan.calls]
    assert labels[decoder.step - 1 : decoder.step + 1] == ["layer 0 source is kept", "embedded"]
    caches = [plan.tensors[index].shape for index in encoder.cache]
    assert caches == [(2, 4, 8, 4), (2, 8, 16)], "keys and values of two heads"
    kept = [state.shape for state in plan.states if state.name == "layer 0 source kept"]
    assert kept == [(12, 64)]
    tables = [weight for weight in plan.weights if weight.shape[0] == 90]
    assert [each.name for each in tables] == ["embedding", "embedding.scales", "logit bias"], (
        "one table serves the encoder, the decoder and the head"
    )
    assert tables[0].bytes == 90 * 32, "8 bits unless told"


def test_weights_have_4_bits_where_they_are_asked_for(tmp_path: Path) -> None:
    write_encoder_decoder(tmp_path, "t5")
    plan = added(
        tmp_path,
        {"context": 8, "source": 8},
        wanted=WantedWeights(choice=WeightsChoice.INT4),
    )
    assert next(each.bytes for each in plan.weights if each.name == "embedding") == 90 * 16


def test_what_generating_says_stands_above_what_the_model_says(tmp_path: Path) -> None:
    write_encoder_decoder(tmp_path, "marian")
    config = read_config(tmp_path)
    assert (config.start, config.stop, config.suppressed) == ((89,), (2,), (89,))
    told = {"decoder_start_token_id": 4, "eos_token_id": [6, 7], "suppress_tokens": [-1, 8, 500]}
    (tmp_path / "generation_config.json").write_text(json.dumps(told))
    config = read_config(tmp_path)
    assert (config.start, config.stop, config.suppressed) == ((4,), (6, 7), (8, 89))


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "an activation": ("bart", {"activation_function": "quick_gelu"}, "'quick_gelu' is not known"),
    "norms elsewhere": ("bart", {"normalize_before": True}, "normalize_before=true"),
    "heads": ("bart", {"encoder_attention_heads": 4}, "do not divide rows of 32 entries alike"),
    "narrow heads": ("t5", {"d_kv": 12}, "heads have 12 entries"),
    "narrow rows": ("t5", {"d_ff": 40}, "rows of 40 entries"),
    "no beginning": ("t5", {"decoder_start_token_id": None}, "no decoder_start_token_id"),
    "another beginning": ("t5", {"decoder_start_token_id": 90}, "begins texts with tokens"),
    "no width": ("t5", {"d_model": 0}, "config.json is not as transformers writes it"),
    "few buckets": ("t5", {"relative_attention_num_buckets": 3}, "3 buckets of relative positions"),
    "near buckets": ("t5", {"relative_attention_max_distance": 4}, "up to 4 tokens are none"),
    "other weights": ("t5", {"num_layers": 3}, "the weights have no encoder.block.1."),
    "wider weights": ("t5", {"d_ff": 96}, "config.json says"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_model_of_another_shape_is_refused_by_name(tmp_path: Path, fault: str) -> None:
    family, changes, told = REFUSED[fault]
    write_encoder_decoder(tmp_path, family)
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[family] | changes))
    with pytest.raises((InvalidInput, UnsupportedModel), match=told):
        added(tmp_path, {"context": 8, "source": 8})


@pytest.mark.parametrize(
    ("family", "dimensions", "more", "told"),
    [
        ("bart", ({"context": 8, "source": 36},), {}, "a source of 32 places; 36 are asked for"),
        ("bart", ({"context": 6},), {}, "it must be a multiple of 4"),
        ("bart", ({"batch": 2},), {}, "its dimensions are --dim source=256"),
        ("bart", ({"source": 8}, {"source": 16}), {}, "give --dim source once, as in"),
        ("whisper", ({"source": 8},), {}, "takes 24 frames, which are 12 places"),
        ("bart", ({},), {"f16": True}, "leave --dtype f16 out"),
        (
            "bart",
            ({},),
            {"wanted": WantedWeights(choice=WeightsChoice.F16)},
            "write --weights int8, which is usual, or int4",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_refused_in_a_sentence(
    tmp_path: Path,
    family: str,
    dimensions: tuple[dict[str, int], ...],
    more: dict[str, Any],
    told: str,
) -> None:
    write_encoder_decoder(tmp_path, family)
    with pytest.raises(InvalidInput, match=told):
        added(tmp_path, *dimensions, **more)


def test_a_folder_without_safetensors_is_told_what_it_lacks(tmp_path: Path) -> None:
    write_encoder_decoder(tmp_path, "t5")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InvalidInput, match=r"has no \*.safetensors; put the model's weights there"):
        added(tmp_path, {"context": 8, "source": 8})
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "encoder_model.onnx").write_bytes(b"")
    with pytest.raises(UnsupportedModel, match="has files of ONNX and no"):
        added(tmp_path, {"context": 8, "source": 8})


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    write_encoder_decoder(tmp_path, "bart")
    body = bytearray((tmp_path / "model.safetensors").read_bytes())
    body[-4:] = np.array([np.nan], "<f4").tobytes()
    (tmp_path / "model.safetensors").write_bytes(body)
    with pytest.raises(InvalidInput, match="fetch them again"):
        added(tmp_path, {"context": 8, "source": 8})


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("plan")
    write_encoder_decoder(folder, "bart")
    return added(folder, {"context": 8, "source": 8})


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "source": ({"source": 400}, "the encoder names tensor 400"),
    "spare": ({"spare": 3}, "spare must be a state of 1 i32"),
    "length": ({"length": 12}, "source must be a state of 12 i32"),
    "spectrogram": ({"vocabulary": 0}, "source must be a state of f32 with bands and frames"),
    "cache": ({"cache": (0,)}, "tensor 0 of the decoder's cache must be a state with 8 places"),
    "no start": ({"start": ()}, "begins with 0 tokens of 8"),
    "start": ({"start": (90,)}, "a token that is not in its vocabulary"),
    "suppressed": ({"suppressed": (-1,)}, "a token that is not in its vocabulary"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_whose_encoder_is_unsound_is_refused(plan: Plan, fault: str) -> None:
    changes, told = FAULTS[fault]
    decoder = plan.decoder
    assert decoder is not None
    encoder = decoder.encoder
    assert isinstance(encoder, PlanEncoder)
    with pytest.raises(InvalidInput, match=told):
        validated(replace(plan, decoder=replace(decoder, encoder=replace(encoder, **changes))))


def test_a_plan_with_an_encoder_needs_one(plan: Plan) -> None:
    with pytest.raises(InvalidInput, match="needs 'encoder' if its decoder has one"):
        validated(replace(plan, needs=("states",)))

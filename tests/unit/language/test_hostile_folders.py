"""Folders of language models that anyone may have written: a sentence for each, and no failure."""

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kernelzoo.errors import InvalidInput, KernelZooError
from services.tuner.language.config_file import config_of, read_config
from services.tuner.language.planning import plan_language_model
from services.tuner.language.tensor_files import MAX_HEAD_BYTES, stored_tensors
from tests.language_folder import CONFIG, safetensors, write_folder

SCALED = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
EVERYTHING = CONFIG | {
    "rms_norm_eps": 1e-6,
    "layer_types": ["full_attention"],
    "sliding_window": 8,
    "use_sliding_window": True,
    "sliding_window_pattern": 6,
    "rope_scaling": SCALED,
    "rope_parameters": {"full_attention": SCALED, "sliding_attention": {"rope_theta": 1e4}},
    "query_pre_attn_scalar": 256,
    "attn_logit_softcapping": 50.0,
}
ODD: tuple[Any, ...] = (
    *(-1, 0, 1, 3, 1 << 31, 1 << 40, 1 << 80, 0.5, 1e308, float("nan"), float("inf"), True, None),
    *("", "\x00", "a" * 300, "silu", [], [-1], ["x"], [[]], {}, {"a": 1}),
)


def odd_ones(document: Any) -> Iterator[Any]:
    """The document with each of its values replaced, at any depth."""
    inner = document.items() if isinstance(document, dict) else enumerate(document)
    for name, value in inner:
        others: list[Any] = [*ODD]
        if isinstance(value, dict | list):
            others += odd_ones(value)
        for other in others:
            if isinstance(document, dict):
                yield {**document, name: other}
            else:
                yield [*document[:name], other, *document[name + 1 :]]


@pytest.mark.parametrize("kind", ["qwen3", "mistral", "gemma2", "gemma3_text"])
def test_a_config_with_any_odd_value_is_refused_or_is_one(kind: str) -> None:
    for document in odd_ones(EVERYTHING | {"model_type": kind}):
        with suppress(KernelZooError):
            assert config_of(document).layers <= 1024


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"[]", "is no object of JSON"),
        (b"\xff", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b'{"vocab_size": ' + b"9" * 5_000 + b"}", "cannot be read"),
        (json.dumps(CONFIG | {"rope_scaling": {"type": "linear"}}).encode(), "has no factor"),
        (json.dumps(CONFIG | {"eos_token_id": "</s>"}).encode(), r"at `\$.eos_token_id`"),
        (json.dumps(CONFIG | {"num_hidden_layers": 1 << 40}).encode(), "num_hidden_layers"),
    ],
)
def test_a_file_that_is_no_config_is_refused(content: bytes, fault: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=fault):
        read_config(tmp_path)


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "or it was cut off"),
        (b"\x02", "or it was cut off"),
        (struct.pack("<Q", MAX_HEAD_BYTES + 1), "its head has 100000001 bytes"),
        (struct.pack("<Q", 9) + b"{}", "or it was cut off"),
        (safetensors([], b""), "no file of safetensors"),
        (safetensors({"w": 1}, b""), "no file of safetensors"),
        (safetensors({"w": ENTRY}, bytes(7)), "'w' lies at 0 to 8 of 7 bytes"),
        (safetensors({"w": ENTRY | {"data_offsets": [8, 0]}}, bytes(8)), "lies at 8 to 0"),
        (safetensors({"w": ENTRY | {"data_offsets": [-8, 0]}}, bytes(8)), "data_offsets"),
    ],
)
def test_a_file_that_is_none_of_safetensors_is_refused(
    content: bytes, fault: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=fault):
        stored_tensors(path)


def _shape(head: Any, _: bytearray) -> None:
    head["model.norm.weight"]["shape"] = [33]


def _span(head: Any, _: bytearray) -> None:
    head["model.norm.weight"]["data_offsets"][1] -= 2


def _dtype(head: Any, _: bytearray) -> None:
    head["model.norm.weight"]["dtype"] = "I64"


def _missing(head: Any, _: bytearray) -> None:
    del head["model.norm.weight"]


def _no_numbers(head: Any, body: bytearray) -> None:
    first, end = head["model.norm.weight"]["data_offsets"]
    body[first:end] = b"\xff" * (end - first)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (_shape, r"model.norm.weight is \[33\]; config.json says \[32\]"),
        (_span, "has 62 bytes, which are not those of BF16"),
        (_dtype, "model.norm.weight is I64; weights are F32, F16, BF16"),
        (_missing, "the weights have no model.norm.weight"),
        (_no_numbers, "infinite or no numbers, so its weights are damaged"),
    ],
)
def test_weights_that_are_not_those_of_the_config_are_refused(
    damage: Callable[[Any, bytearray], None], fault: str, tmp_path: Path
) -> None:
    write_folder(tmp_path)
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    start = 8 + struct.unpack("<Q", whole[:8])[0]
    head, body = json.loads(whole[8:start]), bytearray(whole[start:])
    damage(head, body)
    path.write_bytes(safetensors(head, bytes(body)))
    with pytest.raises(KernelZooError, match=fault):
        plan_language_model(tmp_path, "small", [48])

"""What a `config.json` as the Hugging Face hub has it says of a language model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any

import numpy as np

from kernelzoo.domain.operators.quantised import ROW_STEP
from kernelzoo.errors import InvalidInput, UnsupportedModel

USUAL_LENGTH = 2_048
"""Tokens that a decoder has room for, unless told; a model may know more."""
_BIASED = ("qwen2",)
_NORMED_HEADS = ("qwen3",)
_JOINED = ("phi3",)
_GEMMA = ("gemma",)
KNOWN = ("llama", "mistral", *_BIASED, *_NORMED_HEADS, *_JOINED, *_GEMMA)
"""Values of `model_type`; SmolLM's is llama."""
_BEYOND = {
    "gemma2": "limits its scores and logits by a tanh, and normalises what attention and gate add",
    "gemma3_text": "has two rotary embeddings, and normalises what attention and gate add",
}
"""What models have that no program here computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How Llama 3 stretches the rotary embedding: wavelengths above `original` / `low` by
    `factor`, those below `original` / `high` not at all, and smoothly between."""

    factor: float
    low: float
    high: float
    original: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageConfig:
    """`heads` queries of `head_dim` entries share the keys and values of `kv_heads`; a layer's rows
    have `width` entries and its gate `hidden`. `length` is the longest text. `stop` are tokens that
    end one."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    length: int
    epsilon: float
    theta: float | None
    """The base of the rotary embedding; None where the weights come with its tables."""
    scaling: Scaling | None = None
    bias: bool = False
    """Whether queries, keys and values have one."""
    normed_heads: bool = False
    """Whether queries and keys are normalised head by head."""
    tied: bool = False
    """Whether the head is the embedding's transpose."""
    gate: str = "silu"
    """What the gate's entries go through: silu or gelu_tanh."""
    embedding_scale: float = 1.0
    """Rows of the embedding are multiplied by it."""
    gamma_offset: float = 0.0
    """What files leave out of the factors of norms."""
    joined: bool = False
    """Whether files have queries, keys and values as one matrix, and gate and up as another."""
    stop: tuple[int, ...] = ()

    @property
    def projected(self) -> int:
        """Entries of the queries, keys and values of a token."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim


def read_config(folder: Path, length: int | None = None) -> LanguageConfig:
    """Raises InvalidInput for a file that is no config, and UnsupportedModel for a model of another
    shape. `length` is the room for tokens that is asked for."""
    config = config_of(_document(folder / "config.json"), length)
    return replace(config, stop=stop_tokens(folder))


def stop_tokens(*folders: Path) -> tuple[int, ...]:
    """What ends a text: what is said of generating, else what is said of the model. Folders may
    have neither. Raises InvalidInput for a file that is no object of JSON."""
    for folder in folders:
        for name in ("generation_config.json", "config.json"):
            if (folder / name).is_file():
                told = _document(folder / name).get("eos_token_id")
                if told is not None:
                    return (told,) if isinstance(told, int) else tuple(told)
    return ()


def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = loads(path.read_bytes())
    except (OSError, JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path.name} of the model cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{path.name} is no object of JSON")
    return document


def config_of(document: Mapping[str, Any], length: int | None = None) -> LanguageConfig:
    kind = document.get("model_type")
    if kind in _BEYOND:
        raise UnsupportedModel(f"a model of type {kind} {_BEYOND[kind]}, which is not known")
    if kind not in KNOWN:
        raise UnsupportedModel(
            f"model_type {str(kind)[:40]!r} is none of {', '.join(KNOWN)}; export the model to ONNX"
        )
    _refuse_variants(document)
    heads, width = _whole(document, "num_attention_heads"), _whole(document, "hidden_size")
    most = _whole(document, "max_position_embeddings")
    config = LanguageConfig(
        vocabulary=_whole(document, "vocab_size"),
        width=width,
        layers=_whole(document, "num_hidden_layers"),
        heads=heads,
        kv_heads=_whole(document, "num_key_value_heads", heads),
        head_dim=_whole(document, "head_dim", width // heads),
        hidden=_whole(document, "intermediate_size"),
        length=length or min(most, USUAL_LENGTH),
        epsilon=float(document.get("rms_norm_eps", 1e-6)),
        theta=float(_rotation(document).get("rope_theta") or document.get("rope_theta", 10_000)),
        scaling=_scaling(_rotation(document)),
        bias=kind in _BIASED,
        normed_heads=kind in _NORMED_HEADS,
        tied=bool(document.get("tie_word_embeddings", kind in _GEMMA)),
        joined=kind in _JOINED,
    )
    if kind in _GEMMA:
        scale = float(np.sqrt(np.float32(width)))
        config = replace(config, gate="gelu_tanh", embedding_scale=scale, gamma_offset=1.0)
    _refuse_window(document, config.length)
    refuse_shape(config, most)
    return config


def _refuse_variants(document: Mapping[str, Any]) -> None:
    act, usual = document.get("hidden_act"), "silu"
    if document["model_type"] in _GEMMA:
        # `hidden_act` is what older files said; transformers does not look at it.
        act, usual = document.get("hidden_activation"), "gelu_pytorch_tanh"
    if act not in (None, usual):
        raise UnsupportedModel(f"the gate's activation is {act!r}; {usual} alone is known")
    if document.get("attention_bias") or document.get("mlp_bias"):
        raise UnsupportedModel("the model has biases of its output or gate, which are not known")
    if document.get("partial_rotary_factor", 1.0) != 1.0:
        raise UnsupportedModel("the model rotates a part of each head, which is not known")


def _refuse_window(document: Mapping[str, Any], length: int) -> None:
    window = document.get("sliding_window")
    usual = not str(document.get("model_type")).startswith("qwen")
    if window is not None and window < length and document.get("use_sliding_window", usual):
        raise UnsupportedModel(
            f"the model attends to a window of {window} tokens; give it room for no more, with "
            f"--dim context={window}"
        )


def refuse_shape(config: LanguageConfig, most: int) -> None:
    """`most`: the longest text that the model knows. Raises InvalidInput, UnsupportedModel."""
    if config.length > most:
        raise InvalidInput(f"the model knows texts of {most} tokens; {config.length} are asked for")
    if config.heads % config.kv_heads or config.head_dim % 4:
        raise UnsupportedModel(
            f"{config.heads} heads with {config.kv_heads} keys of {config.head_dim} entries; keys "
            "must be shared evenly and have a multiple of 4 entries"
        )
    for entries in (config.width, config.hidden, config.heads * config.head_dim):
        if entries % ROW_STEP:
            raise UnsupportedModel(
                f"a layer has rows of {entries} entries; quantised weights need multiples of "
                f"{ROW_STEP}"
            )


def _whole(document: Mapping[str, Any], name: str, usual: int | None = None) -> int:
    value = document.get(name)
    value = usual if value is None else value
    if not isinstance(value, int) or value < 1:
        raise InvalidInput(f"config.json has {name} {value!r}; it must be a number from 1 on")
    return value


def _rotation(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return document.get("rope_parameters") or document.get("rope_scaling") or {}


def _scaling(rotation: Mapping[str, Any]) -> Scaling | None:
    match rotation.get("rope_type", rotation.get("type", "default")):
        case "default":
            return None
        case "llama3":
            return Scaling(
                factor=float(rotation["factor"]),
                low=float(rotation["low_freq_factor"]),
                high=float(rotation["high_freq_factor"]),
                original=int(rotation["original_max_position_embeddings"]),
            )
        case other:
            raise UnsupportedModel(f"rope_scaling {other!r} is not known; llama3 is")

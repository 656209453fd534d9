"""Reads the files of JSON beside a model of the Hugging Face hub. Anyone may have written them."""

from collections.abc import Mapping
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from msgspec import Meta, Struct, ValidationError, convert

from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.language.config import (
    USUAL_LENGTH,
    LanguageConfig,
    Rotary,
    Scaling,
    refuse_shape,
)

_BIASED = ("qwen2",)
_NORMED_HEADS = ("qwen3", "gemma3_text")
_JOINED = ("phi3",)
_NORMED_BRANCHES = ("gemma2", "gemma3_text")
_GEMMA = ("gemma", *_NORMED_BRANCHES)
KNOWN = ("llama", "mistral", *_BIASED, *_NORMED_HEADS, *_JOINED, *_GEMMA)
"""Values of `model_type`; SmolLM's is llama."""
_FULL, _WINDOWED = "full_attention", "sliding_attention"
_EVERY_FULL = {"gemma2": 2, "gemma3_text": 6}
"""Every so many layers one sees all tokens, where files name the layers not one by one."""

CONFIG = "config.json"
MAX_LAYERS = 1 << 10

Count = Annotated[int, Meta(ge=1, lt=1 << 31)]
Layers = Annotated[int, Meta(ge=1, le=MAX_LAYERS)]
Place = Annotated[int, Meta(ge=0, lt=1 << 31)]
Positive = Annotated[float, Meta(gt=0, le=1e30)]
Cap = Annotated[float, Meta(ge=0, le=1e30)]
"""0 for none."""


class _Rotary(Struct, frozen=True, kw_only=True):
    """A rotary embedding by the names of transformers. What a file leaves out is None."""

    rope_type: str | None = None
    type: str | None = None
    """Older files have this for `rope_type`."""
    rope_theta: Positive | None = None
    factor: Positive | None = None
    low_freq_factor: Positive | None = None
    high_freq_factor: Positive | None = None
    original_max_position_embeddings: Count | None = None
    partial_rotary_factor: Positive | None = None


class _Rotaries(_Rotary, frozen=True, kw_only=True):
    """The rotary embedding of all layers, or of each kind its own."""

    full_attention: _Rotary | None = None
    sliding_attention: _Rotary | None = None


class _Config(Struct, frozen=True, kw_only=True):
    """config.json by the names of transformers; what it has beside them does not matter here. What
    a file leaves out, or has as null, is None."""

    model_type: str
    vocab_size: Count
    hidden_size: Count
    num_hidden_layers: Layers
    num_attention_heads: Count
    num_key_value_heads: Count | None = None
    head_dim: Count | None = None
    intermediate_size: Count
    max_position_embeddings: Count
    rms_norm_eps: Positive | None = None
    tie_word_embeddings: bool | None = None
    hidden_act: str | None = None
    hidden_activation: str | None = None
    attention_bias: bool | None = None
    mlp_bias: bool | None = None
    use_bidirectional_attention: bool | str | None = None
    rope_theta: Positive | None = None
    rope_local_base_freq: Positive | None = None
    rope_scaling: _Rotaries | None = None
    rope_parameters: _Rotaries | None = None
    partial_rotary_factor: Positive | None = None
    sliding_window: Place | None = None
    use_sliding_window: bool | None = None
    sliding_window_pattern: Place | None = None
    max_window_layers: Place | None = None
    layer_types: list[str] | None = None
    query_pre_attn_scalar: Positive | None = None
    attn_logit_softcapping: Cap | None = None
    final_logit_softcapping: Cap | None = None


class _Stop(Struct, frozen=True, kw_only=True):
    eos_token_id: int | list[int] | None = None


def read_config(folder: Path, length: int | None = None) -> LanguageConfig:
    """Raises InvalidInput for a file that is no config, and UnsupportedModel for a model of another
    shape. `length` is the room for tokens that is asked for."""
    config = config_of(json_document(folder / CONFIG), length)
    return replace(config, stop=stop_tokens(folder))


def stop_tokens(*folders: Path) -> tuple[int, ...]:
    """Returns the tokens that end a text: those said for generating, else those said for the model.
    Folders may have neither. Raises InvalidInput for a file that is no object of JSON."""
    for folder in folders:
        for name in ("generation_config.json", CONFIG):
            if (folder / name).is_file():
                told = read_document(json_document(folder / name), _Stop, name).eos_token_id
                if told is not None:
                    return (told,) if isinstance(told, int) else tuple(told)
    return ()


def config_of(document: Mapping[str, Any], length: int | None = None) -> LanguageConfig:
    kind = document.get("model_type")
    if kind not in KNOWN:
        raise UnsupportedModel(
            f"model_type {str(kind)[:40]!r} is none of {', '.join(KNOWN)}; export the model to ONNX"
        )
    told = read_document(document, _Config, CONFIG)
    _refuse_variants(told)
    heads, rotary = told.num_attention_heads, _rotary(told, windowed=False)
    config = LanguageConfig(
        vocabulary=told.vocab_size,
        width=told.hidden_size,
        layers=told.num_hidden_layers,
        heads=heads,
        kv_heads=told.num_key_value_heads or heads,
        head_dim=told.head_dim or told.hidden_size // heads,
        hidden=told.intermediate_size,
        length=length or min(told.max_position_embeddings, USUAL_LENGTH),
        epsilon=told.rms_norm_eps or 1e-6,
        theta=rotary.theta,
        scaling=rotary.scaling,
        bias=kind in _BIASED,
        normed_heads=kind in _NORMED_HEADS,
        tied=_told_or(told.tie_word_embeddings, kind in _GEMMA),
        windows=_windows(told),
        joined=kind in _JOINED,
    )
    if kind in _GEMMA:
        config = _gemma(config, told)
    refuse_shape(config, told.max_position_embeddings)
    return config


def _gemma(config: LanguageConfig, told: _Config) -> LanguageConfig:
    config = replace(
        config,
        gate="gelu_tanh",
        embedding_scale=float(np.sqrt(np.float32(config.width))),
        gamma_offset=1.0,
    )
    if told.model_type not in _NORMED_BRANCHES:
        return config
    usual = float(config.head_dim**-0.5)
    scale = (told.query_pre_attn_scalar or 256.0) ** -0.5
    local = _rotary(told, windowed=True)
    plain = Rotary(theta=config.theta, scaling=config.scaling)
    return replace(
        config,
        score_scale=0.0 if scale == usual else scale,
        score_cap=told.attn_logit_softcapping or 0.0,
        logit_cap=told.final_logit_softcapping or 0.0,
        windowed_rotary=None if local == plain else local,
        normed_branches=True,
    )


def _windows(told: _Config) -> tuple[int, ...]:
    """The last tokens that each layer sees; () where all layers see all."""
    kind, layers, window = told.model_type, told.num_hidden_layers, told.sliding_window
    qwen = kind.startswith("qwen")
    if window is None or not _told_or(told.use_sliding_window, not qwen):
        return ()
    kinds = told.layer_types
    if kinds is None:
        every = _EVERY_FULL.get(kind, 0)
        if every and told.sliding_window_pattern is not None:
            every = told.sliding_window_pattern
        first = (told.max_window_layers or 0) if qwen else 0
        kinds = [
            _FULL if number < first or (every and not (number + 1) % every) else _WINDOWED
            for number in range(layers)
        ]
    if len(kinds) != layers or not set(kinds) <= {_FULL, _WINDOWED}:
        raise UnsupportedModel(
            f"layer_types {str(kinds)[:80]} are not known; {_FULL} and {_WINDOWED} are, one for "
            f"each of {layers} layers"
        )
    found = tuple(window if each == _WINDOWED else 0 for each in kinds)
    return found if any(found) else ()


def _refuse_variants(told: _Config) -> None:
    act, usual = told.hidden_act, "silu"
    if told.model_type in _GEMMA:
        # `hidden_act` is what older files said; transformers does not look at it.
        act, usual = told.hidden_activation, "gelu_pytorch_tanh"
    if act not in (None, usual):
        raise UnsupportedModel(f"the gate's activation is {act!r}; {usual} alone is known")
    if told.attention_bias or told.mlp_bias:
        raise UnsupportedModel("the model has biases of its output or gate, which are not known")
    partial = _rotary_of_all(told).partial_rotary_factor or told.partial_rotary_factor
    if partial not in (None, 1.0):
        raise UnsupportedModel("the model rotates a part of each head, which is not known")
    if told.use_bidirectional_attention:
        raise UnsupportedModel("each token of the model sees those after it, so it is no decoder")


def _rotary(told: _Config, *, windowed: bool) -> Rotary:
    """Returns the rotary embedding of layers that see a window, or of all: a model has one for
    both, or of each its own."""
    by_kind = told.rope_parameters
    own: _Rotary = _rotary_of_all(told)
    if by_kind is not None and by_kind.full_attention is not None:
        own = (by_kind.sliding_attention if windowed else by_kind.full_attention) or _Rotary()
    theta = told.rope_theta or 10_000.0
    if told.model_type == "gemma3_text" and by_kind is None:
        # Files of before have the base of layers with a window apart, and scale the others alone.
        theta = told.rope_theta or 1_000_000.0
        if windowed:
            own, theta = _Rotary(), told.rope_local_base_freq or 10_000.0
    return Rotary(theta=own.rope_theta or theta, scaling=_scaling(own))


def _rotary_of_all(told: _Config) -> _Rotaries:
    return told.rope_parameters or told.rope_scaling or _Rotaries()


def _scaling(rotary: _Rotary) -> Scaling | None:
    match rotary.rope_type or rotary.type or "default":
        case "default":
            return None
        case "linear":
            return Scaling(factor=_needed(rotary.factor, "factor"))
        case "llama3":
            original = rotary.original_max_position_embeddings
            return Scaling(
                factor=_needed(rotary.factor, "factor"),
                low=_needed(rotary.low_freq_factor, "low_freq_factor"),
                high=_needed(rotary.high_freq_factor, "high_freq_factor"),
                original=_needed(original, "original_max_position_embeddings"),
            )
        case other:
            raise UnsupportedModel(
                f"rope_scaling {other[:40]!r} is not known; linear and llama3 are"
            )


Number = TypeVar("Number", int, float)


def _needed(value: Number | None, name: str) -> Number:
    if value is None:
        raise InvalidInput(f"{CONFIG} scales the rotary embedding, and has no {name}")
    return value


def _told_or(value: bool | None, usual: bool) -> bool:
    return usual if value is None else value


def json_document(path: Path) -> Mapping[str, Any]:
    """Raises InvalidInput for a file that cannot be read, or is no object of JSON."""
    try:
        document = loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{path.name} of the model cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise InvalidInput(f"{path.name} is no object of JSON")
    return document


Told = TypeVar("Told", bound=Struct)


def read_document(document: Mapping[str, Any], kind: type[Told], name: str) -> Told:
    """`name` is the file's. Raises InvalidInput for a document that is not of the kind."""
    try:
        return convert(document, kind)
    except ValidationError as error:
        raise InvalidInput(
            f"{name} is not as transformers writes it: {error}; fetch it again"
        ) from error

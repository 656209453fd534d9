"""What a `config.json` as the Hugging Face hub has it says of a language model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from json import JSONDecodeError, loads
from pathlib import Path
from typing import Any

import numpy as np

from kernelzoo.domain.operators.decoding import AttentionShape
from kernelzoo.domain.operators.quantised import ROW_STEP
from kernelzoo.errors import InvalidInput, UnsupportedModel

USUAL_LENGTH = 2_048
"""Tokens that a decoder has room for, unless told; a model may know more."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How Llama 3 stretches the rotary embedding: wavelengths above `original` / `low` by
    `factor`, those below `original` / `high` not at all, and smoothly between. Where `original` is
    0 all are stretched alike."""

    factor: float
    low: float = 0.0
    high: float = 0.0
    original: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """A rotary embedding of its own, which layers have that see a window. `theta` is None where
    the weights come with its tables."""

    theta: float | None
    scaling: Scaling | None = None


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
    windows: tuple[int, ...] = ()
    """The last tokens that each layer sees, 0 for all; () where all layers see all."""
    windowed_rotary: Rotary | None = None
    """That of layers that see a window, where it is not that of all."""
    score_scale: float = 0.0
    """What scores are multiplied by, head_dim^-½ where it is 0."""
    score_cap: float = 0.0
    """Scores become cap · tanh(score / cap), unless it is 0; logits likewise."""
    logit_cap: float = 0.0
    normed_branches: bool = False
    """Whether what attention and gate add to a row is normalised first."""
    joined: bool = False
    """Whether files have queries, keys and values as one matrix, and gate and up as another."""
    stop: tuple[int, ...] = ()

    def attention(self, layer: int) -> AttentionShape:
        window = self.windows[layer] if self.windows else 0
        return AttentionShape(
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            length=self.length,
            scale=self.score_scale,
            cap=self.score_cap,
            window=window if window < self.length else 0,
        )

    def has_windowed_rotary(self, layer: int) -> bool:
        return self.windowed_rotary is not None and bool(self.windows and self.windows[layer])

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
    if kind not in KNOWN:
        raise UnsupportedModel(
            f"model_type {str(kind)[:40]!r} is none of {', '.join(KNOWN)}; export the model to ONNX"
        )
    _refuse_variants(document)
    heads, width = _whole(document, "num_attention_heads"), _whole(document, "hidden_size")
    most, rotary = _whole(document, "max_position_embeddings"), _rotary(document, _FULL)
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
        theta=rotary.theta,
        scaling=rotary.scaling,
        bias=kind in _BIASED,
        normed_heads=kind in _NORMED_HEADS,
        tied=bool(document.get("tie_word_embeddings", kind in _GEMMA)),
        windows=_windows(document),
        joined=kind in _JOINED,
    )
    if kind in _GEMMA:
        config = _gemma(config, document)
    refuse_shape(config, most)
    return config


def _gemma(config: LanguageConfig, document: Mapping[str, Any]) -> LanguageConfig:
    kind = document["model_type"]
    config = replace(
        config,
        gate="gelu_tanh",
        embedding_scale=float(np.sqrt(np.float32(config.width))),
        gamma_offset=1.0,
    )
    if kind not in _NORMED_BRANCHES:
        return config
    usual = float(config.head_dim**-0.5)
    scale = float(document.get("query_pre_attn_scalar", 256)) ** -0.5
    local = _rotary(document, _WINDOWED)
    plain = Rotary(theta=config.theta, scaling=config.scaling)
    return replace(
        config,
        score_scale=0.0 if scale == usual else scale,
        score_cap=float(document.get("attn_logit_softcapping") or 0),
        logit_cap=float(document.get("final_logit_softcapping") or 0),
        windowed_rotary=None if local == plain else local,
        normed_branches=True,
    )


def _windows(document: Mapping[str, Any]) -> tuple[int, ...]:
    """The last tokens that each layer sees; () where all layers see all."""
    kind, layers = document["model_type"], _whole(document, "num_hidden_layers")
    window = document.get("sliding_window")
    if window is None or not document.get("use_sliding_window", not kind.startswith("qwen")):
        return ()
    kinds = document.get("layer_types")
    if kinds is None:
        every = _EVERY_FULL.get(kind, 0)
        every = document.get("sliding_window_pattern", every) if every else 0
        first = document.get("max_window_layers", 0) if kind.startswith("qwen") else 0
        kinds = [
            _FULL if number < first or (every and not (number + 1) % every) else _WINDOWED
            for number in range(layers)
        ]
    if len(kinds) != layers or not set(kinds) <= {_FULL, _WINDOWED}:
        raise UnsupportedModel(f"layer_types {kinds} are not known; {_FULL} and {_WINDOWED} are")
    found = tuple(int(window) if each == _WINDOWED else 0 for each in kinds)
    return found if any(found) else ()


def _refuse_variants(document: Mapping[str, Any]) -> None:
    act, usual = document.get("hidden_act"), "silu"
    if document["model_type"] in _GEMMA:
        # `hidden_act` is what older files said; transformers does not look at it.
        act, usual = document.get("hidden_activation"), "gelu_pytorch_tanh"
    if act not in (None, usual):
        raise UnsupportedModel(f"the gate's activation is {act!r}; {usual} alone is known")
    if document.get("attention_bias") or document.get("mlp_bias"):
        raise UnsupportedModel("the model has biases of its output or gate, which are not known")
    partial = _rotary_told(document).get("partial_rotary_factor")
    if (partial or document.get("partial_rotary_factor", 1.0)) != 1.0:
        raise UnsupportedModel("the model rotates a part of each head, which is not known")
    if document.get("use_bidirectional_attention"):
        raise UnsupportedModel("each token of the model sees those after it, so it is no decoder")


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


def _rotary(document: Mapping[str, Any], layers: str) -> Rotary:
    """That of a kind of layers: a model has one for all, or of each kind its own."""
    told = document.get("rope_parameters") or {}
    own = told.get(layers) if _FULL in told else _rotary_told(document)
    own, theta = own or {}, document.get("rope_theta", 10_000)
    if document["model_type"] == "gemma3_text" and not told:
        # Files of before have the base of layers with a window apart, and scale the others alone.
        theta = document.get("rope_theta", 1_000_000)
        if layers == _WINDOWED:
            own, theta = {}, document.get("rope_local_base_freq", 10_000)
    return Rotary(theta=float(own.get("rope_theta") or theta), scaling=_scaling(own))


def _rotary_told(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return document.get("rope_parameters") or document.get("rope_scaling") or {}


def _scaling(rotation: Mapping[str, Any]) -> Scaling | None:
    match rotation.get("rope_type", rotation.get("type", "default")):
        case "default":
            return None
        case "linear":
            return Scaling(factor=float(rotation["factor"]))
        case "llama3":
            return Scaling(
                factor=float(rotation["factor"]),
                low=float(rotation["low_freq_factor"]),
                high=float(rotation["high_freq_factor"]),
                original=int(rotation["original_max_position_embeddings"]),
            )
        case other:
            raise UnsupportedModel(f"rope_scaling {other!r} is not known; linear and llama3 are")

"""Reads config.json and generation_config.json of a model of an encoder and a decoder. Anyone may
have written them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.encoder_decoder.config import (
    USUAL_LENGTH,
    EncoderDecoderConfig,
    Positions,
    Spectrogram,
    Stack,
    refuse_shape,
)
from services.tuner.encoder_decoder.naming import BART, t5_naming
from services.tuner.language.config_file import (
    CONFIG,
    Count,
    Layers,
    Place,
    Positive,
    json_document,
    read_document,
    stop_tokens,
)

_T5, _BART = ("t5", "mt5"), ("bart", "mbart", "marian")
WHISPER = "whisper"
KNOWN = (*_T5, *_BART, WHISPER)
"""Values of `model_type`."""
ACTIVATIONS: Mapping[str, str] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Functions by the names of transformers, and by those of operators."""


class _T5Config(Struct, frozen=True, kw_only=True):
    """Fields that a file leaves out, or has as null, are None or what transformers takes then."""

    vocab_size: Count
    d_model: Count
    d_kv: Count
    d_ff: Count
    num_layers: Layers
    num_decoder_layers: Layers | None = None
    num_heads: Count
    relative_attention_num_buckets: Count = 32
    relative_attention_max_distance: Count = 128
    layer_norm_epsilon: Positive = 1e-6
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True


class _BartConfig(Struct, frozen=True, kw_only=True):
    """BART, Marian and Whisper."""

    model_type: str
    vocab_size: Count
    decoder_vocab_size: Count | None = None
    d_model: Count
    encoder_layers: Layers
    decoder_layers: Layers
    encoder_attention_heads: Count
    decoder_attention_heads: Count
    encoder_ffn_dim: Count
    decoder_ffn_dim: Count
    activation_function: str = "gelu"
    scale_embedding: bool = False
    tie_word_embeddings: bool = True
    max_position_embeddings: Count = 1_024
    num_mel_bins: Count = 80
    max_source_positions: Count = 1_500
    max_target_positions: Count = 448
    normalize_before: bool | None = None
    add_final_layer_norm: bool | None = None
    normalize_embedding: bool | None = None


class _Generation(Struct, frozen=True, kw_only=True):
    decoder_start_token_id: Place | None = None
    forced_bos_token_id: Place | None = None
    bad_words_ids: list[list[Place]] | None = None
    suppress_tokens: list[int] | None = None


def is_encoder_decoder(folder: Path) -> bool:
    """True for a folder whose config.json names one of the families. Raises InvalidInput for a file
    that is no object of JSON."""
    return json_document(folder / CONFIG).get("model_type") in KNOWN


def read_config(
    folder: Path, length: int | None = None, source_length: int | None = None
) -> EncoderDecoderConfig:
    """`length` and `source_length` are the room for tokens that is asked for. Raises InvalidInput
    for a file that is no config, and UnsupportedModel for a model of another shape."""
    document = json_document(folder / CONFIG)
    kind = document.get("model_type")
    config = _t5(document) if kind in _T5 else _bart(document)
    if config.spectrogram is not None and source_length not in (None, config.source_length):
        raise InvalidInput(
            f"the encoder of {kind} takes {config.spectrogram.frames} frames, which are "
            f"{config.source_length} places; leave --dim source={source_length} out"
        )
    config = replace(
        config,
        length=length or config.length,
        source_length=source_length or config.source_length,
    )
    refuse_shape(config)
    return _with_tokens(config, folder)


def _with_tokens(config: EncoderDecoderConfig, folder: Path) -> EncoderDecoderConfig:
    """Adds the tokens that begin and end a text and those that it never has: as said for
    generating, else as said for the model."""
    told = _Generation()
    for name in (CONFIG, "generation_config.json"):
        if (folder / name).is_file():
            found = read_document(json_document(folder / name), _Generation, name)
            given = {key: getattr(found, key) for key in _Generation.__struct_fields__}
            there = {key: value for key, value in given.items() if value is not None}
            told = _Generation(
                **{key: there.get(key, getattr(told, key)) for key in _Generation.__struct_fields__}
            )
    if told.decoder_start_token_id is None:
        raise InvalidInput(
            f"{CONFIG} has no decoder_start_token_id, with which texts of the decoder begin; "
            "fetch it again, with generation_config.json"
        )
    forced = () if told.forced_bos_token_id is None else (told.forced_bos_token_id,)
    alone = [words[0] for words in told.bad_words_ids or () if len(words) == 1]
    suppressed = {*alone, *(told.suppress_tokens or ())}
    start = (told.decoder_start_token_id, *forced)
    if any(token >= config.vocabulary for token in start):
        raise InvalidInput(f"{CONFIG} begins texts with tokens {start}, which are none of it")
    return replace(
        config,
        start=start,
        stop=tuple(each for each in stop_tokens(folder) if each < config.vocabulary),
        suppressed=tuple(sorted(each for each in suppressed if 0 <= each < config.vocabulary)),
    )


def _activation(name: str) -> str:
    if name not in ACTIVATIONS:
        raise UnsupportedModel(
            f"the activation {name[:40]!r} is not known; {', '.join(ACTIVATIONS)} are"
        )
    return ACTIVATIONS[name]


def _t5(document: Mapping[str, Any]) -> EncoderDecoderConfig:
    told = read_document(document, _T5Config, CONFIG)
    kind = told.feed_forward_proj
    gated = kind.startswith("gated-")
    name = kind.removeprefix("gated-")
    # transformers reads gated-gelu as gelu_new.
    activation = "gelu_tanh" if gated and name == "gelu" else _activation(name)
    encoder = Stack(layers=told.num_layers, heads=told.num_heads, hidden=told.d_ff)
    return EncoderDecoderConfig(
        naming=t5_naming(gated=gated),
        vocabulary=told.vocab_size,
        source_vocabulary=told.vocab_size,
        width=told.d_model,
        head_dim=told.d_kv,
        encoder=encoder,
        decoder=replace(encoder, layers=told.num_decoder_layers or told.num_layers),
        length=USUAL_LENGTH,
        source_length=USUAL_LENGTH,
        epsilon=told.layer_norm_epsilon,
        rms=True,
        biased=False,
        normed_first=True,
        normed_last=True,
        activation=activation,
        gated=gated,
        positions=Positions.RELATIVE,
        buckets=told.relative_attention_num_buckets,
        most_distance=told.relative_attention_max_distance,
        score_scale=1.0,
        logit_scale=told.d_model**-0.5 if told.tie_word_embeddings else 1.0,
        tied=told.tie_word_embeddings,
    )


def _bart(document: Mapping[str, Any]) -> EncoderDecoderConfig:
    told = read_document(document, _BartConfig, CONFIG)
    kind, heads = told.model_type, told.decoder_attention_heads
    if told.d_model % heads or told.encoder_attention_heads != heads:
        raise UnsupportedModel(
            f"{heads} heads of the decoder and {told.encoder_attention_heads} of the encoder do "
            f"not divide rows of {told.d_model} entries alike, which is not known"
        )
    _refuse_variants(told)
    hears, mbart = kind == WHISPER, kind == "mbart"
    most = told.max_target_positions if hears else told.max_position_embeddings
    most_source = told.max_source_positions if hears else told.max_position_embeddings
    return EncoderDecoderConfig(
        naming=BART,
        vocabulary=told.decoder_vocab_size or told.vocab_size,
        source_vocabulary=0 if hears else told.vocab_size,
        width=told.d_model,
        head_dim=told.d_model // heads,
        encoder=Stack(layers=told.encoder_layers, heads=heads, hidden=told.encoder_ffn_dim),
        decoder=Stack(layers=told.decoder_layers, heads=heads, hidden=told.decoder_ffn_dim),
        length=min(most, USUAL_LENGTH),
        source_length=most_source if hears else min(most_source, USUAL_LENGTH),
        most=most,
        most_source=most_source,
        epsilon=1e-5,
        normed_first=hears or mbart,
        normed_last=hears or mbart,
        normed_embedding=kind in ("bart", "mbart"),
        activation=_activation(told.activation_function),
        embedding_scale=told.d_model**0.5 if told.scale_embedding else 1.0,
        positions=Positions.SINES if kind == "marian" else Positions.STORED,
        first_position=2 if kind in ("bart", "mbart") else 0,
        tied=told.tie_word_embeddings,
        spectrogram=Spectrogram(bands=told.num_mel_bins, frames=2 * most_source) if hears else None,
    )


def _refuse_variants(told: _BartConfig) -> None:
    """Raises UnsupportedModel for a BART or Marian whose norms stand elsewhere, as files of before
    may say."""
    usual = {"normalize_before": told.model_type == "mbart", "normalize_embedding": True}
    if told.model_type == "marian":
        usual["normalize_embedding"] = False
    usual["add_final_layer_norm"] = told.model_type == "mbart"
    for name, value in usual.items():
        found = getattr(told, name)
        if told.model_type != WHISPER and found not in (None, value):
            raise UnsupportedModel(
                f"{CONFIG} of {told.model_type} says {name}={str(found).lower()}, which is not "
                "known"
            )

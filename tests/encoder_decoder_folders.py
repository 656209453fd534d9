"""Folders of small models of an encoder and a decoder as the Hugging Face hub has them, of random
weights that 8 bits hold as they are."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.language_folder import safetensors

Entries = NDArray[np.float32]

WIDTH, HEADS, HIDDEN, VOCABULARY = 32, 2, 64, 90
TOKENS = {"eos_token_id": 2, "pad_token_id": 1}
_BART = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": HIDDEN,
    "decoder_ffn_dim": HIDDEN,
    "max_position_embeddings": 32,
    **TOKENS,
}
_T5 = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "d_kv": 16,
    "d_ff": HIDDEN,
    "num_layers": 1,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "decoder_start_token_id": 0,
    **TOKENS,
}
CONFIGS: Mapping[str, dict[str, Any]] = {
    "t5": _T5 | {"model_type": "t5", "feed_forward_proj": "relu"},
    "t5-gated": _T5
    | {"model_type": "t5", "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "bart": _BART
    | {
        "model_type": "bart",
        "activation_function": "gelu",
        "decoder_start_token_id": 2,
        "forced_bos_token_id": 0,
    },
    "mbart": _BART
    | {
        "model_type": "mbart",
        "activation_function": "relu",
        "scale_embedding": True,
        "decoder_start_token_id": 5,
    },
    "marian": _BART
    | {
        "model_type": "marian",
        "activation_function": "swish",
        "scale_embedding": True,
        "decoder_start_token_id": 89,
        "bad_words_ids": [[89]],
    },
    "whisper": _BART
    | {
        "model_type": "whisper",
        "activation_function": "gelu",
        "num_mel_bins": 16,
        "max_source_positions": 12,
        "max_target_positions": 24,
        "decoder_start_token_id": 3,
    },
}
SOURCE_LENGTH = {"whisper": 12}
"""Places of the encoder, 16 unless told."""


def write_encoder_decoder(folder: Path, family: str, seed: int = 5) -> dict[str, Entries]:
    """Writes config.json and model.safetensors; returns the weights by their names."""
    config = CONFIGS[family]
    random = np.random.default_rng(seed)
    make = _t5 if config["model_type"] == "t5" else _bart
    weights = make(config, random)
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, entries in weights.items():
        data = entries.astype("<f4").tobytes()
        offsets = [len(body), len(body) + len(data)]
        head[name] = {"dtype": "F32", "shape": entries.shape, "data_offsets": offsets}
        body += data
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(safetensors(head, body))
    (folder / "config.json").write_text(json.dumps(config))
    return weights


def _matrix(random: np.random.Generator, rows: int, columns: int, scale: float) -> Entries:
    """Steps of a scale that is a power of two, with the largest in each block of 32, so that
    quantising to 8 bits changes nothing."""
    steps = random.integers(-127, 128, (rows, columns)).astype(np.float32)
    steps[:, ::32] = -128
    return steps * np.float32(scale / 128)


def _norm(random: np.random.Generator, name: str, *, beta: bool = True) -> dict[str, Entries]:
    made = {f"{name}.weight": random.uniform(0.7, 1.3, WIDTH).astype(np.float32)}
    if beta:
        made[f"{name}.bias"] = random.uniform(-0.2, 0.2, WIDTH).astype(np.float32)
    return made


def _linear(
    random: np.random.Generator, name: str, rows: int, columns: int, *, bias: bool = True
) -> dict[str, Entries]:
    made = {f"{name}.weight": _matrix(random, rows, columns, 0.5)}
    if bias:
        made[f"{name}.bias"] = random.uniform(-0.5, 0.5, rows).astype(np.float32)
    return made


def _t5(config: Mapping[str, Any], random: np.random.Generator) -> dict[str, Entries]:
    inner = config["num_heads"] * config["d_kv"]
    gated = config["feed_forward_proj"].startswith("gated")
    made = {"shared.weight": _matrix(random, VOCABULARY, WIDTH, 2.0)}
    for side, layers in (("encoder", "num_layers"), ("decoder", "num_decoder_layers")):
        attentions = ["layer.0.SelfAttention"]
        attentions += ["layer.1.EncDecAttention"] if side == "decoder" else []
        for number in range(config[layers]):
            block = f"{side}.block.{number}."
            for each in attentions:
                for part in "qkv":
                    made |= _linear(random, f"{block}{each}.{part}", inner, WIDTH, bias=False)
                made |= _linear(random, f"{block}{each}.o", WIDTH, inner, bias=False)
            last = f"{block}layer.{len(attentions)}."
            for part in ("wi_0", "wi_1") if gated else ("wi",):
                made |= _linear(random, f"{last}DenseReluDense.{part}", HIDDEN, WIDTH, bias=False)
            made |= _linear(random, f"{last}DenseReluDense.wo", WIDTH, HIDDEN, bias=False)
            for place in range(len(attentions) + 1):
                made |= _norm(random, f"{block}layer.{place}.layer_norm", beta=False)
        name = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        made[name] = random.uniform(-2, 2, (8, config["num_heads"])).astype(np.float32)
        made |= _norm(random, f"{side}.final_layer_norm", beta=False)
    if config.get("tie_word_embeddings") is False:
        made["lm_head.weight"] = _matrix(random, VOCABULARY, WIDTH, 1.0)
    return made


def _bart(config: Mapping[str, Any], random: np.random.Generator) -> dict[str, Entries]:
    kind = config["model_type"]
    hears = kind == "whisper"
    shared = "model.decoder.embed_tokens.weight" if hears else "model.shared.weight"
    made = {shared: _matrix(random, VOCABULARY, WIDTH, 1.0)}
    for side in ("encoder", "decoder"):
        attentions = ["self_attn"] + (["encoder_attn"] if side == "decoder" else [])
        for number in range(config[f"{side}_layers"]):
            layer = f"model.{side}.layers.{number}."
            for each in attentions:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    bias = not (hears and part == "k_proj")
                    made |= _linear(random, f"{layer}{each}.{part}", WIDTH, WIDTH, bias=bias)
                made |= _norm(random, f"{layer}{each}_layer_norm")
            made |= _linear(random, f"{layer}fc1", HIDDEN, WIDTH)
            made |= _linear(random, f"{layer}fc2", WIDTH, HIDDEN)
            made |= _norm(random, f"{layer}final_layer_norm")
        if kind in ("bart", "mbart"):
            made |= _norm(random, f"model.{side}.layernorm_embedding")
        if kind in ("mbart", "whisper"):
            made |= _norm(random, f"model.{side}.layer_norm")
        rows = {"bart": 34, "mbart": 34, "marian": 0}.get(kind, 24 if side == "decoder" else 12)
        if rows:
            places = random.uniform(-1, 1, (rows, WIDTH)).astype(np.float32)
            made[f"model.{side}.embed_positions.weight"] = places
    if not hears:
        made["final_logits_bias"] = random.uniform(-0.5, 0.5, (1, VOCABULARY)).astype(np.float32)
    for number, bands in ((1, config.get("num_mel_bins", 0)), (2, WIDTH)) if hears else ():
        name = f"model.encoder.conv{number}"
        taps = _matrix(random, WIDTH, 3 * bands, 0.5).reshape(WIDTH, 3, bands)
        made[f"{name}.weight"] = np.ascontiguousarray(taps.transpose(0, 2, 1))
        made[f"{name}.bias"] = random.uniform(-0.5, 0.5, WIDTH).astype(np.float32)
    return made

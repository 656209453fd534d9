"""A language model in NumPy, on the quantised weights: what plans and pages are held to. Keys and
values are rounded to what the config's cache holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from services.tuner.language.checkpoint import Checkpoint
from services.tuner.language.config import LanguageConfig
from services.tuner.language.operands import BRANCH_NORMS, gate_norm

Array = NDArray[np.float32]
ROWS_AT_ONCE = 8_192
"""Rows of a matrix that are dense at once."""


@dataclass(frozen=True, slots=True)
class Reference:
    config: LanguageConfig
    weights: Checkpoint

    def logits(self, tokens: list[int]) -> Array:
        """float32[vocabulary] behind the last of the tokens."""
        config = self.config
        embedding = self.weights.matrix(EMBEDDING, config.vocabulary, config.width)
        x = np.concatenate([embedding.rows(token, token + 1).dense for token in tokens])
        x = x * np.float32(config.embedding_scale)
        for layer in range(config.layers):
            x = self._layer(x, layer)
        last = self._normed(x[-1:], "model.norm.weight")
        head = HEAD_TIED if config.tied else HEAD
        return _capped(self._product(last, head, config.vocabulary), config.logit_cap).reshape(-1)

    def continued(self, tokens: list[int], count: int) -> list[int]:
        """The likeliest tokens, one after the other."""
        found: list[int] = []
        for _ in range(count):
            found.append(int(self.logits([*tokens, *found]).argmax()))
        return found

    def _layer(self, x: Array, layer: int) -> Array:
        config, name = self.config, f"model.layers.{layer}."
        a = self._normed(x, f"{name}input_layernorm.weight")
        attended = self._attended(a, layer, f"{name}self_attn.")
        x = self._added(x, attended, f"{name}self_attn.o_proj", f"{name}{BRANCH_NORMS[0]}")
        a = self._normed(x, f"{name}{gate_norm(config)}.weight")
        gate = self._product(a, f"{name}mlp.gate_proj", config.hidden)
        up = self._product(a, f"{name}mlp.up_proj", config.hidden)
        gated = _ACTIVATIONS[config.gate](gate) * up
        return self._added(x, gated, f"{name}mlp.down_proj", f"{name}{BRANCH_NORMS[1]}")

    def _added(self, x: Array, a: Array, matrix: str, norm: str) -> Array:
        branch = self._product(a, matrix, self.config.width)
        if self.config.normed_branches:
            branch = self._normed(branch, f"{norm}.weight")
        return x + branch

    def _attended(self, a: Array, layer: int, name: str) -> Array:
        """float32[tokens, heads · head_dim]"""
        config, shape = self.config, self.config.attention(layer)
        windowed = config.has_windowed_rotary(layer)
        tables = self.weights.rotation(config, windowed=windowed)
        cosines, sines = (table[: len(a), None] for table in tables)
        queries, keys, values = (
            self._projected(a, f"{name}{part}_proj", heads)
            for part, heads in (("q", config.heads), ("k", config.kv_heads), ("v", config.kv_heads))
        )
        if config.normed_heads:
            queries = self._normed(queries, f"{name}q_norm.weight")
            keys = self._normed(keys, f"{name}k_norm.weight")
        queries, keys = (_rotated(each, cosines, sines) for each in (queries, keys))
        if config.cache is DType.F16:
            keys, values = (each.astype(np.float16).astype(np.float32) for each in (keys, values))
        places = np.arange(len(a))
        ago = places[:, None] - places
        hidden = (ago < 0) | (ago >= shape.span)
        mixed = []
        for head in range(config.heads):
            group = head // shape.shared
            scores = queries[:, head] @ keys[:, group].T * np.float32(shape.factor)
            scores = _capped(scores, shape.cap)
            scores[hidden] = -np.inf
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            mixed.append(powers / powers.sum(axis=1, keepdims=True) @ values[:, group])
        return np.concatenate(mixed, axis=1)

    def _projected(self, a: Array, name: str, heads: int) -> Array:
        """float32[tokens, heads, head_dim]"""
        made = self._product(a, name, heads * self.config.head_dim)
        if self.config.bias:
            made = made + self.weights.vector(f"{name}.bias", made.shape[1])
        return made.reshape(len(a), heads, -1)

    def _product(self, a: Array, name: str, rows: int) -> Array:
        matrix = self.weights.matrix(f"{name}.weight", rows, a.shape[1])
        parts = range(0, rows, ROWS_AT_ONCE)
        return np.concatenate(
            [a @ matrix.rows(at, at + ROWS_AT_ONCE).dense.T for at in parts], axis=1
        )

    def _normed(self, x: Array, name: str) -> Array:
        squares = np.mean(x.astype(np.float64) ** 2, axis=-1, keepdims=True)
        factor = (1 / np.sqrt(squares + self.config.epsilon)).astype(np.float32)
        return np.asarray(x * factor * self.weights.vector(name, x.shape[-1]), np.float32)


EMBEDDING = "model.embed_tokens.weight"
HEAD_TIED = "model.embed_tokens"
HEAD = "lm_head"


def _capped(x: Array, cap: float) -> Array:
    return np.asarray(np.float32(cap) * np.tanh(x / np.float32(cap))) if cap else x


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def _gelu_tanh(x: Array) -> Array:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    return np.asarray(x / 2 * (1 + np.tanh(inner)))


_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {"silu": _silu, "gelu_tanh": _gelu_tanh}


def _rotated(x: Array, cosines: Array, sines: Array) -> Array:
    low, high = np.split(x, 2, axis=-1)
    return np.concatenate([low * cosines - high * sines, high * cosines + low * sines], axis=-1)

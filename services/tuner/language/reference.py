"""A language model in NumPy, on the quantised weights: what plans and pages are held to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.tuner.language.checkpoint import Checkpoint
from services.tuner.language.config import LanguageConfig

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
            x = self._layer(x, f"model.layers.{layer}.")
        last = self._normed(x[-1:], "model.norm.weight")
        head = HEAD_TIED if config.tied else HEAD
        return self._product(last, head, config.vocabulary).reshape(-1)

    def continued(self, tokens: list[int], count: int) -> list[int]:
        """The likeliest tokens, one after the other."""
        found: list[int] = []
        for _ in range(count):
            found.append(int(self.logits([*tokens, *found]).argmax()))
        return found

    def _layer(self, x: Array, name: str) -> Array:
        config = self.config
        a = self._normed(x, f"{name}input_layernorm.weight")
        x = x + self._product(
            self._attended(a, f"{name}self_attn."), f"{name}self_attn.o_proj", config.width
        )
        a = self._normed(x, f"{name}post_attention_layernorm.weight")
        gate = self._product(a, f"{name}mlp.gate_proj", config.hidden)
        up = self._product(a, f"{name}mlp.up_proj", config.hidden)
        return x + self._product(
            _ACTIVATIONS[config.gate](gate) * up, f"{name}mlp.down_proj", config.width
        )

    def _attended(self, a: Array, name: str) -> Array:
        """float32[tokens, heads · head_dim]"""
        config = self.config
        cosines, sines = (table[: len(a), None] for table in self.weights.rotation(config))
        queries, keys, values = (
            self._projected(a, f"{name}{part}_proj", heads)
            for part, heads in (("q", config.heads), ("k", config.kv_heads), ("v", config.kv_heads))
        )
        if config.normed_heads:
            queries = self._normed(queries, f"{name}q_norm.weight")
            keys = self._normed(keys, f"{name}k_norm.weight")
        queries, keys = (_rotated(each, cosines, sines) for each in (queries, keys))
        later = np.triu(np.ones((len(a), len(a)), bool), 1)
        mixed = []
        for head in range(config.heads):
            group = head // (config.heads // config.kv_heads)
            scores = queries[:, head] @ keys[:, group].T * np.float32(config.head_dim**-0.5)
            scores[later] = -np.inf
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


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def _gelu_tanh(x: Array) -> Array:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    return np.asarray(x / 2 * (1 + np.tanh(inner)))


_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {"silu": _silu, "gelu_tanh": _gelu_tanh}


def _rotated(x: Array, cosines: Array, sines: Array) -> Array:
    low, high = np.split(x, 2, axis=-1)
    return np.concatenate([low * cosines - high * sines, high * cosines + low * sines], axis=-1)

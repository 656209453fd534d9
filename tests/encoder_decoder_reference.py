"""T5, BART, Marian and Whisper in NumPy, written from their papers and not from the project's
graphs: whole texts at once, without a cache, a padding or a quantised weight."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import erf
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x / 2 * (1 + np.vectorize(erf)(x / np.sqrt(2))),
    "swish": lambda x: x / (1 + np.exp(-x)),
}


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Model:
    config: Mapping[str, Any]
    weights: Mapping[str, Array]

    @property
    def is_t5(self) -> bool:
        return str(self.config["model_type"]) == "t5"

    def logits(self, source: Array, tokens: list[int]) -> Array:
        """float64[vocabulary] behind the last token. `source`: tokens, or f32[bands, frames]."""
        encode, decode = (
            (self._t5_encoded, self._t5_decoded)
            if self.is_t5
            else (self._bart_encoded, self._bart_decoded)
        )
        return np.asarray(decode(np.asarray(tokens), encode(np.asarray(source)))[-1])

    def _at(self, name: str) -> Array:
        return self.weights[name].astype(np.float64)

    def _linear(self, x: Array, name: str) -> Array:
        made = x @ self._at(f"{name}.weight").T
        bias = f"{name}.bias"
        return made + self._at(bias) if bias in self.weights else made

    def _attention(
        self, x: Array, other: Array, names: list[str], heads: int, scores: Array | float
    ) -> Array:
        """Attention of x over other; `scores` are added to those of each head, and are -inf where
        nothing is seen."""
        q, k, v = (
            self._linear(each, name).reshape(len(each), heads, -1).transpose(1, 0, 2)
            for each, name in zip((x, other, other), names, strict=False)
        )
        factor = 1.0 if self.is_t5 else q.shape[2] ** -0.5
        mixed = _softmax(q @ k.transpose(0, 2, 1) * factor + scores) @ v
        return self._linear(mixed.transpose(1, 0, 2).reshape(len(x), -1), names[3])

    # T5

    def _rms(self, x: Array, name: str) -> Array:
        mean = np.mean(x**2, axis=-1, keepdims=True)
        return np.asarray(x / np.sqrt(mean + 1e-6) * self._at(f"{name}.weight"))

    def _t5_biases(self, side: str, length: int) -> Array:
        table = self._at(f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
        buckets, far = 8, 12
        made = np.zeros((table.shape[1], length, length))
        for query in range(length):
            for key in range(length):
                ago, first, count = query - key, 0, buckets
                if side == "encoder":
                    count //= 2
                    first = count if ago < 0 else 0
                    ago = abs(ago)
                ago = max(ago, 0)
                exact = count // 2
                bucket = ago
                if ago >= exact:
                    share = np.log(ago / exact) / np.log(far / exact)
                    bucket = min(count - 1, exact + int(share * (count - exact)))
                made[:, query, key] = table[first + bucket]
        return made

    def _t5_feed(self, x: Array, name: str) -> Array:
        if f"{name}wi.weight" in self.weights:
            return self._linear(np.maximum(self._linear(x, f"{name}wi"), 0), f"{name}wo")
        gate = _gelu_tanh(self._linear(x, f"{name}wi_0"))
        return self._linear(gate * self._linear(x, f"{name}wi_1"), f"{name}wo")

    def _t5_stack(self, side: str, tokens: Array, layers: int, encoded: Array | None) -> Array:
        x, heads = self._at("shared.weight")[tokens], self.config["num_heads"]
        biases = self._t5_biases(side, len(tokens))
        if encoded is not None:
            biases = biases + np.triu(np.full((len(tokens),) * 2, -np.inf), 1)
        for number in range(layers):
            block = f"{side}.block.{number}."

            def names(part: str, block: str = block) -> list[str]:
                return [f"{block}{part}.{each}" for each in "qkvo"]

            a = self._rms(x, f"{block}layer.0.layer_norm")
            x = x + self._attention(a, a, names("layer.0.SelfAttention"), heads, biases)
            last = 1
            if encoded is not None:
                a = self._rms(x, f"{block}layer.1.layer_norm")
                x = x + self._attention(a, encoded, names("layer.1.EncDecAttention"), heads, 0.0)
                last = 2
            a = self._rms(x, f"{block}layer.{last}.layer_norm")
            x = x + self._t5_feed(a, f"{block}layer.{last}.DenseReluDense.")
        return self._rms(x, f"{side}.final_layer_norm")

    def _t5_encoded(self, source: Array) -> Array:
        return self._t5_stack("encoder", source, self.config["num_layers"], None)

    def _t5_decoded(self, tokens: Array, encoded: Array) -> Array:
        x = self._t5_stack("decoder", tokens, self.config["num_decoder_layers"], encoded)
        if "lm_head.weight" in self.weights:
            return np.asarray(x @ self._at("lm_head.weight").T)
        return np.asarray(x * self.config["d_model"] ** -0.5 @ self._at("shared.weight").T)

    # BART, Marian, Whisper

    def _norm(self, x: Array, name: str) -> Array:
        rest = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((rest**2).mean(axis=-1, keepdims=True) + 1e-5)
        return np.asarray(rest / spread * self._at(f"{name}.weight") + self._at(f"{name}.bias"))

    def _places(self, side: str, length: int) -> Array:
        kind, width = self.config["model_type"], self.config["d_model"]
        if kind == "marian":
            made = np.zeros((length, width))
            for place in range(length):
                for i in range(width // 2):
                    angle = place / 10_000 ** (2 * i / width)
                    made[place, i], made[place, width // 2 + i] = np.sin(angle), np.cos(angle)
            return made
        first = 0 if kind == "whisper" else 2
        return self._at(f"model.{side}.embed_positions.weight")[first : first + length]

    def _embedded(self, side: str, tokens: Array) -> Array:
        table = self.weights.get("model.shared.weight")
        if table is None:
            table = self.weights["model.decoder.embed_tokens.weight"]
        factor = self.config["d_model"] ** 0.5 if self.config.get("scale_embedding") else 1.0
        return table.astype(np.float64)[tokens] * factor + self._places(side, len(tokens))

    def _convolved(self, x: Array, number: int, stride: int) -> Array:
        taps = self._at(f"model.encoder.conv{number}.weight")
        whole = np.pad(x, ((0, 0), (1, 1)))
        rows = [
            np.einsum("obt,bt->o", taps, whole[:, at : at + 3])
            for at in range(0, x.shape[1], stride)
        ]
        bias = self._at(f"model.encoder.conv{number}.bias")
        return ACTIVATIONS["gelu"](np.stack(rows, axis=1) + bias[:, None])

    def _stack(self, side: str, x: Array, encoded: Array | None) -> Array:
        kind = self.config["model_type"]
        first = kind in ("mbart", "whisper")
        if kind in ("bart", "mbart"):
            x = self._norm(x, f"model.{side}.layernorm_embedding")
        heads, length = self.config["encoder_attention_heads"], len(x)
        seen = 0.0 if encoded is None else np.triu(np.full((length, length), -np.inf), 1)
        activation = ACTIVATIONS[self.config["activation_function"]]

        def added(x: Array, norm: str, branch: Callable[[Array], Array]) -> Array:
            if first:
                return x + branch(self._norm(x, norm))
            return self._norm(x + branch(x), norm)

        for number in range(self.config[f"{side}_layers"]):
            layer = f"model.{side}.layers.{number}."

            def names(part: str, layer: str = layer) -> list[str]:
                parts = ("q_proj", "k_proj", "v_proj", "out_proj")
                return [f"{layer}{part}.{each}" for each in parts]

            def itself(a: Array, own: list[str] = names("self_attn")) -> Array:  # noqa: B008
                return self._attention(a, a, own, heads, seen)

            def across(a: Array, own: list[str] = names("encoder_attn")) -> Array:  # noqa: B008
                assert encoded is not None
                return self._attention(a, encoded, own, heads, 0.0)

            def feed(a: Array, layer: str = layer) -> Array:
                return self._linear(activation(self._linear(a, f"{layer}fc1")), f"{layer}fc2")

            x = added(x, f"{layer}self_attn_layer_norm", itself)
            if encoded is not None:
                x = added(x, f"{layer}encoder_attn_layer_norm", across)
            x = added(x, f"{layer}final_layer_norm", feed)
        return self._norm(x, f"model.{side}.layer_norm") if first else x

    def _bart_encoded(self, source: Array) -> Array:
        if self.config["model_type"] == "whisper":
            x = self._convolved(self._convolved(source.astype(np.float64), 1, 1), 2, 2).T
            return self._stack("encoder", x + self._places("encoder", len(x)), None)
        return self._stack("encoder", self._embedded("encoder", source), None)

    def _bart_decoded(self, tokens: Array, encoded: Array) -> Array:
        x = self._stack("decoder", self._embedded("decoder", tokens), encoded)
        shared = "model.shared.weight"
        table = self._at(shared if shared in self.weights else "model.decoder.embed_tokens.weight")
        made = x @ table.T
        return made + self._at("final_logits_bias") if "final_logits_bias" in self.weights else made


def generated(
    model: Model,
    source: Array,
    start: list[int],
    count: int,
    stop: tuple[int, ...] = (),
    left_out: tuple[int, ...] = (),
) -> list[int]:
    """The likeliest tokens, one after the other, up to one of `stop`."""
    found: list[int] = []
    while len(found) < count:
        logits = model.logits(source, [*start, *found])
        logits[list(left_out)] = -np.inf
        token = int(logits.argmax())
        if token in stop:
            break
        found.append(token)
    return found


def likeliest_text(
    model: Model,
    source: Array,
    start: list[int],
    count: int,
    *,
    beams: int,
    stop: tuple[int, ...] = (),
    length_penalty: float = 1.0,
    left_out: tuple[int, ...] = (),
) -> list[int]:
    """Beam search as section 3 of Wu et al., Google's Neural Machine Translation System, begins
    with, with a sum of logarithms divided by the length to a power. It ends once no text that goes
    on could be better than the worst of as many ended ones as there are beams."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    for length in range(1, count + 1):
        grown = []
        for score, text in live:
            logits = model.logits(source, [*start, *text])
            logits[list(left_out)] = -np.inf
            powers = logits - logits.max()
            powers -= np.log(np.exp(powers).sum())
            grown += [(score + power, [*text, token]) for token, power in enumerate(powers)]
        grown.sort(key=lambda each: -each[0])
        grown = grown[: max(2, 1 + len(stop)) * beams]
        stopped = [each for each in grown[:beams] if each[1][-1] in stop]
        ended += [(score / length**length_penalty, text[:-1]) for score, text in stopped]
        ended = sorted(ended, key=lambda each: -each[0])[:beams]
        live = [each for each in grown if each[1][-1] not in stop][:beams]
        best = grown[0][0] / length**length_penalty
        if len(ended) == beams and ended[-1][0] >= best:
            return ended[0][1]
    ended += [(score / count**length_penalty, text) for score, text in live]
    return max(ended, key=lambda each: each[0])[1]

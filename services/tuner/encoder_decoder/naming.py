"""The names that weights have on the Hugging Face hub, by the family of a model."""

from dataclasses import dataclass

ENCODER, DECODER = "encoder", "decoder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Names of the weights of a family. `{side}` is encoder or decoder, `{layer}` a number, and
    `{last}` that of a layer's last part, where parts have numbers."""

    layer: str
    self_attention: str
    self_norm: str
    cross_attention: str
    cross_norm: str
    projections: tuple[str, str, str, str]
    """Queries, keys, values, output."""
    up: tuple[str, ...]
    """The products before the activation: one, or the gate and what it lets through."""
    down: str
    feed_norm: str
    last_norm: str
    embedding: tuple[str, ...]
    """The first of these that the weights have, as with `head`."""
    embedding_norm: str
    positions: str
    relative: str
    head: tuple[str, ...]
    head_bias: str

    def layer_of(self, side: str, number: int) -> str:
        return self.layer.format(side=side, layer=number)

    def part(self, name: str, side: str) -> str:
        """A name within a layer, or one that both sides have."""
        return name.format(side=side, last=1 if side == ENCODER else 2)


BART = Naming(
    layer="model.{side}.layers.{layer}.",
    self_attention="self_attn.",
    self_norm="self_attn_layer_norm",
    cross_attention="encoder_attn.",
    cross_norm="encoder_attn_layer_norm",
    projections=("q_proj", "k_proj", "v_proj", "out_proj"),
    up=("fc1",),
    down="fc2",
    feed_norm="final_layer_norm",
    last_norm="model.{side}.layer_norm",
    embedding=("model.{side}.embed_tokens.weight", "model.shared.weight", "lm_head.weight"),
    embedding_norm="model.{side}.layernorm_embedding",
    positions="model.{side}.embed_positions.weight",
    relative="",
    head=("lm_head.weight", "proj_out.weight"),
    head_bias="final_logits_bias",
)
"""Marian and Whisper have these names, too."""

_T5_PARTS = "layer.{last}.DenseReluDense."


def t5_naming(*, gated: bool) -> Naming:
    return Naming(
        layer="{side}.block.{layer}.",
        self_attention="layer.0.SelfAttention.",
        self_norm="layer.0.layer_norm",
        cross_attention="layer.1.EncDecAttention.",
        cross_norm="layer.1.layer_norm",
        projections=("q", "k", "v", "o"),
        up=tuple(_T5_PARTS + name for name in (("wi_0", "wi_1") if gated else ("wi",))),
        down=f"{_T5_PARTS}wo",
        feed_norm="layer.{last}.layer_norm",
        last_norm="{side}.final_layer_norm",
        embedding=("{side}.embed_tokens.weight", "shared.weight"),
        embedding_norm="",
        positions="",
        relative="{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        head=("lm_head.weight",),
        head_bias="",
    )

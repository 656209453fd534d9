"""The shape of a model of an encoder and a decoder."""

from dataclasses import dataclass
from enum import StrEnum

from kernelzoo.domain.operators.decoding import LANES, AttentionShape
from kernelzoo.domain.operators.quantised import ROW_STEP
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.encoder_decoder.naming import Naming

USUAL_LENGTH = 512
"""Tokens that encoder and decoder have room for, unless told; a model may know more."""


class Positions(StrEnum):
    """A model tells the places of tokens so: by rows that its weights have or that are computed of
    sines, which are added to the embedding, or by what is added to scores (T5)."""

    STORED = "stored"
    SINES = "sines"
    RELATIVE = "relative"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The layers of an encoder or of a decoder. `hidden`: entries between the two products of a
    layer's feed-forward part."""

    layers: int
    heads: int
    hidden: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrogram:
    """The encoder reads this in the place of tokens: two convolutions make a place of its length
    of two `frames` of so many `bands`."""

    bands: int
    frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoderConfig:
    """Rows have `width` entries, and `head_dim` in each head. `source_length` is the longest text
    that the encoder takes, or the places that it makes of a spectrogram; `length` the longest text
    of the decoder."""

    naming: Naming
    vocabulary: int
    source_vocabulary: int
    """0 where the encoder takes a spectrogram."""
    width: int
    head_dim: int
    encoder: Stack
    decoder: Stack
    length: int
    source_length: int
    most: int = 1 << 31
    """The longest text of the decoder that the model knows."""
    most_source: int = 1 << 31
    epsilon: float
    rms: bool = False
    """True if norms are by the root of the mean square, without a beta."""
    biased: bool = True
    """True if products have a bias."""
    normed_first: bool = False
    """True if the rows that a branch reads are normalised, and not those that it was added to."""
    normed_embedding: bool = False
    normed_last: bool = False
    """True if what the last layer makes is normalised."""
    activation: str = "gelu"
    gated: bool = False
    """True if the activation is a gate of a second product."""
    embedding_scale: float = 1.0
    positions: Positions = Positions.STORED
    first_position: int = 0
    """The row of the first place among those that are stored."""
    buckets: int = 0
    """Rows of the table of relative positions."""
    most_distance: int = 0
    """Tokens that are so far apart or farther have the same relative position."""
    score_scale: float = 0.0
    """Scores are multiplied by this, by head_dim^-½ where it is 0."""
    logit_scale: float = 1.0
    tied: bool = True
    """True if the head is the transpose of the decoder's embedding."""
    spectrogram: Spectrogram | None = None
    start: tuple[int, ...] = ()
    """Tokens with which a text of the decoder begins."""
    stop: tuple[int, ...] = ()
    suppressed: tuple[int, ...] = ()
    """Tokens that are never generated."""

    def inner(self, stack: Stack) -> int:
        """Entries of the queries of a token."""
        return stack.heads * self.head_dim

    @property
    def self_attention(self) -> AttentionShape:
        """The attention of a token of the decoder over those before it."""
        return AttentionShape(
            heads=self.decoder.heads,
            kv_heads=self.decoder.heads,
            head_dim=self.head_dim,
            length=self.length,
            scale=self.score_scale,
            biased=self.positions is Positions.RELATIVE,
        )


def refuse_shape(config: EncoderDecoderConfig) -> None:
    """Raises InvalidInput, UnsupportedModel."""
    for asked, known, what in (
        (config.length, config.most, "context"),
        (config.source_length, config.most_source, "source"),
    ):
        if asked > known:
            raise InvalidInput(f"the model knows a {what} of {known} places; {asked} are asked for")
        if asked < LANES or asked % LANES:
            raise InvalidInput(
                f"a {what} of {asked} places is asked for; it must be a multiple of {LANES}"
            )
    # The encoder halves the buckets, of which half are exact; the decoder has half of all exact.
    if config.positions is Positions.RELATIVE and not (
        config.buckets >= 4 and config.most_distance > config.buckets // 2
    ):
        raise InvalidInput(
            f"{config.buckets} buckets of relative positions up to {config.most_distance} tokens "
            "are none; there must be 4 at least, and farther ones than half as many tokens"
        )
    if config.head_dim % (2 * LANES):
        raise UnsupportedModel(
            f"heads have {config.head_dim} entries; they must have a multiple of {2 * LANES}"
        )
    stacks = config.encoder, config.decoder
    for entries in (config.width, *map(config.inner, stacks), *(each.hidden for each in stacks)):
        if entries % ROW_STEP:
            raise UnsupportedModel(
                f"a layer has rows of {entries} entries; quantised weights need multiples of "
                f"{ROW_STEP}"
            )

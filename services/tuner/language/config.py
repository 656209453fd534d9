"""The shape of a language model."""

from dataclasses import dataclass

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.decoding import AttentionShape
from kernelzoo.domain.operators.quantised import ROW_STEP
from kernelzoo.errors import InvalidInput, UnsupportedModel

USUAL_LENGTH = 2_048
"""Tokens that a decoder has room for, unless told; a model may know more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Stretches the rotary embedding as Llama 3 does: wavelengths above `original` / `low` by
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
    cache: DType = DType.F32
    """The dtype of keys and values in memory."""
    epsilon: float
    theta: float | None
    """The base of the rotary embedding; None where the weights come with its tables."""
    scaling: Scaling | None = None
    bias: bool = False
    """True if queries, keys and values have one."""
    normed_heads: bool = False
    """True if queries and keys are normalised head by head."""
    tied: bool = False
    """True if the head is the embedding's transpose."""
    gate: str = "silu"
    """The gate's entries go through this: silu or gelu_tanh."""
    embedding_scale: float = 1.0
    """Rows of the embedding are multiplied by it."""
    gamma_offset: float = 0.0
    """Files leave so much out of the factors of norms."""
    windows: tuple[int, ...] = ()
    """The last tokens that each layer sees, 0 for all; () where all layers see all."""
    windowed_rotary: Rotary | None = None
    """The rotary embedding of layers that see a window, where it is not that of all."""
    score_scale: float = 0.0
    """Scores are multiplied by this, by head_dim^-½ where it is 0."""
    score_cap: float = 0.0
    """Scores become cap · tanh(score / cap), unless it is 0; logits likewise."""
    logit_cap: float = 0.0
    normed_branches: bool = False
    """True if what attention and gate add to a row is normalised first."""
    joined: bool = False
    """True if files have queries, keys and values as one matrix, and gate and up as another."""
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


def refuse_shape(config: LanguageConfig, most: int) -> None:
    """`most`: the longest text that the model knows. Raises InvalidInput, UnsupportedModel."""
    if config.length > most:
        raise InvalidInput(f"the model knows texts of {most} tokens; {config.length} are asked for")
    if config.heads % config.kv_heads or config.head_dim % 4 or not config.head_dim:
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

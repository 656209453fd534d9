"""The tables of the rotary embedding: cosines and sines of every place and every pair."""

import numpy as np
from numpy.typing import NDArray

from kernelzoo.errors import InvalidInput
from services.tuner.language.config import LanguageConfig

Table = NDArray[np.float32]


def rotation(config: LanguageConfig) -> tuple[Table, Table]:
    """float32[length, head_dim / 2] each. Raises InvalidInput for a model without its base."""
    angles = np.arange(config.length)[:, None] * _frequencies(config)[None]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _frequencies(config: LanguageConfig) -> NDArray[np.float64]:
    if config.theta is None:
        raise InvalidInput("the model's rotary embedding has no base, but tables of its own")
    plain = config.theta ** (-np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim)
    scaling = config.scaling
    if scaling is None:
        return plain
    turns = scaling.original * plain / (2 * np.pi)
    kept = np.clip((turns - scaling.low) / (scaling.high - scaling.low), 0, 1)
    return np.asarray(kept * plain + (1 - kept) * plain / scaling.factor)

"""The tables of the rotary embedding: cosines and sines of every place and every pair."""

import numpy as np
from numpy.typing import NDArray

from kernelzoo.errors import InvalidInput
from services.tuner.language.config import LanguageConfig, Rotary, Scaling

Table = NDArray[np.float32]


def rotation(config: LanguageConfig, *, windowed: bool = False) -> tuple[Table, Table]:
    """float32[length, head_dim / 2] each, of layers that see all tokens or a window. Raises
    InvalidInput for a model without its base."""
    plain = Rotary(theta=config.theta, scaling=config.scaling)
    rotary = (config.windowed_rotary if windowed else None) or plain
    if rotary.theta is None:
        raise InvalidInput("the model's rotary embedding has no base, but tables of its own")
    frequencies = _frequencies(rotary.theta, rotary.scaling, config.head_dim)
    angles = np.arange(config.length)[:, None] * frequencies[None]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _frequencies(theta: float, scaling: Scaling | None, head_dim: int) -> NDArray[np.float64]:
    plain = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if scaling is None:
        return plain
    if not scaling.original:
        return np.asarray(plain / scaling.factor)
    turns = scaling.original * plain / (2 * np.pi)
    kept = np.clip((turns - scaling.low) / (scaling.high - scaling.low), 0, 1)
    return np.asarray(kept * plain + (1 - kept) * plain / scaling.factor)

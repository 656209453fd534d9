"""Tables of places: rows that are added to embeddings, and what is added to scores by distances."""

import numpy as np
from numpy.typing import NDArray

from services.tuner.encoder_decoder.config import EncoderDecoderConfig, Positions
from services.tuner.encoder_decoder.naming import DECODER, ENCODER
from services.tuner.encoder_decoder.tensors import Entries, NamedTensors


def position_rows(config: EncoderDecoderConfig, tensors: NamedTensors, side: str) -> Entries:
    """float32[length, width] of one side."""
    length = config.source_length if side == ENCODER else config.length
    if config.positions is Positions.SINES:
        return _sines(length, config.width)
    first = config.first_position
    stored = first + (config.most_source if side == ENCODER else config.most)
    name = config.naming.part(config.naming.positions, side)
    table = tensors.first((name,), (stored, config.width))
    return np.ascontiguousarray(table[first : first + length])


def _sines(length: int, width: int) -> Entries:
    """Sines, then cosines, as Marian has them (Attention Is All You Need, section 3.5, with all
    sines before the cosines)."""
    frequencies = 10_000.0 ** (-np.arange(0, width, 2) / width)
    angles = np.arange(length)[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def distance_rows(
    config: EncoderDecoderConfig, tensors: NamedTensors, side: str, distances: NDArray[np.int64]
) -> Entries:
    """float32[heads, distances]: what is added to the score of a key that is so many places behind
    the query, or before it below 0."""
    stack = config.encoder if side == ENCODER else config.decoder
    name = config.naming.part(config.naming.relative, side)
    table = tensors.first((name,), (config.buckets, stack.heads))
    buckets = _buckets(config, distances, both_ways=side != DECODER)
    return np.ascontiguousarray(table[buckets].T)


def _buckets(
    config: EncoderDecoderConfig, distances: NDArray[np.int64], *, both_ways: bool
) -> NDArray[np.int64]:
    """The rows of distances as T5 has them (Raffel et al., Exploring the Limits of Transfer
    Learning, section 2.1): near ones have one each, and those farther away share one with others by
    the logarithm. Keys behind the query, which an encoder sees, have a half of their own."""
    count, first = config.buckets, np.zeros_like(distances)
    if both_ways:
        count //= 2
        first = np.where(distances > 0, count, 0)
        ago = np.abs(distances)
    else:
        ago = np.maximum(-distances, 0)
    exact = count // 2
    share = np.log(np.maximum(ago, 1).astype(np.float32) / np.float32(exact)) / np.float32(
        np.log(config.most_distance / exact)
    )
    far = exact + (share * (count - exact)).astype(np.int64)
    return np.asarray(first + np.where(ago < exact, ago, np.minimum(far, count - 1)))

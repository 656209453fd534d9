"""Weights of 4 bits: each block of 32 has a scale, and each weight is the nearest of 16 steps.

A weight is (q - 8) · scale. The scale takes the entry of largest magnitude to q = 0, so that it is
met exactly, whichever sign it has.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.quantised import BLOCK, per_word

PER_WORD = per_word(4)
ROWS_AT_ONCE = 4_096
"""Rows that are quantised at once: they take a few times their memory."""


@dataclass(frozen=True, slots=True)
class Quantised:
    """`words`: int32[rows, columns / 8], `scales`: float32[rows, columns / 32]."""

    words: NDArray[np.int32]
    scales: NDArray[np.float32]

    @staticmethod
    def stacked(*parts: "Quantised") -> "Quantised":
        """One below the other."""
        return Quantised(
            np.concatenate([each.words for each in parts]),
            np.concatenate([each.scales for each in parts]),
        )

    def rows(self, start: int, stop: int) -> "Quantised":
        return Quantised(self.words[start:stop], self.scales[start:stop])

    @property
    def dense(self) -> NDArray[np.float32]:
        """float32[rows, columns]"""
        shifts = np.arange(PER_WORD, dtype=np.uint32) * np.uint32(4)
        steps = (self.words.view(np.uint32)[:, :, None] >> shifts) & np.uint32(15)
        entries = steps.reshape(len(self.words), -1).astype(np.float32) - np.float32(8)
        return entries * np.repeat(self.scales, BLOCK, axis=1)


def quantised(entries: NDArray[np.float32]) -> Quantised:
    """`entries`: float32[rows, columns], columns a multiple of 32."""
    parts = range(0, len(entries), ROWS_AT_ONCE)
    return Quantised.stacked(*(_quantised(entries[at : at + ROWS_AT_ONCE]) for at in parts))


def _quantised(entries: NDArray[np.float32]) -> Quantised:
    blocks = np.asarray(entries, np.float32).reshape(len(entries), -1, BLOCK)
    places = np.abs(blocks).argmax(axis=2)[..., None]
    scales = np.take_along_axis(blocks, places, axis=2)[..., 0] / np.float32(-8)
    steps = np.divide(
        blocks, scales[..., None], out=np.zeros_like(blocks), where=scales[..., None] != 0
    )
    nibbles = (
        np.clip(np.rint(steps) + 8, 0, 15).astype(np.uint32).reshape(len(entries), -1, PER_WORD)
    )
    shifts = np.arange(PER_WORD, dtype=np.uint32) * np.uint32(4)
    words = np.bitwise_or.reduce(nibbles << shifts, axis=2)
    return Quantised(words.view(np.int32), scales.astype(np.float32))

"""Weights of 4 bits: each block of 32 has a scale, and each weight is the nearest of 16 steps.

A weight is (q - 8) · scale, or (q - zero) · scale in files that have zero points. The scale that is
chosen here takes the entry of largest magnitude to q = 0, so that it is met exactly, whichever sign
it has.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.quantised import BLOCK, per_word

PER_WORD = per_word(4)
_SHIFTS = np.arange(PER_WORD, dtype=np.uint32) * np.uint32(4)
MIDDLE = 8
"""The zero point of symmetric weights."""
ROWS_AT_ONCE = 4_096
"""Rows that are quantised at once: they take a few times their memory."""


@dataclass(frozen=True, slots=True)
class Quantised:
    """`words`: int32[rows, columns / 8], `scales`: float32[rows, columns / 32], `zeros`: the zero
    point of each scale, int32[rows, ⌈columns / 256⌉]; None where all are 8."""

    words: NDArray[np.int32]
    scales: NDArray[np.float32]
    zeros: NDArray[np.int32] | None = None

    @staticmethod
    def stacked(*parts: "Quantised") -> "Quantised":
        """One below the other."""
        told = any(each.zeros is not None for each in parts)
        return Quantised(
            np.concatenate([each.words for each in parts]),
            np.concatenate([each.scales for each in parts]),
            np.concatenate([each.told_zeros for each in parts]) if told else None,
        )

    @property
    def told_zeros(self) -> NDArray[np.int32]:
        """The zero points, also where all are 8."""
        if self.zeros is not None:
            return self.zeros
        return packed_steps(np.full(self.scales.shape, MIDDLE, np.uint32))

    def rows(self, start: int, stop: int) -> "Quantised":
        zeros = None if self.zeros is None else self.zeros[start:stop]
        return Quantised(self.words[start:stop], self.scales[start:stop], zeros)

    @property
    def dense(self) -> NDArray[np.float32]:
        """float32[rows, columns]"""
        zeros = _steps(self.told_zeros)[:, : self.scales.shape[1]]
        entries = _steps(self.words) - np.repeat(zeros, BLOCK, axis=1)
        return entries * np.repeat(self.scales, BLOCK, axis=1)


def packed_steps(steps: NDArray[np.uint32]) -> NDArray[np.int32]:
    """int32[rows, ⌈columns / 8⌉] of steps[rows, columns], the first in the lowest bits."""
    rows, columns = steps.shape
    whole = np.pad(steps, ((0, 0), (0, -columns % PER_WORD))).reshape(rows, -1, PER_WORD)
    return np.asarray(np.bitwise_or.reduce(whole << _SHIFTS, axis=2).view(np.int32))


def _steps(words: NDArray[np.int32]) -> NDArray[np.float32]:
    steps = (words.view(np.uint32)[:, :, None] >> _SHIFTS) & np.uint32(15)
    return steps.reshape(len(words), -1).astype(np.float32)


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
    steps = np.clip(np.rint(steps) + MIDDLE, 0, 15).astype(np.uint32)
    return Quantised(packed_steps(steps.reshape(len(entries), -1)), scales.astype(np.float32))

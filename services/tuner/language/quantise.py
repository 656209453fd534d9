"""Weights of 4 or 8 bits: a block has a scale, and a weight is the nearest of 16 or 256 steps.

A weight is (q - middle) · scale, or (q - zero) · scale in files that have zero points. The scale
that is chosen here takes the entry of largest magnitude to q = 0, so that it is met exactly,
whichever sign it has.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.quantised import USUAL_FORM, WORD_BITS, Form

ROWS_AT_ONCE = 4_096
"""Rows that are quantised at once: they take a few times their memory."""


@dataclass(frozen=True, slots=True)
class Quantised:
    """`words`: int32[rows, columns · width / 32], `scales`: float32[rows, blocks], `zeros`: the
    zero point of each scale, int32[rows, words of blocks]; None where all are the middle."""

    words: NDArray[np.int32]
    scales: NDArray[np.float32]
    zeros: NDArray[np.int32] | None = None
    width: int = USUAL_FORM.width
    block: int = USUAL_FORM.block

    @property
    def form(self) -> Form:
        return Form(width=self.width, block=self.block, zeros=self.zeros is not None)

    @property
    def columns(self) -> int:
        return int(self.words.shape[1]) * self.form.per_word

    @staticmethod
    def stacked(*parts: "Quantised") -> "Quantised":
        """One below the other, in a form that has all of them exactly."""
        width = max(each.width for each in parts)
        block = min(each.block for each in parts)
        parts = tuple(each.of_blocks(block).of_width(width) for each in parts)
        told = any(each.zeros is not None for each in parts)
        return Quantised(
            np.concatenate([each.words for each in parts]),
            np.concatenate([each.scales for each in parts]),
            np.concatenate([each.told_zeros for each in parts]) if told else None,
            width,
            block,
        )

    def of_blocks(self, block: int) -> "Quantised":
        """Returns these weights in smaller blocks."""
        if block == self.block:
            return self
        blocks = -(-self.columns // block)

        def repeated(entries: NDArray[np.generic]) -> NDArray[np.generic]:
            return np.repeat(entries, self.block // block, axis=1)[:, :blocks]

        zeros = None
        if self.zeros is not None:
            zeros = packed_steps(repeated(self._zero_steps().astype(np.uint32)), self.width)
        scales = np.ascontiguousarray(repeated(self.scales), np.float32)
        return replace(self, scales=scales, zeros=zeros, block=block)

    def of_width(self, width: int) -> "Quantised":
        """Returns these weights in more bits, with zero points."""
        if width == self.width:
            return self
        words = packed_steps(_steps(self.words, self.width).astype(np.uint32), width)
        zeros = packed_steps(self._zero_steps().astype(np.uint32), width)
        return replace(self, words=words, zeros=zeros, width=width)

    @property
    def told_zeros(self) -> NDArray[np.int32]:
        """The zero points, also where all are the middle."""
        if self.zeros is not None:
            return self.zeros
        return packed_steps(np.full(self.scales.shape, self.form.middle, np.uint32), self.width)

    def rows(self, start: int, stop: int) -> "Quantised":
        zeros = None if self.zeros is None else self.zeros[start:stop]
        return replace(
            self, words=self.words[start:stop], scales=self.scales[start:stop], zeros=zeros
        )

    @property
    def dense(self) -> NDArray[np.float32]:
        """float32[rows, columns]"""

        def spread(entries: NDArray[np.float32]) -> NDArray[np.float32]:
            return np.repeat(entries, self.block, axis=1)[:, : self.columns]

        return (_steps(self.words, self.width) - spread(self._zero_steps())) * spread(self.scales)

    def _zero_steps(self) -> NDArray[np.float32]:
        """float32[rows, blocks]"""
        return _steps(self.told_zeros, self.width)[:, : self.scales.shape[1]]


def packed_steps(steps: NDArray[np.generic], width: int = USUAL_FORM.width) -> NDArray[np.int32]:
    """int32[rows, words] of steps[rows, columns] of so many bits, the first in the lowest bits."""
    rows, columns = steps.shape
    count = WORD_BITS // width
    whole = np.pad(steps.astype(np.uint32), ((0, 0), (0, -columns % count)))
    shifted = whole.reshape(rows, -1, count) << _shifts(width)
    return np.asarray(np.bitwise_or.reduce(shifted, axis=2).view(np.int32))


def _steps(words: NDArray[np.int32], width: int) -> NDArray[np.float32]:
    steps = (words.view(np.uint32)[:, :, None] >> _shifts(width)) & np.uint32((1 << width) - 1)
    return steps.reshape(len(words), -1).astype(np.float32)


def _shifts(width: int) -> NDArray[np.uint32]:
    return np.arange(0, WORD_BITS, width, dtype=np.uint32)


def quantised(entries: NDArray[np.float32], form: Form = USUAL_FORM) -> Quantised:
    """`entries`: float32[rows, columns], columns a multiple of 32. `form` has no zero points."""
    parts = range(0, len(entries), ROWS_AT_ONCE)
    return Quantised.stacked(*(_quantised(entries[at : at + ROWS_AT_ONCE], form) for at in parts))


def _quantised(entries: NDArray[np.float32], form: Form) -> Quantised:
    rows, columns = entries.shape
    whole = np.pad(np.asarray(entries, np.float32), ((0, 0), (0, -columns % form.block)))
    blocks = whole.reshape(rows, -1, form.block)
    places = np.abs(blocks).argmax(axis=2)[..., None]
    scales = np.take_along_axis(blocks, places, axis=2)[..., 0] / np.float32(-form.middle)
    steps = np.divide(
        blocks, scales[..., None], out=np.zeros_like(blocks), where=scales[..., None] != 0
    )
    steps = np.clip(np.rint(steps) + form.middle, 0, 2 * form.middle - 1)
    words = packed_steps(steps.reshape(rows, -1)[:, :columns], form.width)
    return Quantised(words, scales.astype(np.float32), None, form.width, form.block)

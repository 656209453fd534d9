"""Matrices as ONNX files of language models have them, in blocks of 32 with a scale each.

Weights of 4 bits are taken over bit by bit, those of 16 and 32 bits are quantised.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.quantised import BLOCK
from kernelzoo.errors import UnsupportedModel
from services.tuner.language.quantise import (
    MIDDLE,
    ROWS_AT_ONCE,
    Quantised,
    packed_steps,
    quantised,
)

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedMatrix:
    """As MatMulNBits and GatherBlockQuantized have it. `packed`: uint8[rows, …], of each row two
    weights a byte, the lower bits first. `scales`: of each row one for `block` columns. `zeros`:
    uint8, the zero point of each scale; None where all are 8."""

    packed: Array
    scales: Array
    zeros: Array | None
    rows: int
    columns: int
    block: int

    def part(self, start: int, stop: int) -> "PackedMatrix":
        rows = slice(start, stop)
        zeros = None if self.zeros is None else self.zeros[rows]
        return replace(
            self, packed=self.packed[rows], scales=self.scales[rows], zeros=zeros, rows=stop - start
        )

    def quantised(self) -> Quantised:
        steps = np.ascontiguousarray(self.packed[:, : self.columns // 2])
        scales = self._of_blocks(self.scales.astype(np.float32))
        zeros = None
        if self.zeros is not None:
            zeros = packed_steps(self._of_blocks(self.zeros.astype(np.uint32)))
        return Quantised(steps.view("<i4"), scales, zeros)

    def _of_blocks(self, entries: Array) -> Array:
        """[rows, columns / 32] of what has one entry for `block` columns."""
        repeated = np.repeat(entries, min(self.block, self.columns) // BLOCK, axis=1)
        return np.ascontiguousarray(repeated[:, : self.columns // BLOCK])


def packed_matrix(
    what: str, tensors: tuple[Array, Array, Array | None], shape: tuple[int, int], block: int
) -> PackedMatrix:
    """`tensors`: weights, scales and zero points. `what` begins the sentence of a refusal."""
    packed, scales, zeros = tensors
    rows, columns = shape
    if block % BLOCK or columns % BLOCK:
        raise UnsupportedModel(
            f"{what} has {columns} columns in blocks of {block}; both must be multiples of "
            f"{BLOCK}: quantise it with block_size {BLOCK}"
        )
    blocks = -(-columns // block)
    enough = packed.size * 2 >= rows * columns and scales.size == rows * blocks
    if packed.dtype != np.uint8 or not enough:
        raise UnsupportedModel(
            f"{what} has not the weights and scales of {rows} rows of {columns} columns; quantise "
            "it with onnxruntime 1.22 or later"
        )
    return PackedMatrix(
        packed=packed.reshape(rows, -1),
        scales=scales.reshape(rows, blocks),
        zeros=None if zeros is None else _zero_points(what, zeros, rows, blocks),
        rows=rows,
        columns=columns,
        block=block,
    )


def _zero_points(what: str, zeros: Array, rows: int, blocks: int) -> Array | None:
    """uint8[rows, blocks] of two a byte, the lower bits first; None where all are 8. Those of each
    row begin with a byte of their own."""
    of_bits = zeros.dtype == np.uint8
    if of_bits:
        zeros = np.stack([zeros & 15, zeros >> 4], axis=-1)
    zeros = zeros.reshape(rows, -1)[:, :blocks].reshape(rows, blocks)
    if (zeros == MIDDLE).all():
        return None
    if not of_bits:
        raise UnsupportedModel(
            f"{what} has zero points of {zeros.dtype}; quantise it with zero points of 4 bits"
        )
    return zeros


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMatrix:
    """`entries`: of 16 or 32 bits, [rows, columns], perhaps a view."""

    entries: Array

    @property
    def rows(self) -> int:
        return int(self.entries.shape[0])

    @property
    def columns(self) -> int:
        return int(self.entries.shape[1])

    def part(self, start: int, stop: int) -> "DenseMatrix":
        return DenseMatrix(entries=self.entries[start:stop])

    def quantised(self) -> Quantised:
        parts = range(0, self.rows, ROWS_AT_ONCE)
        return Quantised.stacked(
            *(quantised(self.entries[at : at + ROWS_AT_ONCE].astype(np.float32)) for at in parts)
        )


Matrix = PackedMatrix | DenseMatrix


def is_same(embedding: Matrix, head: Matrix) -> bool:
    """Whether the head is the embedding, perhaps quantised."""
    if (embedding.rows, embedding.columns) != (head.rows, head.columns):
        return False
    for start in range(0, head.rows, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, head.rows)
        if not _near(embedding.part(start, stop), head.part(start, stop)):
            return False
    return True


def _near(embedding: Matrix, head: Matrix) -> bool:
    match embedding, head:
        case PackedMatrix(), PackedMatrix():
            left, right = embedding.quantised(), head.quantised()
            return (
                np.array_equal(left.words, right.words)
                and np.array_equal(left.scales, right.scales)
                and np.array_equal(left.told_zeros, right.told_zeros)
            )
        case DenseMatrix(), DenseMatrix():
            return np.array_equal(embedding.entries, head.entries)
        case DenseMatrix(entries=entries), PackedMatrix():
            made = head.quantised()
            # The largest entry of a block has no step for its opposite.
            step = np.repeat(np.abs(made.scales), BLOCK, axis=1) * np.float32(1.01)
            return bool((np.abs(made.dense - entries.astype(np.float32)) <= step).all())
    return False

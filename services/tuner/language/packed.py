"""Matrices as ONNX files of language models have them, in blocks with a scale each.

Weights of 4 and 8 bits are taken over bit by bit, those of 16 and 32 bits are quantised.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.quantised import BLOCKS, ROW_STEP, USUAL_FORM, WIDTHS, Form
from kernelzoo.errors import UnsupportedModel
from services.tuner.language.quantise import ROWS_AT_ONCE, Quantised, packed_steps, quantised

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedMatrix:
    """A matrix as MatMulNBits and GatherBlockQuantized have it. `packed`: uint8[rows, …], of each
    row two weights a byte, the lower bits first, or one of 8 bits. `scales`: of each row one for
    `block` columns. `zeros`: uint8, the zero point of each scale; None where all are the middle."""

    packed: Array
    scales: Array
    zeros: Array | None
    rows: int
    columns: int
    width: int
    block: int

    def part(self, start: int, stop: int) -> "PackedMatrix":
        rows = slice(start, stop)
        zeros = None if self.zeros is None else self.zeros[rows]
        return replace(
            self, packed=self.packed[rows], scales=self.scales[rows], zeros=zeros, rows=stop - start
        )

    def quantised(self, _: Form = USUAL_FORM) -> Quantised:
        """Keeps the matrix in its own form, but for blocks that are larger than any known."""
        steps = np.ascontiguousarray(self.packed[:, : self.columns * self.width // 8])
        zeros = None if self.zeros is None else packed_steps(self.zeros, self.width)
        scales = np.ascontiguousarray(self.scales, np.float32)
        made = Quantised(steps.view("<i4"), scales, zeros, self.width, self.block)
        return made.of_blocks(min(self.block, max(BLOCKS)))


def packed_matrix(
    what: str,
    tensors: tuple[Array, Array, Array | None],
    shape: tuple[int, int],
    *,
    width: int = USUAL_FORM.width,
    block: int = USUAL_FORM.block,
) -> PackedMatrix:
    """`tensors`: weights, scales and zero points. `what` begins the sentence of a refusal."""
    packed, scales, zeros = tensors
    rows, columns = shape
    if width not in WIDTHS:
        raise UnsupportedModel(f"{what} has weights of {width} bits; export them with 4 or 8")
    if block < min(BLOCKS) or block & (block - 1) or columns % ROW_STEP:
        raise UnsupportedModel(
            f"{what} has {columns} columns in blocks of {block}; columns must be a multiple of "
            f"{ROW_STEP}, and blocks a power of two from {min(BLOCKS)} on"
        )
    blocks = -(-columns // block)
    enough = packed.size * 8 >= rows * columns * width and scales.size == rows * blocks
    if packed.dtype != np.uint8 or not enough:
        raise UnsupportedModel(
            f"{what} has not the weights and scales of {rows} rows of {columns} columns; quantise "
            "it with onnxruntime 1.22 or later"
        )
    return PackedMatrix(
        packed=packed.reshape(rows, -1),
        scales=scales.reshape(rows, blocks),
        zeros=None if zeros is None else _zero_points(what, zeros, (rows, blocks), width),
        rows=rows,
        columns=columns,
        width=width,
        block=block,
    )


def _zero_points(what: str, zeros: Array, shape: tuple[int, int], width: int) -> Array | None:
    """uint8[rows, blocks], the lower bits of a byte first; None where all are the middle. Those of
    each row begin with a byte of their own."""
    rows, blocks = shape
    of_bits = zeros.dtype == np.uint8
    if of_bits and width < 8:
        zeros = np.stack([zeros & 15, zeros >> 4], axis=-1)
    zeros = zeros.reshape(rows, -1)[:, :blocks].reshape(rows, blocks)
    if (zeros == 1 << (width - 1)).all():
        return None
    if not of_bits:
        raise UnsupportedModel(
            f"{what} has zero points of {zeros.dtype}; quantise it with zero points of as many "
            "bits as its weights"
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

    def quantised(self, form: Form = USUAL_FORM) -> Quantised:
        parts = range(0, self.rows, ROWS_AT_ONCE)
        return Quantised.stacked(
            *(
                quantised(self.entries[at : at + ROWS_AT_ONCE].astype(np.float32), form)
                for at in parts
            )
        )


Matrix = PackedMatrix | DenseMatrix


def is_same(embedding: Matrix, head: Matrix) -> bool:
    """Returns whether the head is the embedding, perhaps quantised."""
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
                left.form == right.form
                and np.array_equal(left.words, right.words)
                and np.array_equal(left.scales, right.scales)
                and np.array_equal(left.told_zeros, right.told_zeros)
            )
        case DenseMatrix(), DenseMatrix():
            return np.array_equal(embedding.entries, head.entries)
        case DenseMatrix(entries=entries), PackedMatrix():
            made = head.quantised()
            # The largest entry of a block has no step for its opposite.
            step = np.repeat(np.abs(made.scales), made.block, axis=1) * np.float32(1.01)
            step = step[:, : made.columns]
            return bool((np.abs(made.dense - entries.astype(np.float32)) <= step).all())
    return False

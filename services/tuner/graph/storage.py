"""Entries of weights in fewer bits, as `kernelzoo.domain.weight_storage` says, and back."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.plan import Plan, Weight
from kernelzoo.domain.weight_storage import BLOCK_ENTRIES, StorageType
from kernelzoo.errors import InvalidInput
from services.tuner.graph.edit import Entries

INT8_STEPS = 127
"""To either side of zero. With fewer an entry has an int8 as well, and that deflates to less."""
INT4_STEPS = 8
"""To the side of zero where a block's largest entry is; one fewer to the other."""
LEAST_ENTRIES = 1024
"""The bytes of smaller weights do not matter."""
ENTRIES_A_SCALE = 16
"""Channels of int8 have as many or more."""

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StorageForm:
    """`steps` are those of int8."""

    type: StorageType
    steps: int = INT8_STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntries:
    """`body` is what the file has, `entries` what a page makes of it."""

    type: StorageType
    body: Bytes
    entries: Entries
    axis: int | None = None

    @property
    def deflated_bytes(self) -> float:
        """About what deflating leaves: the entropy of the bytes."""
        shares = np.bincount(self.body, minlength=256) / max(self.body.size, 1)
        shares = shares[shares > 0]
        return float(-(shares * np.log2(shares)).sum() / 8 * self.body.size)


def stored_entries(entries: Entries, form: StorageForm) -> StoredEntries:
    """Plain where a weight is small, is no matrix, or has entries that the type cannot hold."""
    made = None
    if entries.dtype == np.float32 and entries.ndim > 1 and entries.size >= LEAST_ENTRIES:
        made = _stored(np.asarray(entries, np.float32), form)
    return made or StoredEntries(
        type=StorageType.PLAIN, body=bytes_of(entries), entries=np.ascontiguousarray(entries)
    )


def relative_error(entries: Entries, made: Entries) -> float:
    """Root of the mean square of the difference, over that of the entries."""
    size = float(np.linalg.norm(entries.ravel()))
    return float(np.linalg.norm((made - entries).ravel())) / size if size else 0.0


def bytes_of(entries: NDArray[np.generic]) -> Bytes:
    return np.ascontiguousarray(entries).reshape(-1).view(np.uint8)


def plain_file(plan: Plan, file: bytes) -> bytes:
    """The weights of a plan plain, each at its `offset`. Raises InvalidInput for bytes that are not
    those of its weights file."""
    if not plan.has_stored_weights:
        return file
    inflated = np.frombuffer(b"".join(_inflated(plan, file)), np.uint8)
    made = np.zeros(plan.memory.weights, np.uint8)
    for weight in plan.weights:
        entries = bytes_of(_unpacked(weight, inflated))
        made[weight.offset : weight.offset + weight.bytes] = entries
    return made.tobytes()


def _stored(entries: Floats, form: StorageForm) -> StoredEntries | None:
    match form.type:
        case StorageType.PLAIN:
            return None
        case StorageType.F16:
            return _float16(entries)
        case StorageType.INT8:
            return _int8(entries, form.steps)
        case StorageType.INT4:
            return _int4(entries)


def _float16(entries: Floats) -> StoredEntries | None:
    if np.abs(entries).max() > np.finfo(np.float16).max:
        return None
    codes = entries.astype(np.float16)
    return StoredEntries(
        type=StorageType.F16, body=bytes_of(codes), entries=codes.astype(np.float32)
    )


def _int8(entries: Floats, steps: int) -> StoredEntries | None:
    """By the axis whose channels differ most: that of the least error."""
    axes = [axis for axis, extent in enumerate(entries.shape) if _may_scale(entries, extent)]
    made = [_int8_by(entries, axis, steps) for axis in axes]
    return min(made, key=lambda each: relative_error(entries, each.entries), default=None)


def _may_scale(entries: Floats, extent: int) -> bool:
    return extent * ENTRIES_A_SCALE <= entries.size


def _int8_by(entries: Floats, axis: int, steps: int) -> StoredEntries:
    others = tuple(each for each in range(entries.ndim) if each != axis)
    largest = np.abs(entries).max(others)
    scales = np.where(largest > 0, largest / np.float32(steps), 1).astype(np.float32)
    multiples = np.rint(entries / _along(scales, entries.ndim, axis))
    codes = np.clip(multiples, -steps, steps).astype(np.int8)
    return StoredEntries(
        type=StorageType.INT8,
        axis=axis,
        body=np.concatenate([bytes_of(scales), bytes_of(codes)]),
        entries=_of_int8(codes, scales, axis),
    )


def _int4(entries: Floats) -> StoredEntries | None:
    flat = entries.reshape(-1)
    padded = np.concatenate([flat, np.zeros(-flat.size % BLOCK_ENTRIES, np.float32)])
    blocks = padded.reshape(-1, BLOCK_ENTRIES)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(1, keepdims=True), 1)
    scales = (largest / -INT4_STEPS).astype(np.float16)
    if not np.isfinite(scales).all():
        return None
    steps = np.where(scales != 0, scales, 1).astype(np.float32)
    codes = np.clip(np.rint(blocks / steps), -INT4_STEPS, INT4_STEPS - 1) + INT4_STEPS
    lower, upper = codes.astype(np.uint8).reshape(-1)[: flat.size + flat.size % 2].reshape(-1, 2).T
    body = np.asarray(lower | (upper << 4), np.uint8)
    return StoredEntries(
        type=StorageType.INT4,
        body=np.concatenate([bytes_of(scales), body]),
        entries=_of_int4(body, scales, flat.size).reshape(entries.shape),
    )


def _inflated(plan: Plan, file: bytes) -> Iterator[bytes]:
    start = 0
    for chunk in plan.chunks:
        piece = file[start : start + chunk.bytes]
        try:
            yield piece if chunk.inflated is None else zlib.decompress(piece)
        except zlib.error as error:
            raise InvalidInput(f"the weights are not those of the plan: {error}") from error
        start += chunk.bytes


def _unpacked(weight: Weight, inflated: Bytes) -> NDArray[np.generic]:
    storage, entries = weight.storage, weight.bytes // 4
    if storage is None:
        raise InvalidInput(f"weight {weight.name} is not stored as the others are")
    body = inflated[storage.offset : storage.offset + storage.bytes].copy()
    match storage.type:
        case StorageType.PLAIN:
            return body
        case StorageType.F16:
            return body.view(np.float16).astype(np.float32)
        case StorageType.INT8:
            axis = storage.axis or 0
            scales, codes = body[:-entries].view(np.float32), body[-entries:].view(np.int8)
            return _of_int8(codes.reshape(weight.shape), scales, axis)
        case StorageType.INT4:
            blocks = -(-entries // BLOCK_ENTRIES)
            return _of_int4(body[2 * blocks :], body[: 2 * blocks].view(np.float16), entries)


def _of_int8(codes: NDArray[np.int8], scales: Floats, axis: int) -> Floats:
    return np.asarray(codes.astype(np.float32) * _along(scales, codes.ndim, axis), np.float32)


def _along(scales: Floats, rank: int, axis: int) -> Floats:
    return scales.reshape([-1 if each == axis else 1 for each in range(rank)])


def _of_int4(body: Bytes, scales: NDArray[np.generic], entries: int) -> Floats:
    steps = np.stack([body & 15, body >> 4], 1).reshape(-1)[:entries].astype(np.float32)
    scale = np.repeat(scales.astype(np.float32), BLOCK_ENTRIES).reshape(-1)[:entries]
    return np.asarray((steps - INT4_STEPS) * scale, np.float32)

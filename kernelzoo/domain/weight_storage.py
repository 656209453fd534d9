"""Describes how the entries of a weight lie in the file where they take fewer bits than in memory.

    plain   as in memory
    f16     each entry rounded to a float16
    int8    for each channel, a step along `axis`, an f32 scale; behind the scales an int8 for each
            entry, which is that times the scale of its channel
    int4    for each block of 32 entries, in their order, a float16 scale; behind the scales two
            entries a byte, the first in the lower half, each 8 + an integer from -8 to 7, which is
            to be multiplied by the scale of its block

All of it is little-endian, and entries stand in row-major order.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import InvalidInput

BLOCK_ENTRIES = 32


class StorageType(StrEnum):
    PLAIN = "plain"
    F16 = "f16"
    INT8 = "int8"
    INT4 = "int4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """`bytes` of the weights file from `offset` on, after its chunks were inflated. `axis` is that
    of int8's channels."""

    type: StorageType
    offset: int
    bytes: int
    axis: int | None = None


def stored_bytes(type_: StorageType, dtype: DType, shape: tuple[int, ...], axis: int | None) -> int:
    """The bytes that entries of a shape take as a type; of other dtypes than f32 they are plain."""
    entries = prod(shape)
    match type_:
        case StorageType.PLAIN:
            return dtype.size_bytes * entries
        case StorageType.F16:
            return 2 * entries
        case StorageType.INT8:
            return 4 * shape[axis or 0] + entries
        case StorageType.INT4:
            return 2 * -(-entries // BLOCK_ENTRIES) + -(-entries // 2)


def refuse_storage(what: str, storage: Storage, dtype: DType, shape: tuple[int, ...]) -> None:
    """Raises InvalidInput for a storage that cannot be that of such a weight."""
    has_axis = storage.axis is not None
    if has_axis != (storage.type is StorageType.INT8):
        raise InvalidInput(f"{what} has an axis if it is stored as int8, and else none")
    if storage.axis is not None and not 0 <= storage.axis < len(shape):
        raise InvalidInput(f"{what} is stored by axis {storage.axis}; it has {len(shape)}")
    if storage.type is not StorageType.PLAIN and dtype is not DType.F32:
        raise InvalidInput(f"{what} is {dtype}; only f32 is stored as {storage.type}")
    needed = stored_bytes(storage.type, dtype, shape, storage.axis)
    if storage.bytes != needed:
        raise InvalidInput(
            f"{what} is stored in {storage.bytes} bytes; {storage.type} has {needed}"
        )

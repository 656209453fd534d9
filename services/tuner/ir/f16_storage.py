"""The two ways in which a kernel reads and writes tensors of f16."""

from enum import StrEnum


class F16Storage(StrEnum):
    """Tensors of f16 are kept as pairs in words, which every adapter unpacks (`unpack2x16float`),
    or as the type f16 of adapters that have it. Both compute in f32."""

    PACKED = "packed"
    NATIVE = "native"

"""The element types of tensors and buffers."""

from enum import StrEnum


class DType(StrEnum):
    """F16 and I8 are storage types: kernels compute in F32 and I32, and round what they store.

    I64 is what models keep their indices in. Kernels read its low half, so that each number must
    fit into 32 bits; no tensor of a workload has it.
    """

    F32 = "f32"
    F16 = "f16"
    I32 = "i32"
    I8 = "i8"
    I64 = "i64"

    @property
    def size_bytes(self) -> int:
        return _SIZE_BYTES[self]

    @property
    def compute_dtype(self) -> "DType":
        """The dtype of a value that was loaded from a buffer of this one: F32 or I32."""
        return DType.F32 if self in (DType.F32, DType.F16) else DType.I32

    @property
    def value_range(self) -> tuple[int, int]:
        """Smallest and largest number that a load from a buffer of this integer dtype gives."""
        return (-128, 127) if self is DType.I8 else (-(1 << 31), (1 << 31) - 1)


_SIZE_BYTES = {DType.F32: 4, DType.F16: 2, DType.I32: 4, DType.I8: 1, DType.I64: 8}

"""The numbers that the products of a plan multiply. Plans of one model differ by it, and a page is
given the one that is fastest on its class."""

from collections.abc import Iterable
from enum import StrEnum

from kernelzoo.domain.operators.byte_layers import BYTES_OF_PRODUCT, BYTES_OF_WINDOWS
from kernelzoo.domain.operators.integer_products import INTEGER_PRODUCTS


class Precision(StrEnum):
    """`F32` is also that of plans whose values are f16 on WebGPU."""

    F32 = "f32"
    INT8 = "int8"

    @classmethod
    def of_kernels(cls, keys: Iterable[str]) -> "Precision":
        """The precision of a plan that calls these workloads: int8 where one multiplies bytes."""
        return cls.INT8 if any(map(_multiplies_bytes, keys)) else cls.F32


_OF_BYTES = {
    *(each.name for each in INTEGER_PRODUCTS),
    BYTES_OF_PRODUCT,
    BYTES_OF_WINDOWS,
}


def _multiplies_bytes(key: str) -> bool:
    operator, _, _ = key.partition(":")
    return operator.partition("+")[0] in _OF_BYTES

"""A workload: one operator with concrete extents and dtype, named by a canonical text key.

`matmul:f32:m384k768n768` reads operator, dtype, then one extent per axis in the operator's order.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Self

from kernelzoo.errors import InvalidInput

MAX_EXTENT = 65_536
MAX_TENSOR_BYTES = 1 << 28
MAX_FLOPS = 1 << 40


class DType(StrEnum):
    F32 = "f32"

    @property
    def size_bytes(self) -> int:
        return {DType.F32: 4}[self]


class Role(StrEnum):
    INPUT = "input"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One parameter of a workload, row-major and dense."""

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.elements * self.dtype.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A contraction: every output entry sums products of the inputs over the axes it lacks."""

    name: str
    axes: tuple[str, ...]
    inputs: tuple[tuple[str, tuple[str, ...]], ...]
    output: tuple[str, tuple[str, ...]]

    @property
    def reduction(self) -> tuple[str, ...]:
        return tuple(axis for axis in self.axes if axis not in self.output[1])


OPERATORS = {
    operator.name: operator
    for operator in (
        Operator(
            name="matmul",
            axes=("m", "k", "n"),
            inputs=(("a", ("m", "k")), ("b", ("k", "n"))),
            output=("c", ("m", "n")),
        ),
        Operator(
            name="batch_matmul",
            axes=("b", "m", "k", "n"),
            inputs=(("a", ("b", "m", "k")), ("b", ("b", "k", "n"))),
            output=("c", ("b", "m", "n")),
        ),
    )
}

_KEY = re.compile(
    r"(?P<operator>[a-z0-9_]{1,32}):(?P<dtype>[a-z0-9]{1,8}):(?P<extents>[a-z0-9]{1,64})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`extents` are in the order of the operator's axes. Build it with `of` or `parse`."""

    operator: Operator
    dtype: DType
    extents: tuple[int, ...]

    @classmethod
    def of(cls, operator: str, extents: tuple[int, ...], dtype: str = DType.F32) -> Self:
        """Raises InvalidInput for an unknown operator or dtype and for extents out of range."""
        known = OPERATORS.get(operator)
        if known is None:
            raise InvalidInput(
                f"operator {operator!r} is unknown; use one of {', '.join(OPERATORS)}"
            )
        if dtype not in tuple(DType):
            raise InvalidInput(f"dtype {dtype!r} is unknown; use one of {', '.join(DType)}")
        if len(extents) != len(known.axes):
            raise InvalidInput(
                f"{operator} takes {len(known.axes)} extents ({'x'.join(known.axes)}), "
                f"not {len(extents)}"
            )
        for axis, extent in zip(known.axes, extents, strict=True):
            if not 1 <= extent <= MAX_EXTENT:
                raise InvalidInput(
                    f"extent {axis}={extent} of {operator} is out of range; "
                    f"it must be from 1 to {MAX_EXTENT}"
                )
        workload = cls(operator=known, dtype=DType(dtype), extents=extents)
        workload._refuse_oversize()
        return workload

    @classmethod
    def parse(cls, key: str) -> Self:
        """Reads a canonical key. Raises InvalidInput with the grammar when it does not match."""
        match = _KEY.fullmatch(key)
        if match is None:
            raise InvalidInput(
                f"workload key {key[:80]!r} is malformed; "
                "write operator:dtype:extents, as in matmul:f32:m384k768n768"
            )
        pairs = re.findall(r"([a-z])([0-9]{1,9})", match["extents"])
        workload = cls.of(match["operator"], tuple(int(n) for _, n in pairs), match["dtype"])
        if workload.key != key:
            raise InvalidInput(
                f"workload key {key[:80]!r} is not canonical; did you mean {workload.key!r}?"
            )
        return workload

    def _refuse_oversize(self) -> None:
        for tensor in self.tensors:
            if tensor.size_bytes > MAX_TENSOR_BYTES:
                raise InvalidInput(
                    f"tensor {tensor.name} of {self.key} has {tensor.size_bytes} bytes; "
                    f"at most {MAX_TENSOR_BYTES} are allowed"
                )
        if self.flops > MAX_FLOPS:
            raise InvalidInput(
                f"{self.key} takes {self.flops} FLOPs a call; at most {MAX_FLOPS} are allowed"
            )

    @property
    def key(self) -> str:
        dims = "".join(f"{a}{n}" for a, n in zip(self.operator.axes, self.extents, strict=True))
        return f"{self.operator.name}:{self.dtype}:{dims}"

    @property
    def extent(self) -> dict[str, int]:
        """Extent by axis name."""
        return dict(zip(self.operator.axes, self.extents, strict=True))

    @property
    def flops(self) -> int:
        """Floating-point operations of one call, a multiply-add counted as two."""
        return 2 * prod(self.extents)

    @property
    def reduction_length(self) -> int:
        """Products summed into one output entry."""
        return prod(self.extent[axis] for axis in self.operator.reduction)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs in order, then the output: the order of a kernel's pointer parameters."""
        extent = self.extent
        described = [*((n, axes, Role.INPUT) for n, axes in self.operator.inputs)]
        described.append((*self.operator.output, Role.OUTPUT))
        return tuple(
            Tensor(name=n, role=role, dtype=self.dtype, shape=tuple(extent[a] for a in axes))
            for n, axes, role in described
        )

    @property
    def output(self) -> Tensor:
        return self.tensors[-1]

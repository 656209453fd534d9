"""Variables and buffers of a TVM program as those of the loop IR, and accesses to buffers.

A program may be stated on shapes that are rounded up. An access is flattened by the true shape, and
guarded where an index may leave it.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine, Bound, Range, variable
from services.tuner.ir.nodes import Block, Buffer, If, Scope

Shape = tuple[int, ...]

DTYPES = {
    "float32": DType.F32,
    "int32": DType.I32,
    "int8": DType.I8,
    "int64": DType.I64,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementAccess:
    """An element of a buffer, and what must hold for the element to exist."""

    buffer: Buffer
    index: Affine
    bounds: tuple[Bound, ...]


def guarded(block: Block, accesses: Sequence[ElementAccess], ranges: Mapping[str, Range]) -> Block:
    """The block under every bound that its loops do not already keep."""
    bounds = dict.fromkeys(bound for one in accesses for bound in one.bounds)
    open_bounds = tuple(b for b in bounds if b.index.bounds(ranges)[1] >= b.limit)
    return (If(bounds=open_bounds, body=block),) if open_bounds else block


def dtype_named(name: str, dtype: str) -> DType:
    """Raises UnsupportedProgram for a dtype that the loop IR does not have."""
    if dtype not in DTYPES:
        raise UnsupportedProgram(
            f"buffer {name} of {dtype} is not lowered; use {', '.join(DTYPES)}"
        )
    return DTYPES[dtype]


class Symbols:
    """Grows during one visit. Keys are the front end's own objects; names are unique."""

    def __init__(self) -> None:
        self.ranges: dict[str, Range] = {}
        self._variables: dict[Hashable, str] = {}
        self._buffers: dict[Hashable, tuple[Buffer, Shape, Shape]] = {}
        self._taken: dict[str, int] = {}

    def bind(self, key: Hashable, name: str, extent: int) -> str:
        """A new loop variable that runs over 0 … extent-1."""
        var = self._variables[key] = self._fresh(name)
        self.ranges[var] = (0, extent - 1)
        return var

    def fresh_value(self, name: str, limits: Range) -> str:
        """A new variable for a value within inclusive limits."""
        var = self._fresh(name)
        self.ranges[var] = limits
        return var

    def variable(self, key: Hashable) -> Affine:
        return variable(self._variables[key])

    def declare(
        self,
        key: Hashable,
        name: str,
        scope: Scope,
        *,
        dtype: DType,
        shape: Shape,
        stated: Shape,
    ) -> Buffer:
        """A buffer of `shape`, which the program was `stated` on as if it were larger."""
        buffer = Buffer(name=self._fresh(name), scope=scope, dtype=dtype, size=prod(shape))
        self._buffers[key] = (buffer, shape, stated)
        return buffer

    def access(self, key: Hashable, at: tuple[Affine, ...]) -> ElementAccess:
        buffer, shape, stated = self._buffers[key]
        return _access(buffer, at, shape, stated)

    def _fresh(self, name: str) -> str:
        """The front end repeats names, each for another thing."""
        seen = self._taken.get(name, 0)
        self._taken[name] = seen + 1
        return f"{name}.{seen}" if seen else name


def _access(buffer: Buffer, at: tuple[Affine, ...], shape: Shape, stated: Shape) -> ElementAccess:
    """Row-major flattening by the true `shape`; a bound for each axis `stated` larger than it."""
    flat = Affine(constant=0)
    for index, extent in zip(at, shape, strict=True):
        flat = flat * extent + index if flat.terms or flat.constant else index
    bounds = tuple(
        Bound(index=index, limit=extent)
        for index, extent, rounded in zip(at, shape, stated, strict=True)
        if rounded > extent
    )
    return ElementAccess(buffer=buffer, index=flat, bounds=bounds)

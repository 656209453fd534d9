"""What the front end's variables and buffers are called in the loop IR."""

from collections.abc import Hashable

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine, Range
from services.tuner.ir.nodes import Buffer, Scope
from services.tuner.tir.clip import Access, access, flat_size

Shape = tuple[int, ...]

DTYPES = {
    "float32": DType.F32,
    "int32": DType.I32,
    "int8": DType.I8,
    "int64": DType.I64,
}


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
        return Affine.variable(self._variables[key])

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
        buffer = Buffer(name=self._fresh(name), scope=scope, dtype=dtype, size=flat_size(shape))
        self._buffers[key] = (buffer, shape, stated)
        return buffer

    def access(self, key: Hashable, at: tuple[Affine, ...]) -> Access:
        buffer, shape, stated = self._buffers[key]
        return access(buffer, at, shape, stated)

    def _fresh(self, name: str) -> str:
        """The front end repeats names, each for another thing."""
        seen = self._taken.get(name, 0)
        self._taken[name] = seen + 1
        return f"{name}.{seen}" if seen else name

"""Indices and memory accesses as WGSL text.

x[4*i + j + 8 +4]     x[i + 2u]                                      array of vec4, j = 0
                      vec4<f32>(x[i * 4u + j + 8u], … 3 more)        array of f32
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from services.tuner.codegen.text import Names
from services.tuner.codegen.wgsl.f16_storage import (
    ARRAYS,
    SHARED_ARRAY,
    STORE_ONE,
    load_four,
    load_one,
    store_four,
    store_one,
)
from services.tuner.ir.affine import Affine, Bound, Range
from services.tuner.ir.f16_storage import F16Storage
from services.tuner.ir.nodes import (
    LANES,
    Binary,
    BinaryOp,
    Buffer,
    Const,
    Expression,
    IndexValue,
    Load,
    Scope,
    unsupported,
)

_INFIX = {
    BinaryOp.ADD: "+",
    BinaryOp.MUL: "*",
    BinaryOp.FLOOR_DIV: "/",
    BinaryOp.FLOOR_MOD: "%",
}
_DIVISIONS = (BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Indices:
    """Affine forms as text. `ranges` are those of the variables in scope; it grows with the text.

    Variables are u32. Intermediate sums may wrap around, since only the result must be in range.
    """

    names: Names
    ranges: dict[str, Range] = field(default_factory=dict)

    def variable(self, var: str) -> str:
        return self.names.of("variable", var)

    def text(self, index: Affine, divisor: int = 1) -> str:
        """The index, divided by `divisor`, of which all its terms are multiples."""
        parts = ""
        for var, factor in sorted(index.terms, key=_negative):
            size = abs(factor) // divisor
            name = self.variable(var)
            term = name if size == 1 else f"{name} * {size}u"
            if factor < 0:
                parts = f"{parts or '0u'} - {term}"
            else:
                parts = f"{parts} + {term}" if parts else term
        constant = index.constant // divisor
        if constant < 0:
            return f"{parts or '0u'} - {-constant}u"
        if constant or not parts:
            return f"{parts} + {constant}u" if parts else f"{constant}u"
        return parts

    def bound(self, bound: Bound) -> str:
        low, _ = bound.index.bounds(self.ranges)
        text = self.text(bound.index)
        if low >= 0 and bound.limit >= 0:
            return f"{text} < {bound.limit}u"
        return f"i32({text}) < {bound.limit}"

    def unsigned(self, value: Expression, signed: Callable[[Expression], str]) -> str:
        """An i32 value as u32; without a cast where no part of it can be negative."""
        return self._unsigned(value) or f"u32({signed(value)})"

    def _unsigned(self, value: Expression) -> str:
        """The value in u32 arithmetic; '' where it, or a part of it, may be negative."""
        match value:
            case Const(value=number, dtype=DType.I32, lanes=1) if number >= 0:
                return f"{int(number)}u"
            case IndexValue(index=index) if index.bounds(self.ranges)[0] >= 0:
                text = self.text(index)
                return text if not index.constant and len(index.terms) == 1 else f"({text})"
            case Binary(op=op, right=Const(value=0)) if op in _DIVISIONS:
                return ""
            case Binary(op=op, left=left, right=right) if op in _INFIX:
                one, other = self._unsigned(left), self._unsigned(right)
                return f"({one} {_INFIX[op]} {other})" if one and other else ""
            case Binary(op=BinaryOp.MIN | BinaryOp.MAX as op, left=left, right=right):
                one, other = self._unsigned(left), self._unsigned(right)
                return f"{op}({one}, {other})" if one and other else ""
        return ""


def _negative(term: tuple[str, int]) -> bool:
    return term[1] < 0


SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Types of buffers, and the text of loads and stores.

    `scalar` buffers are arrays of single elements, all others of vec4. Four i8 are packed into one
    i32, the first in its lowest bits, as WGSL has no smaller type. `f16_storage` says how f16 lie.
    All scratch buffers share one binding, of i32 where one of them is; `offsets` are where they
    start in it, in elements.
    `output` and `states` are the names of the buffers that are written.
    """

    indices: Indices
    scalar: frozenset[str]
    offsets: Mapping[str, int] = field(default_factory=dict)
    f16_storage: F16Storage = F16Storage.PACKED
    output: str = ""
    states: frozenset[str] = frozenset()
    scratch_dtype: DType = DType.F32

    def wide(self, buffer: Buffer) -> bool:
        return (SCRATCH if buffer.name in self.offsets else buffer.name) not in self.scalar

    def array_type(self, buffer: Buffer, size: int | None = None) -> str:
        """`size` is a number of elements; without it the array has the size of its binding."""
        if buffer.dtype is DType.I8 and size is None:
            return "array<i32>"
        if buffer.dtype is DType.F16:
            return (
                SHARED_ARRAY
                if self._shared(buffer)
                else ARRAYS[self.f16_storage, self.wide(buffer)]
            )
        held = self.scratch_dtype if buffer.name in self.offsets else _element(buffer)
        if not self.wide(buffer):
            return f"array<{held}, {size}>" if size else f"array<{held}>"
        return f"array<vec4<{held}>, {-(-size // LANES)}>" if size else f"array<vec4<{held}>>"

    def load(self, load: Load) -> str:
        if load.buffer.dtype is DType.F16:
            return self._load_f16(load)
        if self._is_cast(load.buffer):
            held = type_text(load.buffer.dtype, load.lanes)
            if load.lanes == 1 or self.wide(load.buffer):
                return f"bitcast<{held}>({self.place(load.buffer, load.index)})"
            parts = ", ".join(self.place(load.buffer, at) for at in _lanes(load.index, load.lanes))
            return f"bitcast<{held}>({type_text(self.scratch_dtype, load.lanes)}({parts}))"
        narrow = load.buffer.dtype is DType.I8
        if not narrow and (load.lanes == 1 or self.wide(load.buffer)):
            return self.place(load.buffer, load.index)
        read = self._byte if narrow else self.place
        parts = ", ".join(read(load.buffer, at) for at in _lanes(load.index, load.lanes))
        return f"{type_text(load.buffer.dtype.compute_dtype, load.lanes)}({parts})"

    def store(self, buffer: Buffer, index: Affine, value: str) -> str:
        """Stores one array element, which is a vec4 in an array of those."""
        if self._is_cast(buffer):
            lanes = LANES if self.wide(buffer) else 1
            value = f"bitcast<{type_text(self.scratch_dtype, lanes)}>({value})"
        if buffer.dtype is not DType.F16:
            return f"{self.place(buffer, index)} = {value}"
        name, wide = self.indices.names.of("buffer", buffer.name), self.wide(buffer)
        text = self.indices.text(index, LANES if wide else 1)
        if wide:
            return f"{name}[{text}] = {store_four(self.f16_storage, value)}"
        return store_one(self.f16_storage, name, self.store_function(buffer), text, value)

    def is_written(self, buffer: Buffer) -> bool:
        return buffer.name == self.output or buffer.name in self.states

    def store_function(self, buffer: Buffer) -> str:
        """Stores one entry of a packed buffer of f16."""
        return STORE_ONE if buffer.name == self.output else f"{STORE_ONE}_of_{buffer.name}"

    def _is_cast(self, buffer: Buffer) -> bool:
        """Returns whether its entries lie as bits of another dtype."""
        return buffer.name in self.offsets and buffer.dtype is not self.scratch_dtype

    def _load_f16(self, load: Load) -> str:
        name = self.indices.names.of("buffer", load.buffer.name)
        if self.wide(load.buffer):
            return load_four(self.f16_storage, f"{name}[{self.indices.text(load.index, LANES)}]")
        shared = self._shared(load.buffer)
        parts = [
            load_one(self.f16_storage, name, self.indices.text(at), shared=shared)
            for at in _lanes(load.index, load.lanes)
        ]
        return parts[0] if load.lanes == 1 else f"vec4<f32>({', '.join(parts)})"

    def _shared(self, buffer: Buffer) -> bool:
        """Returns whether two threads may store halves of one word, so that the words must be
        atomic."""
        packed = self.f16_storage is F16Storage.PACKED and not self.wide(buffer)
        return packed and self.is_written(buffer)

    def _byte(self, buffer: Buffer, index: Affine) -> str:
        """Loads one i8 and extends its sign."""
        name, at = self.indices.names.of("buffer", buffer.name), self.indices.text(index)
        return f"extractBits({name}[({at}) / 4u], ({at}) % 4u * 8u, 8u)"

    def stores(self, buffer: Buffer, index: Affine, values: Sequence[str]) -> Iterator[str]:
        """Stores a vector to a scalar buffer, element by element."""
        for at, value in zip(_lanes(index, len(values)), values, strict=True):
            yield self.store(buffer, at, value)

    def place(self, buffer: Buffer, index: Affine) -> str:
        _element(buffer)
        start = self.offsets.get(buffer.name)
        at = index if not start else replace(index, constant=index.constant + start)
        text = self.indices.text(at, LANES if self.wide(buffer) else 1)
        names = self.indices.names
        if start is None:
            return f"{names.of('buffer', buffer.name)}[{text}]"
        return f"{names.of('binding', SCRATCH)}[{text}]"


def type_text(dtype: DType, lanes: int) -> str:
    return f"vec{lanes}<{dtype}>" if lanes > 1 else str(dtype)


def _lanes(index: Affine, lanes: int) -> Iterator[Affine]:
    for lane in range(lanes):
        yield replace(index, constant=index.constant + lane)


def _element(buffer: Buffer) -> DType:
    if buffer.dtype not in (DType.F32, DType.I32):
        raise unsupported(buffer, f"the WGSL printer for {buffer.dtype} elements")
    return buffer.dtype


def scratch_offsets(buffers: tuple[Buffer, ...]) -> tuple[dict[str, int], int]:
    """The first element of each scratch buffer, a multiple of four, and the elements in all."""
    offsets: dict[str, int] = {}
    end = 0
    for buffer in buffers:
        if buffer.scope is Scope.GLOBAL and buffer.name not in offsets:
            offsets[buffer.name] = end
            end += -(-buffer.size // LANES) * LANES
    return offsets, end

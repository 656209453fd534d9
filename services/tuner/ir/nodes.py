"""The loop IR on one page: frozen values, affine indices, nothing of TVM and nothing of matmul.

A program is a nest of loops over flat buffers. Indices count elements. A value has 1 or 4 lanes of
one element type. Which node may stand where at which stage is written down in `legality`.
"""

from dataclasses import dataclass
from enum import StrEnum

from services.tuner.ir.affine import Affine, Range


class Element(StrEnum):
    """What a buffer holds. Values are F32 or I32: the other two are I32 once they are loaded.

    Of an I64 the low half is read, so that it must be a number of 32 bits. A comparison is an I32,
    0 or 1 in a single lane, no bits or all of them in one of four.
    """

    F32 = "f32"
    I32 = "i32"
    I8 = "i8"
    I64 = "i64"

    @property
    def size_bytes(self) -> int:
        return {Element.I8: 1, Element.I64: 8}.get(self, 4)

    @property
    def range(self) -> Range:
        """Of a number that was loaded from such a buffer of integers."""
        return (-128, 127) if self is Element.I8 else (-(1 << 31), (1 << 31) - 1)

    @property
    def loaded(self) -> "Element":
        """The element of a value that was loaded from such a buffer."""
        return Element.F32 if self is Element.F32 else Element.I32


class Scope(StrEnum):
    """Who sees a buffer: the caller, this call, this thread, the threads of one workgroup."""

    PARAMETER = "parameter"
    GLOBAL = "global"
    LOCAL = "local"
    WORKGROUP = "workgroup"


class LoopKind(StrEnum):
    """RANGE is the outermost loop, whose bounds the caller gives (ABI 1: lo and hi).

    UNROLLED and VECTOR loops are gone after expansion; iterations of a VECTOR loop do not depend
    on one another. The last two are bound to GPU threads.
    """

    RANGE = "range"
    SERIAL = "serial"
    UNROLLED = "unrolled"
    VECTOR = "vector"
    WORKGROUP_INDEX = "workgroup_index"
    THREAD_INDEX = "thread_index"


class BinaryOp(StrEnum):
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MIN = "min"
    MAX = "max"
    FLOOR_DIV = "floor_div"
    FLOOR_MOD = "floor_mod"
    AND = "and"
    OR = "or"
    SHIFT_LEFT = "shl"
    SHIFT_RIGHT = "shr_s"


class CompareOp(StrEnum):
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"


class MathFunction(StrEnum):
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    EXP = "exp"
    TANH = "tanh"
    ERF = "erf"
    SIGMOID = "sigmoid"
    NEAREST = "nearest"
    ABS = "abs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """`size` counts elements. Buffers never overlap."""

    name: str
    scope: Scope
    element: Element
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """A value that lives in the machine, not in a buffer."""

    name: str
    lanes: int
    element: Element = Element.F32


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The condition `index < limit`."""

    index: Affine
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """The address of element `terms` of a buffer, kept in a register and stepped by its loop.

    It starts at the pointer of the same buffer for `parent` and moves by `stride` elements. That of
    a `Let` never moves: it stands `stride` times the value from its parent.
    """

    buffer: Buffer
    terms: tuple[tuple[str, int], ...]
    parent: tuple[tuple[str, int], ...]
    stride: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Const:
    value: float
    element: Element
    lanes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexValue:
    """An affine form of loop variables as an i32 value."""

    index: Affine


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`lanes` consecutive elements from `index` on."""

    buffer: Buffer
    index: Affine
    lanes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    register: Register


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """One value in every lane."""

    value: "Expression"
    lanes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractLane:
    value: "Expression"
    lane: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    op: BinaryOp
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiplyAdd:
    """`left·right + addend`, rounded once or twice as the machine likes."""

    left: "Expression"
    right: "Expression"
    addend: "Expression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    op: CompareOp
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    condition: "Expression"
    then: "Expression"
    otherwise: "Expression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    value: "Expression"
    element: Element


@dataclass(frozen=True, slots=True, kw_only=True)
class Bitcast:
    """The same bits, read as another element of the same size."""

    value: "Expression"
    element: Element


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    function: MathFunction
    argument: "Expression"


Expression = (
    Const
    | IndexValue
    | Load
    | Read
    | Broadcast
    | ExtractLane
    | Binary
    | MultiplyAdd
    | Compare
    | Select
    | Cast
    | Bitcast
    | Call
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Writes every lane of `value` from `index` on."""

    buffer: Buffer
    index: Affine
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    register: Register
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """`var` runs over 0 … extent-1; extent is at least 1. `pointers` step with it."""

    var: str
    extent: int
    kind: LoopKind
    body: "Block"
    pointers: tuple[Pointer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Let:
    """`var` is `value`, an I32 from `low` to `high`, inside `body`: affine forms may name it.

    This is how indices that are no affine form of loop variables come about.
    """

    var: str
    value: Expression
    low: int
    high: int
    body: "Block"
    pointers: tuple[Pointer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class If:
    """`body` where every bound holds, else `otherwise`."""

    bounds: tuple[Bound, ...]
    body: "Block"
    otherwise: "Block" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """`buffer` exists, with no particular contents, inside `body`."""

    buffer: Buffer
    body: "Block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """Every thread of the workgroup has done what stands above."""


Statement = Store | Assign | Loop | Let | If | Allocate | Barrier
Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`body` is the one outermost loop, of kind RANGE."""

    parameters: tuple[Buffer, ...]
    body: Loop

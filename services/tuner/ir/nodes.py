"""The kinds of things in the loop IR: elements, scopes, loops, operations, functions.

The loop IR on one page: frozen values, affine indices, nothing of TVM and nothing of matmul.

A program is a nest of loops over flat buffers. Indices count elements. A value has 1 or 4 lanes of
one element type. Which node may stand where at which stage is written down in `legality`.

Nodes are structs, as a pass makes thousands: one takes 0.06 µs, a frozen dataclass 0.57. They refer
to older nodes alone, so the collector of cycles need not look at them.


How many lanes a value has, and of which element.

The one sentence for a node that a step of the compiler does not lower."""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine

LANES = 4
"""Of a vector: 128 bits of f32 or i32."""


class Scope(StrEnum):
    """Who sees a buffer: the caller, this call, this thread, the threads of one workgroup."""

    PARAMETER = "parameter"
    GLOBAL = "global"
    LOCAL = "local"
    WORKGROUP = "workgroup"


class LoopKind(StrEnum):
    """RANGE is the outermost loop, whose bounds the caller gives (ABI 1: lo and hi).

    UNROLLED and VECTOR loops are gone after expansion; iterations of a VECTOR loop do not depend
    on one another. THREAD_INDEX runs over the threads of a workgroup, all at once; an iteration of
    the range is a workgroup.
    """

    RANGE = "range"
    SERIAL = "serial"
    UNROLLED = "unrolled"
    VECTOR = "vector"
    THREAD_INDEX = "thread_index"


class BinaryOp(StrEnum):
    """MIN and MAX of a NaN and a number are either of the two, as in TVM."""

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


class Buffer(Struct, frozen=True, kw_only=True, gc=False):
    """`size` counts elements. Buffers never overlap."""

    name: str
    scope: Scope
    dtype: DType
    size: int


class Register(Struct, frozen=True, kw_only=True, gc=False):
    """A value that lives in the machine, not in a buffer."""

    name: str
    lanes: int
    dtype: DType = DType.F32


class Bound(Struct, frozen=True, kw_only=True, gc=False):
    """The condition `index < limit`."""

    index: Affine
    limit: int


class Pointer(Struct, frozen=True, kw_only=True, gc=False):
    """The address of element `terms` of a buffer, kept in a register and stepped by its loop.

    It starts at the pointer of the same buffer for `parent` and moves by `stride` elements. That of
    a `Let` never moves: it stands `stride` times the value from its parent.
    """

    buffer: Buffer
    terms: tuple[tuple[str, int], ...]
    parent: tuple[tuple[str, int], ...]
    stride: int


class Const(Struct, frozen=True, kw_only=True, gc=False):
    value: float
    dtype: DType
    lanes: int = 1


class IndexValue(Struct, frozen=True, kw_only=True, gc=False):
    """An affine form of loop variables as an i32 value."""

    index: Affine


class Load(Struct, frozen=True, kw_only=True, gc=False):
    """`lanes` consecutive elements from `index` on."""

    buffer: Buffer
    index: Affine
    lanes: int = 1


class Read(Struct, frozen=True, kw_only=True, gc=False):
    register: Register


class Broadcast(Struct, frozen=True, kw_only=True, gc=False):
    """One value in every lane."""

    value: "Expression"
    lanes: int


class Lanes(Struct, frozen=True, kw_only=True, gc=False):
    """Four single values side by side."""

    values: tuple["Expression", ...]


class ExtractLane(Struct, frozen=True, kw_only=True, gc=False):
    value: "Expression"
    lane: int


class Shuffle(Struct, frozen=True, kw_only=True, gc=False):
    """Four lanes of two values: 0 to 3 are those of `left`, 4 to 7 those of `right`."""

    left: "Expression"
    right: "Expression"
    lanes: tuple[int, int, int, int]


class Binary(Struct, frozen=True, kw_only=True, gc=False):
    op: BinaryOp
    left: "Expression"
    right: "Expression"


class MultiplyAdd(Struct, frozen=True, kw_only=True, gc=False):
    """`left·right + addend`, rounded once or twice as the machine likes."""

    left: "Expression"
    right: "Expression"
    addend: "Expression"


class Compare(Struct, frozen=True, kw_only=True, gc=False):
    op: CompareOp
    left: "Expression"
    right: "Expression"


class Select(Struct, frozen=True, kw_only=True, gc=False):
    """`relaxed`: the machine may have instructions that need every bit of a lane alike."""

    condition: "Expression"
    then: "Expression"
    otherwise: "Expression"
    relaxed: bool = False


class Cast(Struct, frozen=True, kw_only=True, gc=False):
    value: "Expression"
    dtype: DType


class Bitcast(Struct, frozen=True, kw_only=True, gc=False):
    """The same bits, read as another element of the same size."""

    value: "Expression"
    dtype: DType


class Call(Struct, frozen=True, kw_only=True, gc=False):
    function: MathFunction
    argument: "Expression"


class SubgroupReduce(Struct, frozen=True, kw_only=True, gc=False):
    """The `op` of the values of all of the `threads` neighbours, a power of two, that a thread is
    one of, by operations of the subgroups that they are in, of whatever size.

    `thread` is the number of the thread in its workgroup, an IndexValue. It is a barrier, and alone
    what a statement stores or assigns; `shared` has an element for each thread and no other use.
    """

    op: BinaryOp
    value: "Expression"
    thread: "Expression"
    threads: int
    shared: Buffer


Expression = (
    Const
    | IndexValue
    | Load
    | Read
    | Broadcast
    | Lanes
    | ExtractLane
    | Shuffle
    | Binary
    | MultiplyAdd
    | Compare
    | Select
    | Cast
    | Bitcast
    | Call
    | SubgroupReduce
)


class Store(Struct, frozen=True, kw_only=True, gc=False):
    """Writes every lane of `value` from `index` on."""

    buffer: Buffer
    index: Affine
    value: Expression


class Assign(Struct, frozen=True, kw_only=True, gc=False):
    register: Register
    value: Expression


class Loop(Struct, frozen=True, kw_only=True, gc=False):
    """`var` runs over 0 … extent-1; extent is at least 1. `pointers` step with it."""

    var: str
    extent: int
    kind: LoopKind
    body: "Block"
    pointers: tuple[Pointer, ...] = ()


class Let(Struct, frozen=True, kw_only=True, gc=False):
    """`var` is `value`, an I32 from `low` to `high`, inside `body`: affine forms may name it.

    This is how indices that are no affine form of loop variables come about.
    """

    var: str
    value: Expression
    low: int
    high: int
    body: "Block"
    pointers: tuple[Pointer, ...] = ()


class If(Struct, frozen=True, kw_only=True, gc=False):
    """`body` where every bound holds, else `otherwise`."""

    bounds: tuple[Bound, ...]
    body: "Block"
    otherwise: "Block" = ()


class Allocate(Struct, frozen=True, kw_only=True, gc=False):
    """`buffer` exists, with no particular contents, inside `body`."""

    buffer: Buffer
    body: "Block"


class Barrier(Struct, frozen=True, kw_only=True, gc=False):
    """Every thread of the workgroup has done what stands above; what it stored is seen by all."""


Statement = Store | Assign | Loop | Let | If | Allocate | Barrier
Block = tuple[Statement, ...]


class Program(Struct, frozen=True, kw_only=True, gc=False):
    """`body` is the one outermost loop, of kind RANGE.

    Programs that run one after another share the buffers of scope GLOBAL among their parameters.
    """

    parameters: tuple[Buffer, ...]
    body: Loop


def lanes_of(expression: Expression) -> int:
    lanes = _LANES.get(type(expression))
    if lanes is None:
        raise unsupported(expression, "lane counting")
    return lanes(expression)


_LANES: dict[type[Expression], Callable[..., int]] = {
    **dict.fromkeys((MultiplyAdd, Binary, Compare, Shuffle), lambda e: lanes_of(e.left)),
    **dict.fromkeys((Load, Const, Broadcast), lambda e: e.lanes),
    Read: lambda e: e.register.lanes,
    **dict.fromkeys((ExtractLane, IndexValue, SubgroupReduce), lambda _: 1),
    Lanes: lambda e: len(e.values),
    **dict.fromkeys((Cast, Bitcast), lambda e: lanes_of(e.value)),
    Call: lambda e: lanes_of(e.argument),
    Select: lambda e: lanes_of(e.then),
}
"""A table, since passes ask it of every store."""


def dtype_of(expression: Expression) -> DType:
    """F32 or I32."""
    match expression:
        case MultiplyAdd() | Call():
            return DType.F32
        case Load(buffer=buffer):
            return buffer.dtype.compute_dtype
        case Binary(left=operand) | Shuffle(left=operand):
            return dtype_of(operand)
        case Broadcast(value=operand) | ExtractLane(value=operand) | SubgroupReduce(value=operand):
            return dtype_of(operand)
        case Lanes(values=(first, *_)):
            return dtype_of(first)
        case Read(register=register):
            return register.dtype
        case Const(dtype=dtype) | Cast(dtype=dtype) | Bitcast(dtype=dtype):
            return dtype
        case IndexValue() | Compare():
            return DType.I32
        case Select(then=operand):
            return dtype_of(operand)
    raise unsupported(expression, "element typing")


def unsupported(node: object, step: str = "this step of the compiler") -> UnsupportedProgram:
    return UnsupportedProgram(
        f"{type(node).__name__} is not lowered by {step}; restate the program without it"
    )

"""The loop IR on one page: frozen values with affine indices; no node knows TVM or an operator.

    for k < 4 unrolled:                              Loop
      c[4*j +4] = fma(a[k] x4, b[4*k +4], c[4*j +4])     Store, MultiplyAdd, Load, Broadcast

A program is a nest of loops over flat buffers. An index counts elements. `x[i +4]` are four
elements from i on: a value has 1 or 4 lanes of one dtype, F32 or I32. A comparison is an I32: 0 or
1 in one lane; in each of four lanes, no bits or all. `legality` says which node may stand where.

Nodes are structs, since a pass makes thousands: one takes 0.06 µs, a frozen dataclass 0.57. They
refer only to older nodes, so that there are no cycles for the garbage collector to look for.
"""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine

LANES = 4
"""Lanes of a vector, which is 128 bits of f32 or i32."""


class Scope(StrEnum):
    """Who shares a buffer, and for how long.

    PARAMETER: the caller passes it. GLOBAL: one call of the kernel (scratch memory). LOCAL: one
    thread. WORKGROUP: the threads of one workgroup.
    """

    PARAMETER = "parameter"
    GLOBAL = "global"
    LOCAL = "local"
    WORKGROUP = "workgroup"


class LoopKind(StrEnum):
    """How a loop is executed.

    RANGE: the outermost loop; the caller gives its bounds (ABI 1: lo and hi), and on a GPU an
    iteration is a workgroup. UNROLLED and VECTOR loops are removed by `passes/unrolling.py`;
    iterations of a VECTOR loop are independent. THREAD_INDEX: iterations are the threads of a
    workgroup, which run at once.
    """

    RANGE = "range"
    SERIAL = "serial"
    UNROLLED = "unrolled"
    VECTOR = "vector"
    THREAD_INDEX = "thread_index"


class BinaryOp(StrEnum):
    """MIN and MAX of a NaN and a number are either of the two, as in TVM; MINIMUM and MAXIMUM,
    which are of real numbers, are NaN where either is (IEEE 754-2019, section 9.6). Those of
    integers are what the domain's are (`kernelzoo.domain.operators.expressions.BinaryOp`)."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MIN = "min"
    MAX = "max"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    FLOOR_DIV = "floor_div"
    FLOOR_MOD = "floor_mod"
    QUOTIENT = "quotient"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHIFT_LEFT = "shl"
    SHIFT_RIGHT = "shr_s"
    POW = "pow"
    FMOD = "fmod"


DIVISIONS = frozenset((BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD, BinaryOp.QUOTIENT))
"""Operations that no target has for vectors."""
SHIFTS = frozenset((BinaryOp.SHIFT_LEFT, BinaryOp.SHIFT_RIGHT))
"""Their right operand is one count for all lanes."""


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
    LOG = "log"
    EXPM1 = "expm1"
    LOG1P = "log1p"
    SIN = "sin"
    COS = "cos"
    FLOOR = "floor"
    CEIL = "ceil"


class Buffer(Struct, frozen=True, kw_only=True, gc=False):
    """`size` elements in row-major order. Buffers never overlap."""

    name: str
    scope: Scope
    dtype: DType
    size: int


class Register(Struct, frozen=True, kw_only=True, gc=False):
    """A variable of 1 or 4 lanes: a local in WebAssembly, a `let` or `var` in WGSL."""

    name: str
    lanes: int
    dtype: DType = DType.F32


class Bound(Struct, frozen=True, kw_only=True, gc=False):
    """The condition `index < limit`."""

    index: Affine
    limit: int


class Pointer(Struct, frozen=True, kw_only=True, gc=False):
    """The address of element `terms` of a buffer, in a register that a loop steps.

    It starts at the pointer of the same buffer for the terms `parent`, and each iteration adds
    `stride` elements. The pointer of a Let is not stepped: it is `stride` times the value of the
    Let past its parent.
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
    """The value of an affine form, as an i32."""

    index: Affine


class Load(Struct, frozen=True, kw_only=True, gc=False):
    """`lanes` consecutive elements from `index` on."""

    buffer: Buffer
    index: Affine
    lanes: int = 1


class RegisterRead(Struct, frozen=True, kw_only=True, gc=False):
    register: Register


class Broadcast(Struct, frozen=True, kw_only=True, gc=False):
    """One value in all lanes (a splat)."""

    value: "Expression"
    lanes: int


class Lanes(Struct, frozen=True, kw_only=True, gc=False):
    """Four single values side by side."""

    values: tuple["Expression", ...]


class ExtractLane(Struct, frozen=True, kw_only=True, gc=False):
    value: "Expression"
    lane: int


class Shuffle(Struct, frozen=True, kw_only=True, gc=False):
    """Picks four lanes: 0 to 3 are those of `left`, 4 to 7 those of `right`."""

    left: "Expression"
    right: "Expression"
    lanes: tuple[int, int, int, int]


class Binary(Struct, frozen=True, kw_only=True, gc=False):
    op: BinaryOp
    left: "Expression"
    right: "Expression"


class MultiplyAdd(Struct, frozen=True, kw_only=True, gc=False):
    """`left·right + addend`, rounded once or twice: targets may choose."""

    left: "Expression"
    right: "Expression"
    addend: "Expression"


class Compare(Struct, frozen=True, kw_only=True, gc=False):
    op: CompareOp
    left: "Expression"
    right: "Expression"


class Select(Struct, frozen=True, kw_only=True, gc=False):
    """`relaxed`: each lane of the condition has equal bits, so relaxed instructions may be used."""

    condition: "Expression"
    then: "Expression"
    otherwise: "Expression"
    relaxed: bool = False


class Cast(Struct, frozen=True, kw_only=True, gc=False):
    value: "Expression"
    dtype: DType


class Bitcast(Struct, frozen=True, kw_only=True, gc=False):
    """The same bits as another dtype of the same size."""

    value: "Expression"
    dtype: DType


class Call(Struct, frozen=True, kw_only=True, gc=False):
    function: MathFunction
    argument: "Expression"


class SubgroupReduce(Struct, frozen=True, kw_only=True, gc=False):
    """Reduces `value` by `op` over each group of `threads` neighbouring threads, a power of two.

    It uses subgroup operations, whatever size a subgroup has. `thread` is the number of the thread
    in its workgroup, an IndexValue. `shared` is a workgroup buffer of one value a thread, for this
    reduction alone; a value may have four lanes. It is a barrier, and it must be the whole value of
    a Store or Assign.
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
    | RegisterRead
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
    """Writes the lanes of `value` to consecutive elements from `index` on."""

    buffer: Buffer
    index: Affine
    value: Expression


class Assign(Struct, frozen=True, kw_only=True, gc=False):
    register: Register
    value: Expression


class Loop(Struct, frozen=True, kw_only=True, gc=False):
    """`var` runs from 0 to extent-1; extent is at least 1. Each iteration steps the `pointers`."""

    var: str
    extent: int
    kind: LoopKind
    body: "Block"
    pointers: tuple[Pointer, ...] = ()


class Let(Struct, frozen=True, kw_only=True, gc=False):
    """Binds `var` to `value`, an I32 from `low` to `high`, in `body`, where indices may name it.

    Indices that are not affine in loop variables, such as gathered ones, are affine in Lets.
    """

    var: str
    value: Expression
    low: int
    high: int
    body: "Block"
    pointers: tuple[Pointer, ...] = ()


class If(Struct, frozen=True, kw_only=True, gc=False):
    """Runs `body` where all bounds hold, else `otherwise`."""

    bounds: tuple[Bound, ...]
    body: "Block"
    otherwise: "Block" = ()


class Allocate(Struct, frozen=True, kw_only=True, gc=False):
    """Makes `buffer`, with undefined contents, for `body`."""

    buffer: Buffer
    body: "Block"


class Barrier(Struct, frozen=True, kw_only=True, gc=False):
    """All threads of the workgroup wait here, then see what the others have stored before in
    workgroup memory; with `storage` also in buffers of scope GLOBAL."""

    storage: bool = False


Statement = Store | Assign | Loop | Let | If | Allocate | Barrier
Block = tuple[Statement, ...]


class Program(Struct, frozen=True, kw_only=True, gc=False):
    """`body` is the outermost loop, of kind RANGE.

    Programs that are dispatched one after another share parameters of scope GLOBAL.
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
    RegisterRead: lambda e: e.register.lanes,
    **dict.fromkeys((ExtractLane, IndexValue), lambda _: 1),
    Lanes: lambda e: len(e.values),
    **dict.fromkeys((Cast, Bitcast, SubgroupReduce), lambda e: lanes_of(e.value)),
    Call: lambda e: lanes_of(e.argument),
    Select: lambda e: lanes_of(e.then),
}
"""A table, which is faster than a match statement: passes ask this of every store."""


def dtype_of(expression: Expression) -> DType:
    """F32 or I32: the dtype of each lane."""
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
        case RegisterRead(register=register):
            return register.dtype
        case Const(dtype=dtype) | Cast(dtype=dtype) | Bitcast(dtype=dtype):
            return dtype
        case IndexValue() | Compare():
            return DType.I32
        case Select(then=operand):
            return dtype_of(operand)
    raise unsupported(expression, "dtype inference")


def unsupported(node: object, step: str = "this step of the compiler") -> UnsupportedProgram:
    return UnsupportedProgram(
        f"{type(node).__name__} is not lowered by {step}; restate the program without it"
    )

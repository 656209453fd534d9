"""The loop IR on one page: frozen values with affine indices; no node knows TVM or an operator.

    for k < 4 unrolled:                              Loop
      c[4*j +4] = fma(a[k] x4, b[4*k +4], c[4*j +4])     Store, MultiplyAdd, Load, Broadcast

A program is a nest of loops over flat buffers. An index counts elements. `x[i +4]` are four
elements from i on: a value has 1 or 4 lanes of one dtype, F32 or I32. A comparison is an I32: 0 or
1 in one lane; in each of four lanes, no bits or all. `legality` says which node may stand where.

Nodes are structs, since a pass makes thousands: one takes 0.06 µs, a frozen dataclass 0.57. They
refer only to older nodes, so that there are no cycles for the garbage collector to look for.

A template writes them with operators, which add nothing that the nodes do not say:

    c.store(row * 64 + column, a[row * 8 + k] * b[k * 64 + column] + 1.0)
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine, Bound

LANES = 4
"""Lanes of a vector, which is 128 bits of f32 or i32."""


class Scope(StrEnum):
    """A buffer is shared by these, and for so long.

    PARAMETER: the caller passes it. GLOBAL: one call of the kernel (scratch memory). LOCAL: one
    thread. WORKGROUP: the threads of one workgroup.
    """

    PARAMETER = "parameter"
    GLOBAL = "global"
    LOCAL = "local"
    WORKGROUP = "workgroup"


class LoopKind(StrEnum):
    """A loop is executed in one of these ways.

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

    def __getitem__(self, index: "Affine | int") -> "Load":
        return Load(buffer=self, index=_index(index))

    def vector(self, index: "Affine | int") -> "Load":
        """The four elements from the index on."""
        return Load(buffer=self, index=_index(index), lanes=LANES)

    def store(self, index: "Affine | int", value: "Operand") -> "Store":
        """A number is stored as the buffer's dtype is computed in."""
        if isinstance(value, (int, float)):
            value = Const(value=value, dtype=self.dtype.compute_dtype)
        return Store(buffer=self, index=_index(index), value=operand(value))

    def add(self, index: "Affine | int", value: "Expression") -> "Store":
        """Stores the sum of the value and what is there, in as many lanes as it has."""
        held = Load(buffer=self, index=_index(index), lanes=lanes_of(value))
        return Store(buffer=self, index=held.index, value=held + value)


class Register(Struct, frozen=True, kw_only=True, gc=False):
    """A variable of 1 or 4 lanes: a local in WebAssembly, a `let` or `var` in WGSL."""

    name: str
    lanes: int
    dtype: DType = DType.F32


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


class Arithmetic(Struct, frozen=True, kw_only=True, gc=False):
    """The operators of every expression: they make the node that computes them.

    The other operand may be a form, whose value it then is, or a number, which stands in all lanes:
    a float for an F32, an int for an I32. `==` compares nodes, and makes none. There is no `<`, as
    a class that defines it is compared by `==` up to ten times as slowly (CPython 3.11).
    """

    def __add__(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.ADD, self, other)

    def __sub__(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.SUB, self, other)

    def __rsub__(self, other: float) -> "Binary":
        return Binary(
            op=BinaryOp.SUB, left=operand(other, lanes_of(operand(self))), right=operand(self)
        )

    def __mul__(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.MUL, self, other)

    def __truediv__(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.DIV, self, other)

    def __floordiv__(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.FLOOR_DIV, self, other)

    def __mod__(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.FLOOR_MOD, self, other)

    def __and__(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.AND, self, other)

    def __or__(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.OR, self, other)

    def __xor__(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.XOR, self, other)

    def __lshift__(self, count: "Operand") -> "Binary":
        return Binary(op=BinaryOp.SHIFT_LEFT, left=operand(self), right=operand(count))

    def __rshift__(self, count: "Operand") -> "Binary":
        return Binary(op=BinaryOp.SHIFT_RIGHT, left=operand(self), right=operand(count))

    def less(self, other: "Operand") -> "Compare":
        return _compare(CompareOp.LT, self, other)

    def at_most(self, other: "Operand") -> "Compare":
        return _compare(CompareOp.LE, self, other)

    def equals(self, other: "Operand") -> "Compare":
        return _compare(CompareOp.EQ, self, other)

    def differs(self, other: "Operand") -> "Compare":
        return _compare(CompareOp.NE, self, other)

    def min(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.MIN, self, other)

    def max(self, other: "Operand") -> "Binary":
        return _binary(BinaryOp.MAX, self, other)

    def extract(self, lane: int) -> "ExtractLane":
        return ExtractLane(value=operand(self), lane=lane)

    def cast(self, dtype: DType) -> "Cast":
        return Cast(value=operand(self), dtype=dtype)

    def bitcast(self, dtype: DType) -> "Bitcast":
        return Bitcast(value=operand(self), dtype=dtype)


class Const(Arithmetic, frozen=True, kw_only=True, gc=False):
    value: float
    dtype: DType
    lanes: int = 1


class IndexValue(Arithmetic, frozen=True, kw_only=True, gc=False):
    """The value of an affine form, as an i32."""

    index: Affine


class Load(Arithmetic, frozen=True, kw_only=True, gc=False):
    """`lanes` consecutive elements from `index` on."""

    buffer: Buffer
    index: Affine
    lanes: int = 1


class RegisterRead(Arithmetic, frozen=True, kw_only=True, gc=False):
    register: Register


class Broadcast(Arithmetic, frozen=True, kw_only=True, gc=False):
    """One value in all lanes (a splat)."""

    value: "Expression"
    lanes: int


class Lanes(Arithmetic, frozen=True, kw_only=True, gc=False):
    """Four single values side by side."""

    values: tuple["Expression", ...]


class ExtractLane(Arithmetic, frozen=True, kw_only=True, gc=False):
    value: "Expression"
    lane: int


class Shuffle(Arithmetic, frozen=True, kw_only=True, gc=False):
    """Picks four lanes: 0 to 3 are those of `left`, 4 to 7 those of `right`."""

    left: "Expression"
    right: "Expression"
    lanes: tuple[int, int, int, int]


class Binary(Arithmetic, frozen=True, kw_only=True, gc=False):
    op: BinaryOp
    left: "Expression"
    right: "Expression"


class MultiplyAdd(Arithmetic, frozen=True, kw_only=True, gc=False):
    """`left·right + addend`, rounded once or twice: targets may choose."""

    left: "Expression"
    right: "Expression"
    addend: "Expression"


class Halves(Arithmetic, frozen=True, kw_only=True, gc=False):
    """Bytes with sign of each word, as two i16 in its place: bytes 0 and 2, or the `odd` ones, 1
    and 3. The first byte of a word is in its lowest bits."""

    value: "Expression"
    odd: bool


class Bytes(Arithmetic, frozen=True, kw_only=True, gc=False):
    """Puts the sixteen I32 of four vectors together as bytes, in order, four to a word: each as the
    nearest number from 0 to 255."""

    values: tuple["Expression", ...]


class DotPairs(Arithmetic, frozen=True, kw_only=True, gc=False):
    """Sums two products, an I32, in each lane: of the two i16 that `left` holds there with those of
    `right`."""

    left: "Expression"
    right: "Expression"


class DotBytes(Arithmetic, frozen=True, kw_only=True, gc=False):
    """Sums the four products of the bytes that `left` and `right` hold in each lane, all of them
    from 0 to 255, modulo 2^32."""

    left: "Expression"
    right: "Expression"


class RightBytes(StrEnum):
    """Says what the bytes of the right operand of a dot of quads are.

    Of 7 bits, from 0 to 127, all engines agree, as long as two products next to one another, the
    first and the second or the third and the fourth, sum to an i16. All bytes are exact on engines
    that take them as numbers with sign, or as numbers without: V8 has three meanings for the
    instruction.
    """

    SEVEN_BITS = "seven bits"
    I8 = "i8"
    U8 = "u8"


class DotQuads(Arithmetic, frozen=True, kw_only=True, gc=False):
    """Adds four products to the `addend`, an I32, in each lane: of the four i8 that `left` holds
    there with the bytes of `right`.

    It is `in_two` steps where the sums of two products, of which one is of 7 bits, are an
    instruction of their own: two fewer of x86 where a processor has none for the whole.
    """

    left: "Expression"
    right: "Expression"
    addend: "Expression"
    in_two: bool = False
    bytes: RightBytes = RightBytes.SEVEN_BITS


class Compare(Arithmetic, frozen=True, kw_only=True, gc=False):
    op: CompareOp
    left: "Expression"
    right: "Expression"


class Select(Arithmetic, frozen=True, kw_only=True, gc=False):
    """`relaxed`: each lane of the condition has equal bits, so relaxed instructions may be used."""

    condition: "Expression"
    then: "Expression"
    otherwise: "Expression"
    relaxed: bool = False


class Cast(Arithmetic, frozen=True, kw_only=True, gc=False):
    value: "Expression"
    dtype: DType


class Bitcast(Arithmetic, frozen=True, kw_only=True, gc=False):
    """A value's bits as another dtype of the same size."""

    value: "Expression"
    dtype: DType


class Call(Arithmetic, frozen=True, kw_only=True, gc=False):
    function: MathFunction
    argument: "Expression"


class SubgroupReduce(Arithmetic, frozen=True, kw_only=True, gc=False):
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
    | Halves
    | Bytes
    | DotBytes
    | DotPairs
    | DotQuads
    | Compare
    | Select
    | Cast
    | Bitcast
    | Call
    | SubgroupReduce
)
Operand = Expression | Affine | float
"""Operators take these: an expression, a form for its value, or a number."""


def operand(value: Any, lanes: int = 1) -> Any:
    """The expression that an operand stands for, a number in so many lanes."""
    # Typed loosely, as a union of all nodes cannot name the class whose methods call it.
    if isinstance(value, Arithmetic):
        return value
    if isinstance(value, Affine):
        return IndexValue(index=value)
    dtype = DType.I32 if isinstance(value, int) else DType.F32
    return Const(value=value, dtype=dtype, lanes=lanes)


def _binary(op: BinaryOp, left: Any, right: Any) -> Binary:
    if not isinstance(right, Arithmetic):
        right = operand(right, lanes_of(left))
    return Binary(op=op, left=left, right=right)


def _compare(op: CompareOp, left: Any, right: Any) -> Compare:
    if not isinstance(right, Arithmetic):
        right = operand(right, lanes_of(left))
    return Compare(op=op, left=left, right=right)


def _index(index: Affine | int) -> Affine:
    return Affine(constant=index) if isinstance(index, int) else index


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
    **dict.fromkeys(
        (MultiplyAdd, DotBytes, DotPairs, DotQuads, Binary, Compare, Shuffle),
        lambda e: lanes_of(e.left),
    ),
    **dict.fromkeys((Load, Const, Broadcast), lambda e: e.lanes),
    RegisterRead: lambda e: e.register.lanes,
    **dict.fromkeys((ExtractLane, IndexValue), lambda _: 1),
    Lanes: lambda e: len(e.values),
    Bytes: lambda _: LANES,
    **dict.fromkeys((Cast, Bitcast, Halves, SubgroupReduce), lambda e: lanes_of(e.value)),
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
        case IndexValue() | Compare() | Halves() | Bytes():
            return DType.I32
        case DotBytes() | DotPairs() | DotQuads():
            return DType.I32
        case Select(then=operand):
            return dtype_of(operand)
    raise unsupported(expression, "dtype inference")


def unsupported(node: object, step: str = "this step of the compiler") -> UnsupportedProgram:
    return UnsupportedProgram(
        f"{type(node).__name__} is not lowered by {step}; restate the program without it"
    )

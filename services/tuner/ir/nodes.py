"""The loop IR on one page: frozen values, affine indices, nothing of TVM and nothing of matmul.

A program is a nest of loops over flat buffers. Indices count elements. A value has 1 or 4 lanes of
one element type. Which node may stand where at which stage is written down in `legality`.
"""

from dataclasses import dataclass

from services.tuner.ir.affine import Affine
from services.tuner.ir.kinds import (
    BinaryOp,
    CompareOp,
    Element,
    LoopKind,
    MathFunction,
    Scope,
)


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
class Lanes:
    """Four single values side by side."""

    values: tuple["Expression", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractLane:
    value: "Expression"
    lane: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Four lanes of two values: 0 to 3 are those of `left`, 4 to 7 those of `right`."""

    left: "Expression"
    right: "Expression"
    lanes: tuple[int, int, int, int]


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
    """`relaxed`: the machine may have instructions that need every bit of a lane alike."""

    condition: "Expression"
    then: "Expression"
    otherwise: "Expression"
    relaxed: bool = False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgroupReduce:
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
    """Every thread of the workgroup has done what stands above; what it stored is seen by all."""


Statement = Store | Assign | Loop | Let | If | Allocate | Barrier
Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`body` is the one outermost loop, of kind RANGE.

    Programs that run one after another share the buffers of scope GLOBAL among their parameters.
    """

    parameters: tuple[Buffer, ...]
    body: Loop

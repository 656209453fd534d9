"""The kinds of things in the loop IR: elements, scopes, loops, operations, functions."""

from enum import StrEnum

from services.tuner.ir.affine import Range

LANES = 4
"""Of a vector: 128 bits of f32 or i32."""


class Element(StrEnum):
    """What a buffer holds. Values are F32 or I32: an F16 is an F32 once it is loaded, and rounded
    where it is stored; the other two are I32.

    Of an I64 the low half is read, so that it must be a number of 32 bits. A comparison is an I32,
    0 or 1 in a single lane, no bits or all of them in one of four.
    """

    F32 = "f32"
    F16 = "f16"
    I32 = "i32"
    I8 = "i8"
    I64 = "i64"

    @property
    def size_bytes(self) -> int:
        return {Element.F16: 2, Element.I8: 1, Element.I64: 8}.get(self, 4)

    @property
    def range(self) -> Range:
        """Of a number that was loaded from such a buffer of integers."""
        return (-128, 127) if self is Element.I8 else (-(1 << 31), (1 << 31) - 1)

    @property
    def loaded(self) -> "Element":
        """The element of a value that was loaded from such a buffer."""
        return Element.F32 if self in (Element.F32, Element.F16) else Element.I32


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

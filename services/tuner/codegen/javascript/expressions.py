"""Expressions as JavaScript text.

    (a[k] * f0)              →   (f32[a_p + 3] * f0)
    select(lt(x, 0), y, z)   →   (fround(x) < 0 ? y : z)

Numbers of JavaScript are float64, and a store to a Float32Array rounds. Between a load and a store
values keep their float64: sums are more exact than those of WebAssembly, and a product of matrices
is twice as fast as with a rounding behind each operation (V8 11.3, compiled and interpreted). A
value is rounded to the float32 that it stands for where a condition, an integer or its bits are
made of it: so what is compared with a stored value is equal to it where the same was stored.
"""

from collections.abc import Callable
from math import isinf, isnan
from struct import pack, unpack

from kernelzoo.domain.dtype import DType
from services.tuner.codegen.text import Names
from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import (
    DIVISIONS,
    LANES,
    Binary,
    BinaryOp,
    Bitcast,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expression,
    ExtractLane,
    IndexValue,
    Lanes,
    Load,
    MathFunction,
    MultiplyAdd,
    Pointer,
    Register,
    RegisterRead,
    Select,
    Shuffle,
    dtype_of,
    lanes_of,
    unsupported,
)
from services.tuner.passes.pipeline import NATIVE_OF_JAVASCRIPT

LANE = "xyzw"
VIEWS = {DType.F32: "f32", DType.I32: "i32", DType.I8: "i8"}
"""Names of the typed arrays over the memory, by what their entries are."""

_INFIX = {BinaryOp.ADD: "+", BinaryOp.SUB: "-", BinaryOp.MUL: "*", BinaryOp.DIV: "/"}
_BITS = {
    BinaryOp.AND: "&",
    BinaryOp.OR: "|",
    BinaryOp.XOR: "^",
    BinaryOp.SHIFT_LEFT: "<<",
    BinaryOp.SHIFT_RIGHT: ">>",
}
_EXTREMES = {
    **dict.fromkeys((BinaryOp.MIN, BinaryOp.MINIMUM), "min"),
    **dict.fromkeys((BinaryOp.MAX, BinaryOp.MAXIMUM), "max"),
}
"""These functions of `Math` are NaN where an operand is."""
_COMPARE = {CompareOp.EQ: "===", CompareOp.NE: "!==", CompareOp.LT: "<", CompareOp.LE: "<="}
_WHOLE = (MathFunction.NEAREST, MathFunction.FLOOR, MathFunction.CEIL)
"""Functions that make whole numbers of what they are given."""

HELPERS = {
    "nearest": "(x) => (round(x) - x === 0.5 && round(x) % 2 !== 0 ? round(x) - 1 : round(x))",
    "whole": "(x) => (x >= 2147483647 ? 2147483647 : x <= -2147483648 ? -2147483648 : x | 0)",
    "quotient": "(x, y) => (y === 0 ? 0 : x / y | 0)",
    "floor_div": "(x, y) => (y === 0 ? 0 : floor(x / y) | 0)",
    "floor_mod": "(x, y) => { const r = x % y | 0; return r * y < 0 ? r + y : r; }",
    "bits_of": "(x) => { real[0] = x; return bits[0]; }",
    "real_of": "(x) => { bits[0] = x; return real[0]; }",
}
"""Functions that a module states for itself: rounding half to even, conversion that saturates,
division of integers, whose quotient float64 has exactly, and the bits of a float32."""

Terms = tuple[tuple[str, int], ...]


class Places:
    """Names where things are: identifiers, and the pointers that loops step."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._pointers: dict[tuple[str, Terms], str] = {}

    def variable(self, var: str) -> str:
        return self.names.of("variable", var)

    def register(self, register: Register, lane: int = 0) -> str:
        """A variable for each lane."""
        name = register.name if register.lanes == 1 else f"{register.name}_{LANE[lane]}"
        return self.names.of("register", name)

    def base(self, buffer: Buffer) -> str:
        """The place of its first entry, counted in entries."""
        return self.names.of("buffer", buffer.name)

    def index(self, index: Affine) -> str:
        return _sum([*self._terms(index.terms), *_constant(index.constant)])

    def entry(self, buffer: Buffer, index: Affine, lane: int) -> str:
        view = VIEWS.get(buffer.dtype)
        if view is None:
            raise unsupported(buffer, f"the JavaScript printer for {buffer.dtype} elements")
        known = self._pointers.get((buffer.name, index.terms))
        start = [known] if known else [self.base(buffer), *self._terms(index.terms)]
        return f"{view}[{_sum([*start, *_constant(index.constant + lane)])}]"

    def enter(self, pointer: Pointer) -> tuple[str, str]:
        """Names a pointer; the text of the place that it starts from."""
        parent = self._pointers.get((pointer.buffer.name, pointer.parent))
        self._pointers[pointer.buffer.name, pointer.terms] = self.pointer(pointer)
        return self.pointer(pointer), parent or self.base(pointer.buffer)

    def pointer(self, pointer: Pointer) -> str:
        path = "_".join((pointer.buffer.name, *(var for var, _ in pointer.terms)))
        return self.names.of(f"pointer {pointer.terms}", path)

    def leave(self, pointer: Pointer) -> None:
        del self._pointers[pointer.buffer.name, pointer.terms]

    def _terms(self, terms: Terms) -> list[str]:
        return [
            self.variable(var) if factor == 1 else f"{self.variable(var)} * {factor}"
            for var, factor in terms
        ]


class Expressions:
    """The text of one lane of an expression. `used` names what a module has to state before it."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.used: set[str] = set()
        self._writers: dict[type[Expression], Callable[..., str]] = {
            RegisterRead: lambda node, lane: self._places.register(node.register, lane),
            Load: self._load,
            Const: self._const,
            Broadcast: lambda node, _: self.text(node.value),
            Lanes: lambda node, lane: self.text(node.values[lane]),
            ExtractLane: lambda node, _: self.text(node.value, node.lane),
            Shuffle: self._shuffle,
            Binary: self._binary,
            MultiplyAdd: self._multiply_add,
            IndexValue: lambda node, _: f"({self._places.index(node.index)})",
            Compare: self._mask,
            Select: self._select,
            Cast: self._cast,
            Bitcast: self._bitcast,
            Call: self._call,
        }

    def text(self, value: Expression, lane: int = 0) -> str:
        write = self._writers.get(type(value))
        if write is None:
            raise unsupported(value, "the JavaScript printer")
        return write(value, lane)

    def _load(self, node: Load, lane: int) -> str:
        self.used.add(VIEWS.get(node.buffer.dtype, ""))
        return self._places.entry(node.buffer, node.index, lane)

    def _const(self, node: Const, _: int) -> str:
        if node.dtype is DType.I32:
            return _signed(str(int(node.value)))
        if isnan(node.value):
            return "NaN"
        if isinf(node.value):
            return "Infinity" if node.value > 0 else "(-Infinity)"
        (nearest,) = unpack("<f", pack("<f", node.value))
        return _signed(repr(nearest).removesuffix(".0"))

    def _shuffle(self, node: Shuffle, lane: int) -> str:
        side, place = divmod(node.lanes[lane], LANES)
        return self.text(node.right if side else node.left, place)

    def _binary(self, node: Binary, lane: int) -> str:
        left, right = self.text(node.left, lane), self.text(node.right, lane)
        op = node.op
        if op in _EXTREMES:
            return self._called(_EXTREMES[op], f"{left}, {right}")
        if op is BinaryOp.FMOD:
            return f"({self._rounded(node.left, lane)} % {self._rounded(node.right, lane)})"
        if op is BinaryOp.POW:
            return self._called("pow", f"{left}, {right}")
        if op in _BITS:
            return f"({left} {_BITS[op]} {right})"
        if dtype_of(node.left) is DType.F32 and op in _INFIX:
            return f"({left} {_INFIX[op]} {right})"
        if op is BinaryOp.MUL:
            return self._called("imul", f"{left}, {right}")
        if op in (BinaryOp.ADD, BinaryOp.SUB):
            return f"({left} {_INFIX[op]} {right} | 0)"
        match node.right:
            case Const(value=divisor, dtype=DType.I32) if divisor > 0:
                if op is BinaryOp.FLOOR_DIV:
                    return self._called("floor", f"{left} / {right}")
                if op is BinaryOp.FLOOR_MOD:
                    return f"(({left} % {right} + {right}) % {right})"
        if op in DIVISIONS:
            return self._called(op, f"{left}, {right}")
        raise unsupported(node, "the JavaScript printer")

    def _multiply_add(self, node: MultiplyAdd, lane: int) -> str:
        product = f"{self.text(node.left, lane)} * {self.text(node.right, lane)}"
        return f"({product} + {self.text(node.addend, lane)})"

    def _condition(self, node: Expression, lane: int) -> str:
        match node:
            case Compare(op=op, left=left, right=right):
                return f"{self._rounded(left, lane)} {_COMPARE[op]} {self._rounded(right, lane)}"
        return f"{self.text(node, lane)} !== 0"

    def _mask(self, node: Compare, lane: int) -> str:
        """A comparison as a number: 1 in a single lane, all bits set in a lane of a vector."""
        return f"({self._condition(node, lane)} ? {1 if lanes_of(node) == 1 else -1} : 0)"

    def _select(self, node: Select, lane: int) -> str:
        then, otherwise = self.text(node.then, lane), self.text(node.otherwise, lane)
        return f"({self._condition(node.condition, lane)} ? {then} : {otherwise})"

    def _cast(self, node: Cast, lane: int) -> str:
        given = dtype_of(node.value)
        if given is node.dtype or node.dtype is DType.F32:
            return self.text(node.value, lane)
        if node.dtype is DType.I32 and given is DType.F32:
            return self._called("whole", self._rounded(node.value, lane))
        raise unsupported(node, f"the JavaScript printer to {node.dtype}")

    def _bitcast(self, node: Bitcast, lane: int) -> str:
        value = self.text(node.value, lane)
        if dtype_of(node.value) is node.dtype:
            return value
        return self._called("real_of" if node.dtype is DType.F32 else "bits_of", value)

    def _call(self, node: Call, lane: int) -> str:
        if node.function not in NATIVE_OF_JAVASCRIPT:
            raise unsupported(node, "the JavaScript printer")
        given = self._rounded if node.function in _WHOLE else self.text
        return self._called(node.function, given(node.argument, lane))

    def _rounded(self, value: Expression, lane: int) -> str:
        """Writes a value as the float32 that it stands for."""
        if dtype_of(value) is not DType.F32 or _is_float32(value):
            return self.text(value, lane)
        return self._called("fround", self.text(value, lane))

    def _called(self, function: str, arguments: str) -> str:
        self.used.add(function)
        return f"{function}({arguments})"


def _is_float32(value: Expression) -> bool:
    match value:
        case Load() | Const() | Bitcast():
            return True
        case Broadcast(value=operand) | ExtractLane(value=operand):
            return _is_float32(operand)
        case Binary(op=op, left=left, right=right) if op in _EXTREMES:
            return _is_float32(left) and _is_float32(right)
    return False


def _sum(parts: list[str]) -> str:
    return " + ".join(parts) or "0"


def _constant(constant: int) -> list[str]:
    return [_signed(str(constant))] if constant else []


def _signed(number: str) -> str:
    """A negative number in parentheses, as `--` is an operator."""
    return f"({number})" if number.startswith("-") else number

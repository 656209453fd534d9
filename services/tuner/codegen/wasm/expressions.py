"""Instruction selection for expressions. The code of each leaves one value on the stack."""

from kernelzoo.domain.dtype import DType
from services.tuner.codegen.wasm.function import FunctionBuilder
from services.tuner.codegen.wasm.instructions import (
    OPCODES,
    Instruction,
    ValueType,
    f32_const,
    i32_const,
    integers_const,
    memory,
    of_lane,
    plain,
    shuffle,
    vector_const,
)
from services.tuner.codegen.wasm.memory import Addresses
from services.tuner.ir.nodes import (
    DIVISIONS,
    LANES,
    Binary,
    BinaryOp,
    Bitcast,
    Broadcast,
    Bytes,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    DotPairs,
    DotQuads,
    Expression,
    ExtractLane,
    Halves,
    IndexValue,
    Lanes,
    Load,
    MathFunction,
    MultiplyAdd,
    RegisterRead,
    Select,
    Shuffle,
    dtype_of,
    lanes_of,
    unsupported,
)
from services.tuner.passes.pipeline import PassSwitches

ALIGNMENT_OF_4 = 2
"""Exponent of the alignment of all accesses of 4-byte elements, vectors too: a row of odd length
starts at any multiple of an element."""

Kind = tuple[DType, bool]
"""The dtype of a value, and whether it has four lanes."""

_F32, _F32X4 = (DType.F32, False), (DType.F32, True)
_I32, _I32X4 = (DType.I32, False), (DType.I32, True)
_PREFIX: dict[Kind, str] = {_F32: "f32", _F32X4: "f32x4", _I32: "i32", _I32X4: "i32x4"}
_BITS = (BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR)
_SIGNED = {CompareOp.LT, CompareOp.LE, BinaryOp.MIN, BinaryOp.MAX}
_EXTREMES = (BinaryOp.MIN, BinaryOp.MAX)
_KEEPING_NAN: dict[BinaryOp | CompareOp, BinaryOp] = {
    BinaryOp.MINIMUM: BinaryOp.MIN,
    BinaryOp.MAXIMUM: BinaryOp.MAX,
}


def _spelling(op: BinaryOp | CompareOp, kind: Kind) -> str:
    """The name of the instruction for an operation.

    min and max are pmin and pmax, which V8 compiles to one x86 instruction; f32x4.max takes eight,
    since it propagates NaN and orders zeros. pmax gives its left operand where either is NaN.
    """
    if op in _BITS and kind[1]:
        return f"v128.{op}"
    if op in _EXTREMES and kind == _F32X4:
        return f"f32x4.p{op}"
    if op in _KEEPING_NAN and not kind[1]:
        return f"{_PREFIX[kind]}.{_KEEPING_NAN[op]}"
    return f"{_PREFIX[kind]}.{op}{'_s' if kind[0] is DType.I32 and op in _SIGNED else ''}"


_OPERATIONS: dict[tuple[BinaryOp | CompareOp, Kind], Instruction] = {
    (op, kind): plain(_spelling(op, kind))
    for op in (*BinaryOp, *CompareOp)
    for kind in _PREFIX
    if _spelling(op, kind) in OPCODES
}
"""Every operation that is one instruction."""

_CALLS = {
    (function, kind): plain(f"{_PREFIX[kind]}.{function}")
    for function in (
        MathFunction.SQRT,
        MathFunction.NEAREST,
        MathFunction.ABS,
        MathFunction.FLOOR,
        MathFunction.CEIL,
    )
    for kind in (_F32, _F32X4)
}
_CASTS = {
    (_F32, DType.I32): plain("i32.trunc_sat_f32_s"),
    (_F32X4, DType.I32): plain("i32x4.trunc_sat_f32x4_s"),
    (_I32, DType.F32): plain("f32.convert_i32_s"),
    (_I32X4, DType.F32): plain("f32x4.convert_i32x4_s"),
}
_BITCASTS = {
    (_F32, DType.I32): plain("i32.reinterpret_f32"),
    (_I32, DType.F32): plain("f32.reinterpret_i32"),
}
_SELECTS = {
    _F32: plain("select (result f32)"),
    _I32: plain("select (result i32)"),
    _F32X4: plain("v128.bitselect"),
    _I32X4: plain("v128.bitselect"),
}
_RELAXED_SELECT = plain("i32x4.relaxed_laneselect")
_LOADS = {
    (DType.F32, False): ("f32.load", ALIGNMENT_OF_4),
    (DType.F32, True): ("v128.load", ALIGNMENT_OF_4),
    (DType.I32, False): ("i32.load", ALIGNMENT_OF_4),
    (DType.I32, True): ("v128.load", ALIGNMENT_OF_4),
    (DType.I64, False): ("i32.load", ALIGNMENT_OF_4),
    (DType.I8, False): ("i32.load8_s", 0),
    (DType.I8, True): ("v128.load32_zero", 0),
}
_SIGN_EXTENSION = (plain("i16x8.extend_low_i8x16_s"), plain("i32x4.extend_low_i16x8_s"))
_MULTIPLY_ADD = plain("f32x4.relaxed_madd")
_ODD_HALVES = (i32_const(8), plain("i16x8.shr_s"))
_EVEN_HALVES = (i32_const(8), plain("i16x8.shl"), *_ODD_HALVES)
_DOT_PAIRS = plain("i32x4.dot_i16x8_s")
_DOT_QUADS = plain("i32x4.relaxed_dot_i8x16_i7x16_add_s")
_DOT_BYTES = (
    plain("i16x8.relaxed_dot_i8x16_i7x16_s"),
    plain("i32x4.extadd_pairwise_i16x8_s"),
)
_ADD = plain("i32x4.add")
_NARROW, _NARROW_TO_BYTES = plain("i16x8.narrow_i32x4_s"), plain("i8x16.narrow_i16x8_u")


class Expressions:
    """Emits the code of expressions into a function."""

    def __init__(
        self, function: FunctionBuilder, addresses: Addresses, switches: PassSwitches
    ) -> None:
        self._function = function
        self._addresses = addresses
        self._switches = switches

    def push(self, expression: Expression) -> None:
        match expression:
            case MultiplyAdd():
                self._multiply_add(expression)
            case RegisterRead(register=register):
                kind = value_type(register.lanes, register.dtype)
                self._function.get(self._function.named(register.name, kind))
            case Load(lanes=lanes):
                self._load(expression, wide=lanes == LANES)
            case Broadcast(value=value):
                self._broadcast(value)
            case Binary() | Compare():
                self._operation(expression)
            case Halves() | Bytes() | DotPairs() | DotQuads() if lanes_of(expression) == LANES:
                self._of_words(expression)
            case Const():
                self._function.emit(_constant(expression))
            case ExtractLane(value=value, lane=lane):
                self.push(value)
                prefix = _PREFIX[dtype_of(value), True]
                self._function.emit(of_lane(f"{prefix}.extract_lane", lane))
            case IndexValue(index=index):
                self._addresses.push_index(index)
            case Shuffle(left=left, right=right, lanes=lanes):
                self._each(left, right)
                self._function.emit(shuffle(lanes))
            case Lanes(values=values):
                self._lanes(values)
            case Select():
                self._select(expression)
            case Cast(value=value, dtype=dtype):
                self._converted(expression, _CASTS.get((kind_of(value), dtype)))
            case Bitcast(value=value, dtype=dtype):
                self._converted(expression, _BITCASTS.get((kind_of(value), dtype)))
            case Call(function=function, argument=argument):
                made = _CALLS.get((function, kind_of(argument)))
                if made is None:
                    raise unsupported(expression, "the wasm printer")
                self.push(argument)
                self._function.emit(made)
            case _:
                raise unsupported(expression, "the wasm printer")

    def _of_words(self, node: Halves | Bytes | DotPairs | DotQuads) -> None:
        """Bytes and i16 that lie in vectors of words."""
        match node:
            case Bytes(values=(first, second, third, fourth)):
                self._each(first, second)
                self._function.emit(_NARROW)
                self._each(third, fourth)
                self._emit(_NARROW, _NARROW_TO_BYTES)
            case Halves(value=value, odd=odd):
                self.push(value)
                self._emit(*(_ODD_HALVES if odd else _EVEN_HALVES))
            case DotPairs(left=left, right=right):
                self._each(left, right)
                self._function.emit(_DOT_PAIRS)
            case DotQuads(left=left, right=right, addend=addend, in_two=in_two):
                self._each(left, right)
                self._emit(*(_DOT_BYTES if in_two else ()))
                self.push(addend)
                self._function.emit(_ADD if in_two else _DOT_QUADS)

    def _select(self, node: Select) -> None:
        """v128.bitselect takes three x86 instructions. Selecting zero by v128.andnot takes one; so
        does the relaxed laneselect, whose mask must have equal bits in a lane."""
        match node.then:
            case Const(value=value, lanes=4) if str(value) in ("0", "0.0"):
                self._each(node.otherwise, node.condition)
                self._function.emit(plain("v128.andnot"))
                return
        self._each(node.then, node.otherwise, node.condition)
        relaxed = node.relaxed and lanes_of(node.then) == LANES
        self._function.emit(_RELAXED_SELECT if relaxed else _SELECTS[kind_of(node.then)])

    def _emit(self, *instructions: Instruction) -> None:
        for instruction in instructions:
            self._function.emit(instruction)

    def _each(self, *expressions: Expression) -> None:
        for expression in expressions:
            self.push(expression)

    def _operation(self, node: Binary | Compare) -> None:
        kind = kind_of(node.left)
        if node.op in DIVISIONS and kind == _I32:
            self._division(node)
            return
        if node.op in _EXTREMES and kind == _I32:
            self._extreme(node)
            return
        if node.op in _KEEPING_NAN and kind == _F32X4:
            self._keeping_nan(node)
            return
        made = _OPERATIONS.get((node.op, kind))
        if made is None:
            raise unsupported(node, "the wasm printer")
        self._each(node.left, node.right)
        self._function.emit(made)

    def _extreme(self, node: Binary | Compare) -> None:
        """WebAssembly has no scalar i32 min and max: compare and select."""
        self._each(node.left, node.right, node.left, node.right)
        if node.op is BinaryOp.MIN:
            self._function.emit(plain("i32.lt_s"))
        else:
            self._function.emit(plain("i32.ge_s"))
        self._function.emit(_SELECTS[_I32])

    def _keeping_nan(self, node: Binary | Compare) -> None:
        """f32x4.max takes eight x86 instructions. pmax keeps a NaN on its left, and of one on its
        right the mask of what differs from itself, all bits of which are set, makes a NaN: three.
        """
        self._each(node.left, node.right)
        held = self._function.named("right of an extreme", ValueType.V128)
        self._function.set(held)
        self._function.get(held)
        self._function.emit(_OPERATIONS[_KEEPING_NAN[node.op], _F32X4])
        self._function.get(held)
        self._function.get(held)
        self._emit(plain("f32x4.ne"), plain("v128.or"))

    def _division(self, node: Binary | Compare) -> None:
        """By a positive constant; a remainder is never negative.

        div_s and rem_s round towards zero. Where rem_s gives a negative remainder, `rem >> 31` is
        -1, else 0: it is added to the quotient, and `(rem >> 31) & divisor` to the remainder.
        """
        match node.right:
            case Const(value=divisor, dtype=DType.I32, lanes=1) if divisor > 0:
                by = i32_const(int(divisor))
            case _:
                self._division_by_any(node)
                return
        if node.op is BinaryOp.QUOTIENT:
            self.push(node.left)
            self._emit(by, plain("i32.div_s"))
            return
        quotient = node.op is BinaryOp.FLOOR_DIV
        self.push(node.left)
        self._emit(by, plain("i32.div_s" if quotient else "i32.rem_s"))
        self.push(node.left)
        self._emit(by, plain("i32.rem_s"), i32_const(31), plain("i32.shr_s"))
        self._emit(*(() if quotient else (by, plain("i32.and"))), plain("i32.add"))

    def _division_by_any(self, node: Binary | Compare) -> None:
        """div_s and rem_s trap where the divisor is 0, div_s of the least integer by -1, too. By
        both divisors the remainder is 0 and the quotient is the product: 1 divides in their place.

            by is safe   1 < by + 1, unsigned        y = by where it is, else 1
            quotient     x div_s y where by is safe, else x * by
            floor_mod    r + (((r ^ y) >> 31) & y) where r = x rem_s y is not 0, else r
            floor_div    the quotient + ((r ^ y) >> 31) where r is not 0
        """
        x, by, safe, y, r = (
            self._function.named(f"division.{name}", ValueType.I32)
            for name in ("x", "by", "safe", "y", "r")
        )
        get, keep, select = self._function.get, self._function.set, _SELECTS[_I32]
        self._each(node.left, node.right)
        keep(by)
        keep(x)
        # 1. A divisor that does not trap.
        self._emit(i32_const(1))
        get(by)
        self._emit(i32_const(1), plain("i32.add"), plain("i32.lt_u"))
        keep(safe)
        get(by)
        self._emit(i32_const(1))
        get(safe)
        self._emit(select)
        keep(y)
        # 2. What has the sign of the divisor and that of the dividend.
        if node.op is not BinaryOp.QUOTIENT:
            get(x)
            get(y)
            self._emit(plain("i32.rem_s"))
            keep(r)
            get(r)
            get(y)
            self._emit(plain("i32.xor"), i32_const(31), plain("i32.shr_s"))
            if node.op is BinaryOp.FLOOR_MOD:
                get(y)
                self._emit(plain("i32.and"))
            self._emit(i32_const(0))
            get(r)
            self._emit(select)
            if node.op is BinaryOp.FLOOR_MOD:
                get(r)
                self._emit(plain("i32.add"))
                return
        # 3. The quotient, on top of what is added to it.
        get(x)
        get(y)
        self._emit(plain("i32.div_s"))
        get(x)
        get(by)
        self._emit(plain("i32.mul"))
        get(safe)
        self._emit(select, *((plain("i32.add"),) if node.op is BinaryOp.FLOOR_DIV else ()))

    def _converted(self, node: Cast | Bitcast, made: Instruction | None) -> None:
        """Emits `made`; without an instruction the bits must stay as they are."""
        self.push(node.value)
        same = dtype_of(node.value) is node.dtype
        wide_bits = isinstance(node, Bitcast) and lanes_of(node.value) == LANES
        if made is not None:
            self._function.emit(made)
        elif not same and not wide_bits:
            raise unsupported(node, f"the wasm printer to {node.dtype}")

    def _broadcast(self, value: Expression) -> None:
        match value:
            case Load(buffer=buffer) if self._switches.load_splat and buffer.dtype.size_bytes == 4:
                offset = self._addresses.push(buffer, value.index)
                self._function.emit(memory("v128.load32_splat", ALIGNMENT_OF_4, offset))
            case _:
                self.push(value)
                self._function.emit(plain(f"{_PREFIX[dtype_of(value), True]}.splat"))

    def _lanes(self, values: tuple[Expression, ...]) -> None:
        """The first in all lanes, then the others in their places."""
        first, *others = values
        prefix = _PREFIX[dtype_of(first), True]
        self._broadcast(first)
        for lane, value in enumerate(others, start=1):
            self.push(value)
            self._function.emit(of_lane(f"{prefix}.replace_lane", lane))

    def _load(self, load: Load, *, wide: bool) -> None:
        dtype = load.buffer.dtype
        made = _LOADS.get((dtype, wide))
        if made is None:
            raise unsupported(load, f"the wasm printer for four {dtype} elements")
        offset = self._addresses.push(load.buffer, load.index)
        self._function.emit(memory(*made, offset))
        if wide and dtype is DType.I8:
            for part in _SIGN_EXTENSION:
                self._function.emit(part)

    def _multiply_add(self, node: MultiplyAdd) -> None:
        """WebAssembly has no scalar multiply-add, so a single lane rounds twice."""
        if lanes_of(node.left) == LANES:
            self._each(node.left, node.right, node.addend)
            self._function.emit(_MULTIPLY_ADD)
            return
        self._each(node.addend, node.left, node.right)
        self._function.emit(_OPERATIONS[BinaryOp.MUL, _F32])
        self._function.emit(_OPERATIONS[BinaryOp.ADD, _F32])


def kind_of(expression: Expression) -> Kind:
    return dtype_of(expression), lanes_of(expression) == LANES


def value_type(lanes: int, dtype: DType = DType.F32) -> ValueType:
    if lanes == LANES:
        return ValueType.V128
    return ValueType.F32 if dtype is DType.F32 else ValueType.I32


def _constant(node: Const) -> Instruction:
    wide = node.lanes == LANES
    if node.dtype is DType.F32:
        return vector_const(node.value) if wide else f32_const(node.value)
    return integers_const(int(node.value)) if wide else i32_const(int(node.value))

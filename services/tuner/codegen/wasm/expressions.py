"""Expressions of the loop IR to wasm instructions. Each leaves one value on the stack."""

from kernelzoo.domain.dtype import DType
from services.tuner.codegen.wasm.function import FunctionBuilder
from services.tuner.codegen.wasm.instructions import (
    OPCODES,
    Instruction,
    ValueType,
    extract_lane,
    f32_const,
    i32_const,
    integers_const,
    memory,
    plain,
    shuffle,
    vector_const,
)
from services.tuner.codegen.wasm.memory import Addresses
from services.tuner.ir.nodes import (
    Binary,
    BinaryOp,
    Bitcast,
    Broadcast,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expression,
    ExtractLane,
    IndexValue,
    Load,
    MathFunction,
    MultiplyAdd,
    Read,
    Select,
    Shuffle,
    dtype_of,
    lanes_of,
    unsupported,
)
from services.tuner.passes.pipeline import PassSwitches

WIDE = 4
ELEMENT_ALIGNMENT = 2
"""Exponent of 4 bytes: rows of odd length put vectors at any multiple of an element."""

Kind = tuple[DType, bool]
"""The element of a value and whether it has four lanes."""

_F32, _F32X4 = (DType.F32, False), (DType.F32, True)
_I32, _I32X4 = (DType.I32, False), (DType.I32, True)
_PREFIX: dict[Kind, str] = {_F32: "f32", _F32X4: "f32x4", _I32: "i32", _I32X4: "i32x4"}
_BITS = {BinaryOp.AND: "and", BinaryOp.OR: "or"}
_SIGNED = {CompareOp.LT, CompareOp.LE, BinaryOp.MIN, BinaryOp.MAX}
_EXTREMES = (BinaryOp.MIN, BinaryOp.MAX)
_DIVISIONS = (BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD)


def _spelling(op: BinaryOp | CompareOp, kind: Kind) -> str:
    """f32x4.max is eight instructions of x86, as it keeps NaN and tells zeros apart; pmax is one.

    It answers its left operand where either is NaN.
    """
    if op in _BITS and kind[1]:
        return f"v128.{op}"
    if op in _EXTREMES and kind == _F32X4:
        return f"f32x4.p{op}"
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
    for function in (MathFunction.SQRT, MathFunction.NEAREST, MathFunction.ABS)
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
    (DType.F32, False): ("f32.load", ELEMENT_ALIGNMENT),
    (DType.F32, True): ("v128.load", ELEMENT_ALIGNMENT),
    (DType.I32, False): ("i32.load", ELEMENT_ALIGNMENT),
    (DType.I32, True): ("v128.load", ELEMENT_ALIGNMENT),
    (DType.I64, False): ("i32.load", ELEMENT_ALIGNMENT),
    (DType.I8, False): ("i32.load8_s", 0),
    (DType.I8, True): ("v128.load32_zero", 0),
}
_SIGN_EXTENSION = (plain("i16x8.extend_low_i8x16_s"), plain("i32x4.extend_low_i16x8_s"))
_MULTIPLY_ADD = plain("f32x4.relaxed_madd")


class Expressions:
    """Writes expressions into a frame."""

    def __init__(
        self, frame: FunctionBuilder, addresses: Addresses, switches: PassSwitches
    ) -> None:
        self._frame = frame
        self._addresses = addresses
        self._switches = switches

    def push(self, expression: Expression) -> None:
        match expression:
            case MultiplyAdd():
                self._multiply_add(expression)
            case Read(register=register):
                kind = lane_type(register.lanes, register.dtype)
                self._frame.get(self._frame.named(register.name, kind))
            case Load(lanes=lanes):
                self._load(expression, wide=lanes == WIDE)
            case Broadcast(value=value):
                self._broadcast(value)
            case Binary() | Compare():
                self._operation(expression)
            case Const():
                self._frame.emit(_constant(expression))
            case ExtractLane(value=value, lane=lane):
                self.push(value)
                prefix = _PREFIX[dtype_of(value), True]
                self._frame.emit(extract_lane(f"{prefix}.extract_lane", lane))
            case IndexValue(index=index):
                self._addresses.push_index(index)
            case Shuffle(left=left, right=right, lanes=lanes):
                self._each(left, right)
                self._frame.emit(shuffle(lanes))
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
                self._frame.emit(made)
            case _:
                raise unsupported(expression, "the wasm printer")

    def _select(self, node: Select) -> None:
        """Of four lanes, bitselect is three instructions of x86; zero or another value, and a
        relaxed choice by comparison, are one."""
        match node.then:
            case Const(value=value, lanes=4) if str(value) in ("0", "0.0"):
                self._each(node.otherwise, node.condition)
                self._frame.emit(plain("v128.andnot"))
                return
        self._each(node.then, node.otherwise, node.condition)
        relaxed = node.relaxed and lanes_of(node.then) == WIDE
        self._frame.emit(_RELAXED_SELECT if relaxed else _SELECTS[kind_of(node.then)])

    def _emit(self, *instructions: Instruction) -> None:
        for instruction in instructions:
            self._frame.emit(instruction)

    def _each(self, *expressions: Expression) -> None:
        for expression in expressions:
            self.push(expression)

    def _operation(self, node: Binary | Compare) -> None:
        kind = kind_of(node.left)
        if node.op in _DIVISIONS:
            self._division(node)
            return
        if node.op in _EXTREMES and kind == _I32:
            self._extreme(node)
            return
        made = _OPERATIONS.get((node.op, kind))
        if made is None:
            raise unsupported(node, "the wasm printer")
        self._each(node.left, node.right)
        self._frame.emit(made)

    def _extreme(self, node: Binary | Compare) -> None:
        """WebAssembly compares single integers but has no smaller or larger one."""
        self._each(node.left, node.right, node.left, node.right)
        if node.op is BinaryOp.MIN:
            self._frame.emit(plain("i32.lt_s"))
        else:
            self._frame.emit(plain("i32.ge_s"))
        self._frame.emit(_SELECTS[_I32])

    def _division(self, node: Binary | Compare) -> None:
        """Rounds down: the remainder is never negative. The divisor is a positive constant.

        The instructions round towards zero. Where what they leave is negative, shifting it by 31
        gives -1, which the quotient is lowered by and which the remainder takes the divisor by.
        """
        match node.right:
            case Const(value=divisor, dtype=DType.I32, lanes=1) if divisor > 0:
                by = i32_const(int(divisor))
            case _:
                raise unsupported(node, "the wasm printer for a divisor that is not constant")
        quotient = node.op is BinaryOp.FLOOR_DIV
        self.push(node.left)
        self._emit(by, plain("i32.div_s" if quotient else "i32.rem_s"))
        self.push(node.left)
        self._emit(by, plain("i32.rem_s"), i32_const(31), plain("i32.shr_s"))
        self._emit(*(() if quotient else (by, plain("i32.and"))), plain("i32.add"))

    def _converted(self, node: Cast | Bitcast, made: Instruction | None) -> None:
        """Where nothing is made the bits stay as they are."""
        self.push(node.value)
        same = dtype_of(node.value) is node.dtype
        wide_bits = isinstance(node, Bitcast) and lanes_of(node.value) == WIDE
        if made is not None:
            self._frame.emit(made)
        elif not same and not wide_bits:
            raise unsupported(node, f"the wasm printer to {node.dtype}")

    def _broadcast(self, value: Expression) -> None:
        match value:
            case Load(buffer=buffer) if self._switches.load_splat and buffer.dtype.size_bytes == 4:
                offset = self._addresses.push(buffer, value.index)
                self._frame.emit(memory("v128.load32_splat", ELEMENT_ALIGNMENT, offset))
            case _:
                self.push(value)
                self._frame.emit(plain(f"{_PREFIX[dtype_of(value), True]}.splat"))

    def _load(self, load: Load, *, wide: bool) -> None:
        dtype = load.buffer.dtype
        made = _LOADS.get((dtype, wide))
        if made is None:
            raise unsupported(load, f"the wasm printer for four {dtype} elements")
        offset = self._addresses.push(load.buffer, load.index)
        self._frame.emit(memory(*made, offset))
        if wide and dtype is DType.I8:
            for part in _SIGN_EXTENSION:
                self._frame.emit(part)

    def _multiply_add(self, node: MultiplyAdd) -> None:
        """WebAssembly has no scalar multiply-add: one lane rounds twice."""
        if lanes_of(node.left) == WIDE:
            self._each(node.left, node.right, node.addend)
            self._frame.emit(_MULTIPLY_ADD)
            return
        self._each(node.addend, node.left, node.right)
        self._frame.emit(_OPERATIONS[BinaryOp.MUL, _F32])
        self._frame.emit(_OPERATIONS[BinaryOp.ADD, _F32])


def kind_of(expression: Expression) -> Kind:
    return dtype_of(expression), lanes_of(expression) == WIDE


def lane_type(lanes: int, dtype: DType = DType.F32) -> ValueType:
    if lanes == WIDE:
        return ValueType.V128
    return ValueType.F32 if dtype is DType.F32 else ValueType.I32


def _constant(node: Const) -> Instruction:
    wide = node.lanes == WIDE
    if node.dtype is DType.F32:
        return vector_const(node.value) if wide else f32_const(node.value)
    return integers_const(int(node.value)) if wide else i32_const(int(node.value))

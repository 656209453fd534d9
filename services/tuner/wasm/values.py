"""Expressions of the loop IR to wasm instructions. Each leaves one value on the stack."""

from services.tuner.ir.lanes import lanes_of
from services.tuner.ir.nodes import (
    Binary,
    BinaryOp,
    Broadcast,
    Call,
    Const,
    Element,
    Expression,
    ExtractLane,
    IndexValue,
    Load,
    MathFunction,
    MultiplyAdd,
    Read,
)
from services.tuner.ir.unsupported import unsupported
from services.tuner.passes.switches import PassSwitches
from services.tuner.wasm.addresses import Addresses
from services.tuner.wasm.frame import Frame
from services.tuner.wasm.instructions import (
    extract_lane,
    f32_const,
    memory,
    plain,
    vector_const,
)
from services.tuner.wasm.opcodes import ValueType

WIDE = 4
ELEMENT_ALIGNMENT = 2
"""Exponent of 4 bytes: rows of odd length put vectors at any multiple of an element."""

_ARITHMETIC = {op: plain(f"f32x4.{op}") for op in BinaryOp}
_SCALAR_ARITHMETIC = {op: plain(f"f32.{op}") for op in BinaryOp}
_MULTIPLY_ADD = plain("f32x4.relaxed_madd")
_SPLAT = plain("f32x4.splat")


class Values:
    """Writes expressions into a frame."""

    def __init__(self, frame: Frame, addresses: Addresses, switches: PassSwitches) -> None:
        self._frame = frame
        self._addresses = addresses
        self._switches = switches

    def push(self, expression: Expression) -> None:
        match expression:
            case MultiplyAdd():
                self._multiply_add(expression)
            case Read(register=register):
                self._frame.get(self._frame.named(register.name, lane_type(register.lanes)))
            case Load(lanes=lanes):
                self._load(expression, "v128.load" if lanes == WIDE else "f32.load")
            case Broadcast(value=Load() as load) if self._switches.combined:
                self._load(load, "v128.load32_splat")
            case Broadcast(value=value):
                self.push(value)
                self._frame.emit(_SPLAT)
            case Binary(op=op, left=left, right=right):
                self.push(left)
                self.push(right)
                wide = lanes_of(expression) == WIDE
                self._frame.emit((_ARITHMETIC if wide else _SCALAR_ARITHMETIC)[op])
            case Const(value=value, element=Element.F32, lanes=lanes):
                self._frame.emit(vector_const(value) if lanes == WIDE else f32_const(value))
            case ExtractLane(value=value, lane=lane):
                self.push(value)
                self._frame.emit(extract_lane(lane))
            case IndexValue(index=index):
                self._addresses.push_index(index)
            case Call(function=MathFunction.SQRT, argument=argument):
                self.push(argument)
                self._frame.emit(plain("f32x4.sqrt" if lanes_of(argument) == WIDE else "f32.sqrt"))
            case _:
                raise unsupported(expression, "the wasm printer")

    def _load(self, load: Load, name: str) -> None:
        if load.buffer.element is not Element.F32:
            raise unsupported(load, f"the wasm printer for {load.buffer.element} elements")
        offset = self._addresses.push(load.buffer, load.index)
        self._frame.emit(memory(name, ELEMENT_ALIGNMENT, offset))

    def _multiply_add(self, node: MultiplyAdd) -> None:
        """WebAssembly has no scalar multiply-add: one lane rounds twice."""
        wide = lanes_of(node.left) == WIDE
        if not wide:
            self.push(node.addend)
        self.push(node.left)
        self.push(node.right)
        if wide:
            self.push(node.addend)
            self._frame.emit(_MULTIPLY_ADD)
        else:
            self._frame.emit(_SCALAR_ARITHMETIC[BinaryOp.MUL])
            self._frame.emit(_SCALAR_ARITHMETIC[BinaryOp.ADD])


def lane_type(lanes: int) -> ValueType:
    return ValueType.V128 if lanes == WIDE else ValueType.F32

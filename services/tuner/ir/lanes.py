"""How many lanes a value has, and of which element."""

from services.tuner.ir.kinds import Element
from services.tuner.ir.nodes import (
    Binary,
    Bitcast,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expression,
    ExtractLane,
    IndexValue,
    Lanes,
    Load,
    MultiplyAdd,
    Read,
    Select,
    Shuffle,
    SubgroupReduce,
)
from services.tuner.ir.unsupported import unsupported


def lanes_of(expression: Expression) -> int:
    match expression:
        case (
            MultiplyAdd(left=operand)
            | Binary(left=operand)
            | Compare(left=operand)
            | Shuffle(left=operand)
        ):
            return lanes_of(operand)
        case Load(lanes=lanes) | Const(lanes=lanes) | Broadcast(lanes=lanes):
            return lanes
        case Read(register=register):
            return register.lanes
        case ExtractLane() | IndexValue() | SubgroupReduce():
            return 1
        case Lanes(values=parts):
            return len(parts)
        case Cast(value=operand) | Bitcast(value=operand) | Call(argument=operand):
            return lanes_of(operand)
        case Select(then=operand):
            return lanes_of(operand)
    raise unsupported(expression, "lane counting")


def element_of(expression: Expression) -> Element:
    """F32 or I32."""
    match expression:
        case MultiplyAdd() | Call():
            return Element.F32
        case Load(buffer=buffer):
            return buffer.element.loaded
        case Binary(left=operand) | Shuffle(left=operand):
            return element_of(operand)
        case Broadcast(value=operand) | ExtractLane(value=operand) | SubgroupReduce(value=operand):
            return element_of(operand)
        case Lanes(values=(first, *_)):
            return element_of(first)
        case Read(register=register):
            return register.element
        case Const(element=element) | Cast(element=element) | Bitcast(element=element):
            return element
        case IndexValue() | Compare():
            return Element.I32
        case Select(then=operand):
            return element_of(operand)
    raise unsupported(expression, "element typing")

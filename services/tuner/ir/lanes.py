"""How many lanes a value has."""

from services.tuner.ir.nodes import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expression,
    ExtractLane,
    IndexValue,
    Load,
    MultiplyAdd,
    Read,
    Select,
)
from services.tuner.ir.unsupported import unsupported


def lanes_of(expression: Expression) -> int:
    match expression:
        case MultiplyAdd(left=operand) | Binary(left=operand) | Compare(left=operand):
            return lanes_of(operand)
        case Load(lanes=lanes) | Const(lanes=lanes) | Broadcast(lanes=lanes):
            return lanes
        case Read(register=register):
            return register.lanes
        case ExtractLane() | IndexValue():
            return 1
        case Cast(value=operand) | Select(then=operand) | Call(argument=operand):
            return lanes_of(operand)
    raise unsupported(expression, "lane counting")

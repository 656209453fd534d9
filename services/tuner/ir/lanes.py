"""How many lanes a value has, and of which element."""

from collections.abc import Callable

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
    lanes = _LANES.get(type(expression))
    if lanes is None:
        raise unsupported(expression, "lane counting")
    return lanes(expression)


_LANES: dict[type[Expression], Callable[..., int]] = {
    **dict.fromkeys((MultiplyAdd, Binary, Compare, Shuffle), lambda e: lanes_of(e.left)),
    **dict.fromkeys((Load, Const, Broadcast), lambda e: e.lanes),
    Read: lambda e: e.register.lanes,
    **dict.fromkeys((ExtractLane, IndexValue, SubgroupReduce), lambda _: 1),
    Lanes: lambda e: len(e.values),
    **dict.fromkeys((Cast, Bitcast), lambda e: lanes_of(e.value)),
    Call: lambda e: lanes_of(e.argument),
    Select: lambda e: lanes_of(e.then),
}
"""A table, since passes ask it of every store."""


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

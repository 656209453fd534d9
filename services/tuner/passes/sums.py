"""A sum in memory becomes one in a local buffer, which is stored once.

What a plain reduction does in its first iteration, to begin with, is done before its loops.
"""

from msgspec.structs import replace

from services.tuner.ir.affine import Affine
from services.tuner.ir.kinds import LoopKind, Scope
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expression,
    If,
    Load,
    Loop,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import with_operands


def summed(block: Block, lanes: int, lane: Affine) -> Block:
    """`lane` is which of the `lanes` entries, computed at once, a statement is for."""
    return tuple(_summed(statement, lanes, lane) for statement in block)


def _summed(statement: Statement, lanes: int, lane: Affine) -> Statement:
    loops: list[Loop] = []
    inner: Block = (statement,)
    while len(inner) == 1 and isinstance(inner[0], Loop):
        loops.append(inner[0])
        inner = inner[0].body
    match inner:
        case (If(body=(Store() as first,), otherwise=()) as start, Store() as step) if (
            loops
            and _begins(start, loops)
            and (first.buffer, first.index) == (step.buffer, step.index)
            and not any(step.index.coefficient(loop.var) for loop in loops)
            and all(loop.kind is LoopKind.SERIAL for loop in loops)
        ):
            return _local(first, step, loops, lanes, lane)
    return statement


def _begins(start: If, loops: list[Loop]) -> bool:
    """The condition is that every loop is in its first iteration."""
    bounds = {(bound.index.terms, bound.index.constant, bound.limit) for bound in start.bounds}
    return bounds == {(((loop.var, sign),), 0, 1) for loop in loops for sign in (1, -1)}


def _local(first: Store, step: Store, loops: list[Loop], lanes: int, lane: Affine) -> Statement:
    target = first.buffer
    element = target.element.loaded
    total = Buffer(name=f"{target.name}.total", scope=Scope.LOCAL, element=element, size=lanes)
    here = Load(buffer=total, index=lane)

    def inside(value: Expression) -> Expression:
        match value:
            case Load(buffer=buffer) if buffer == target:
                return here
        return with_operands(value, inside)

    nest: Block = (Store(buffer=total, index=lane, value=inside(step.value)),)
    for loop in reversed(loops):
        nest = (replace(loop, body=nest),)
    begin = Store(buffer=total, index=lane, value=first.value)
    end = Store(buffer=target, index=first.index, value=here)
    return Allocate(buffer=total, body=(begin, *nest, end))

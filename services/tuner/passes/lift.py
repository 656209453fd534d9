"""Values that indices name leave the loops that do not change them."""

from collections.abc import Iterable

from msgspec.structs import replace

from services.tuner.ir.kinds import LoopKind
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expression,
    If,
    IndexValue,
    Let,
    Load,
    Loop,
    Program,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import leaves, statements


def lift(program: Program) -> Program:
    """A value moves out of a loop of which it is all that the body holds."""
    body = program.body.body
    if not any(isinstance(statement, Let) for statement in statements(body)):
        return program
    written = frozenset(s.buffer for s in statements(body) if isinstance(s, Store))
    return replace(program, body=replace(program.body, body=_block(body, written)))


def _block(block: Block, written: frozenset[Buffer]) -> Block:
    return tuple(_statement(statement, written) for statement in block)


def _statement(statement: Statement, written: frozenset[Buffer]) -> Statement:
    match statement:
        case Loop(body=body):
            return _lifted(replace(statement, body=_block(body, written)), written)
        case Let(body=body) | Allocate(body=body):
            return replace(statement, body=_block(body, written))
        case If(body=body, otherwise=otherwise):
            return replace(
                statement, body=_block(body, written), otherwise=_block(otherwise, written)
            )
    return statement


def _lifted(loop: Loop, written: frozenset[Buffer]) -> Loop | Let:
    match loop.body:
        case (Let() as let,) if loop.kind is not LoopKind.RANGE and _constant(
            leaves(let.value), loop.var, written
        ):
            return replace(let, body=(_lifted(replace(loop, body=let.body), written),))
    return loop


def _constant(parts: Iterable[Expression], var: str, written: frozenset[Buffer]) -> bool:
    """None of the parts names the variable or reads memory that the program writes."""
    for part in parts:
        match part:
            case IndexValue(index=index) if index.coefficient(var):
                return False
            case Load(buffer=buffer, index=index) if buffer in written or index.coefficient(var):
                return False
    return True

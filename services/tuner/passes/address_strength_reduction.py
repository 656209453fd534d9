"""Address arithmetic leaves the loops: one pointer for each buffer and loop level, stepped by it.

An access at `constant + Σ c·v` reads its pointer for `Σ c·v` and keeps the constant for the
immediate of the instruction. A pointer starts at the one of the enclosing loops and moves by c.
"""

from msgspec.structs import replace

from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Block,
    Buffer,
    Expression,
    If,
    Let,
    Load,
    Loop,
    Pointer,
    Program,
    Statement,
    Store,
    unsupported,
)
from services.tuner.ir.rewrite import operands

Terms = tuple[tuple[str, int], ...]
Needs = dict[tuple[str, Terms], Buffer]
"""Buffers by their name and the terms at which they are accessed, in order of first use."""


def reduce_address_strength(program: Program) -> Program:
    needs: Needs = {}
    (body,) = _block((program.body,), frozenset(), needs)
    assert isinstance(body, Loop)
    return replace(program, body=body)


def _block(block: Block, outer: frozenset[str], needs: Needs) -> Block:
    return tuple(_statement(statement, outer, needs) for statement in block)


def _statement(statement: Statement, outer: frozenset[str], needs: Needs) -> Statement:
    match statement:
        case Store(buffer=buffer, index=index, value=value):
            needs[buffer.name, index.terms] = buffer
            _collect(value, needs)
            return statement
        case Assign(value=value):
            _collect(value, needs)
            return statement
        case Loop(var=var):
            inside: Needs = {}
            body = _block(statement.body, outer | {var}, inside)
            needs.update(inside)
            return replace(statement, body=body, pointers=_pointers(var, outer, inside))
        case Let(var=var, value=value):
            used: Needs = {}
            body = _block(statement.body, outer | {var}, used)
            _collect(value, needs)
            needs.update(used)
            return replace(statement, body=body, pointers=_pointers(var, outer, used))
        case Allocate():
            return replace(statement, body=_block(statement.body, outer, needs))
        case If():
            return replace(
                statement,
                body=_block(statement.body, outer, needs),
                otherwise=_block(statement.otherwise, outer, needs),
            )
        case Barrier():
            return statement
    raise unsupported(statement, "hoisting")


def _collect(expression: Expression, needs: Needs) -> None:
    if isinstance(expression, Load):
        needs[expression.buffer.name, expression.index.terms] = expression.buffer
    else:
        for operand in operands(expression):
            _collect(operand, needs)


def _pointers(var: str, outer: frozenset[str], needs: Needs) -> tuple[Pointer, ...]:
    """One pointer for each buffer and sum of terms that `var` moves."""
    found: dict[tuple[str, Terms], Pointer] = {}
    for (name, terms), buffer in needs.items():
        stride = dict(terms).get(var)
        if stride is not None:
            parent = tuple(term for term in terms if term[0] in outer)
            here = tuple(term for term in terms if term[0] in outer or term[0] == var)
            found[name, here] = Pointer(buffer=buffer, terms=here, parent=parent, stride=stride)
    return tuple(found.values())

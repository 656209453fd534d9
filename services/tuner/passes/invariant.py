"""Vectors that an innermost loop does not change are made before it, once.

V8 makes a constant of four lanes in three instructions, and exp alone has a dozen. Those that find
no register are read from the stack, in one. Only programs with functions have enough to gain.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from services.tuner.ir.kinds import LoopKind, Scope
from services.tuner.ir.lanes import element_of
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Block,
    Broadcast,
    Const,
    Expression,
    If,
    Let,
    Load,
    Loop,
    Program,
    Read,
    Register,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import map_values, statements, with_operands

WIDE = 4


def lift_invariants(program: Program) -> Program:
    body = _Lifting().block(program.body.body)
    return replace(program, body=replace(program.body, body=body))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """What a loop writes."""

    registers: frozenset[Register]
    buffers: frozenset[str]

    @classmethod
    def of(cls, loop: Loop) -> "_Changes":
        inside = list(statements(loop.body))
        return cls(
            registers=frozenset(s.register for s in inside if isinstance(s, Assign)),
            buffers=frozenset(s.buffer.name for s in inside if isinstance(s, Store)),
        )


class _Lifting:
    """Owns the count of vectors, so that their registers have names of their own."""

    def __init__(self) -> None:
        self._count = 0

    def block(self, block: Block) -> Block:
        return tuple(new for statement in block for new in self._statement(statement))

    def _statement(self, statement: Statement) -> Iterator[Statement]:
        match statement:
            case Loop(kind=LoopKind.SERIAL) if _innermost(statement):
                yield from self._before(statement)
            case Loop(body=body) | Allocate(body=body) | Let(body=body):
                yield replace(statement, body=self.block(body))
            case If(body=body, otherwise=otherwise):
                yield replace(statement, body=self.block(body), otherwise=self.block(otherwise))
            case _:
                yield statement

    def _before(self, loop: Loop) -> Iterator[Statement]:
        changes = _Changes.of(loop)
        known: dict[str, Assign] = {}

        def lifted(expression: Expression) -> Expression:
            if not _stays(expression, changes):
                return with_operands(expression, lifted)
            # Equal numbers may differ in their sign.
            key = repr(expression)
            if key not in known:
                known[key] = Assign(register=self._register(expression), value=expression)
            return Read(register=known[key].register)

        body = map_values(loop.body, lifted)
        yield from known.values()
        yield replace(loop, body=body)

    def _register(self, expression: Expression) -> Register:
        self._count += 1
        return Register(name=f"i{self._count}", lanes=WIDE, element=element_of(expression))


def _innermost(loop: Loop) -> bool:
    return not any(isinstance(inside, Loop) for inside in statements(loop.body))


def _stays(expression: Expression, changes: _Changes) -> bool:
    """Parameters are left where they are: a register for each of their entries would be many. Zero
    is one instruction anywhere."""
    match expression:
        case Const(lanes=lanes, value=value):
            return lanes == WIDE and value != 0
        case Broadcast(value=Read(register=register)):
            return register not in changes.registers
        case Broadcast(value=Load(buffer=buffer, index=index)):
            scratch = buffer.scope is Scope.GLOBAL and buffer.name not in changes.buffers
            return scratch and not index.terms
    return False

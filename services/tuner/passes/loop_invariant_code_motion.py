"""Values that indices name leave the loops that do not change them.

Vectors that an innermost loop does not change are made before it, once.

V8 makes a constant of four lanes in three instructions, and exp alone has a dozen. Those that find
no register are read from the stack, in one. Only programs with functions have enough to gain.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Block,
    Broadcast,
    Buffer,
    Const,
    Expression,
    If,
    IndexValue,
    Let,
    Load,
    Loop,
    LoopKind,
    Program,
    Read,
    Register,
    Scope,
    Statement,
    Store,
    dtype_of,
)
from services.tuner.ir.rewrite import leaves, map_values, statements, with_operands


def hoist_lets(program: Program) -> Program:
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


WIDE = 4


def hoist_vectors(program: Program) -> Program:
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
        return Register(name=f"i{self._count}", lanes=WIDE, dtype=dtype_of(expression))


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

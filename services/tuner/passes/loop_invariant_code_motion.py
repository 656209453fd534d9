"""Loop-invariant code motion: what does not change in a loop is computed before it. Two passes:

`hoist_lets` moves variables that indices name out of loops. It runs before loops are partitioned.

    for k < 8:                                    let v = floor_div(index(j), 2) from 0 to 3:
      let v = floor_div(index(j), 2) from 0 to 3:   for k < 8:
        y[v + k] = x[k]                     →         y[v + k] = x[k]

`hoist_vectors` moves constant and broadcast vectors out of innermost loops, into registers.

    for k < 8:                                    i1 := 1.5x4
      y[4*k +4] = (x[4*k +4] * 1.5x4)       →     for k < 8: y[4*k +4] = (x[4*k +4] * i1)

V8 loads a vector constant with three instructions, and one exp has a dozen of them; a register that
is spilled to the stack is read back with one. Programs without math functions have too few vector
constants to gain from it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from services.tuner.ir.nodes import (
    LANES,
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
    Register,
    RegisterRead,
    Scope,
    Statement,
    Store,
    dtype_of,
)
from services.tuner.ir.rewrite import leaves, map_values, statements, with_operands


def hoist_lets(program: Program) -> Program:
    """Moves a loop-invariant Let that is the whole body of a loop around that loop."""
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
            return _hoisted(replace(statement, body=_block(body, written)), written)
        case Let(body=body) | Allocate(body=body):
            return replace(statement, body=_block(body, written))
        case If(body=body, otherwise=otherwise):
            return replace(
                statement, body=_block(body, written), otherwise=_block(otherwise, written)
            )
    return statement


def _hoisted(loop: Loop, written: frozenset[Buffer]) -> Loop | Let:
    match loop.body:
        case (Let() as let,) if loop.kind is not LoopKind.RANGE and _invariant(
            leaves(let.value), loop.var, written
        ):
            return replace(let, body=(_hoisted(replace(loop, body=let.body), written),))
    return loop


def _invariant(parts: Iterable[Expression], var: str, written: frozenset[Buffer]) -> bool:
    """Returns whether no part names the variable, or reads a buffer that the program writes."""
    for part in parts:
        match part:
            case IndexValue(index=index) if index.coefficient(var):
                return False
            case Load(buffer=buffer, index=index) if buffer in written or index.coefficient(var):
                return False
    return True


def hoist_vectors(program: Program) -> Program:
    body = _VectorHoisting().block(program.body.body)
    return replace(program, body=replace(program.body, body=body))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """Registers and buffers that a loop writes."""

    registers: frozenset[Register]
    buffers: frozenset[str]

    @classmethod
    def of(cls, loop: Loop) -> "_Changes":
        inside = list(statements(loop.body))
        return cls(
            registers=frozenset(s.register for s in inside if isinstance(s, Assign)),
            buffers=frozenset(s.buffer.name for s in inside if isinstance(s, Store)),
        )


class _VectorHoisting:
    """Owns the count of hoisted vectors, for unique names of their registers."""

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

        def hoisted(expression: Expression) -> Expression:
            if not _is_worth_hoisting(expression, changes):
                return with_operands(expression, hoisted)
            # Not the expression itself: 0.0 and -0.0 are equal, and different constants.
            key = repr(expression)
            if key not in known:
                known[key] = Assign(register=self._register(expression), value=expression)
            return RegisterRead(register=known[key].register)

        body = map_values(loop.body, hoisted)
        yield from known.values()
        yield replace(loop, body=body)

    def _register(self, expression: Expression) -> Register:
        self._count += 1
        return Register(name=f"i{self._count}", lanes=LANES, dtype=dtype_of(expression))


def _innermost(loop: Loop) -> bool:
    return not any(isinstance(inside, Loop) for inside in statements(loop.body))


def _is_worth_hoisting(expression: Expression, changes: _Changes) -> bool:
    """Returns whether a vector is invariant and costs more than one instruction to make again.

    Loads of parameters stay, since a register for each of their elements would be too many. Zero
    stays, as it is one instruction anywhere.
    """
    match expression:
        case Const(lanes=lanes, value=value):
            return lanes == LANES and value != 0
        case Broadcast(value=RegisterRead(register=register)):
            return register not in changes.registers
        case Broadcast(value=Load(buffer=buffer, index=index)):
            scratch = buffer.scope is Scope.GLOBAL and buffer.name not in changes.buffers
            return scratch and not index.terms
    return False

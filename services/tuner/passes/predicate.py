"""If-conversion: what a condition would set in its other arm is set before it.

    if in image: x = a[i]          x = 0
    else: x = 0             →      if in image: x = a[i]

Both write one number more. It is done in loops with so many conditions in a row that drivers walk
too many paths (`ir/decisions.py`); all other loops stay as they are.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from services.tuner.ir.affine import Affine
from services.tuner.ir.decisions import too_many
from services.tuner.ir.kinds import Scope
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Block,
    Buffer,
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
from services.tuner.ir.rewrite import leaves, statements

Place = Register | tuple[Buffer, Affine]


def predicate(program: Program) -> Program:
    body = program.body.body
    if not any(isinstance(one, Loop) and too_many(one) for one in statements(body)):
        return program
    return replace(program, body=replace(program.body, body=_block(body, inside=False)))


def _block(block: Block, *, inside: bool) -> Block:
    return tuple(new for one in block for new in _statement(one, inside=inside))


def _statement(statement: Statement, *, inside: bool) -> Block:
    """`inside` of a loop with too many decisions."""
    match statement:
        case Loop(body=body):
            within = inside or too_many(statement)
            return (replace(statement, body=_block(body, inside=within)),)
        case Let(body=body) | Allocate(body=body):
            return (replace(statement, body=_block(body, inside=inside)),)
        case If(body=body, otherwise=otherwise):
            whole = replace(
                statement,
                body=_block(body, inside=inside),
                otherwise=_block(otherwise, inside=inside),
            )
            return _converted(whole) if inside else (whole,)
    return (statement,)


def _converted(statement: If) -> Block:
    """The condition as it is, unless its body writes all that the other arm sets, and neither reads
    any of it."""
    places = _written(statement.otherwise)
    own = _written(statement.body)
    if not places or own is None or not places <= own:
        return (statement,)
    if any(_reads(leaf, places) for leaf in _leaves((*statement.otherwise, *statement.body))):
        return (statement,)
    return (*statement.otherwise, replace(statement, otherwise=()))


def _written(block: Block) -> frozenset[Place] | None:
    """What a block always writes; None where it does anything else, or writes for others to see."""
    found: set[Place] = set()
    for one in block:
        match one:
            case Assign(register=register):
                found.add(register)
            case Store(buffer=Buffer(scope=Scope.LOCAL) as buffer, index=index):
                found.add((buffer, index))
            case _:
                return None
    return frozenset(found)


def _leaves(block: Block) -> Iterator[Expression]:
    for one in block:
        if isinstance(one, Store | Assign):
            yield from leaves(one.value)


def _reads(leaf: Expression, places: frozenset[Place]) -> bool:
    """Whether it may be the value of one of the places."""
    match leaf:
        case Read(register=register):
            return register in places
        case Load(buffer=buffer):
            return any(isinstance(place, tuple) and place[0] == buffer for place in places)
    return False

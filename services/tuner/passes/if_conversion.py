"""If-conversion: the else branch runs first, and the then branch overwrites what it assigned.

    if i < 7:                           t := 0
      t := a[i]                   →     if i < 7:
    else:                                 t := a[i]
      t := 0

It costs a redundant assignment, so it is applied only in loops with so many branches in a row that
GPU drivers may fail to compile them. n branches in a row make 2^n paths through a loop (NPATH,
Nejmeh 1988). SwiftShader, Chromium's WebGPU on machines without a GPU, walks every one of them:
`Function::ExistsPath` of its SpirvShaderControlFlow.cpp, by which it finds the back edge of a loop,
queues a block once for each path to it. A 3x3 convolution whose loop gathers eight pixels, each
under `a && b && c && d` with zeros else, has 32 branches in a row: 8 KB of text that did not
compile in minutes and took 10 GB. Chromium 156: 16 in a row cost 0.1 s, 20 cost 0.5 s, 24 cost 5 s.
Outside of loops, and where one branch is empty, paths meet again at once and cost nothing.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from services.tuner.ir.affine import Affine
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
    LoopKind,
    Program,
    Register,
    RegisterRead,
    Scope,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import inner_blocks, leaves, statements

MAX_BRANCHES = 16
"""Branches in a row that a loop may have."""


def too_many_branches(loop: Loop) -> bool:
    """Returns whether a loop has more paths than drivers are known to compile.

    Each bound of an If counts: `a && b` is two branches in WGSL, as it short-circuits.
    """
    if loop.kind is not LoopKind.SERIAL:
        return False
    return branches(loop.body) + _further_bounds(loop.body) > MAX_BRANCHES


def branches(block: Block) -> int:
    """The most Ifs with an else branch that one path through the block meets, each If counted once
    whatever its bounds."""
    return sum(
        bool(one.otherwise) + max(map(branches, inner_blocks(one)))
        if isinstance(one, If)
        else sum(map(branches, inner_blocks(one)))
        for one in block
    )


def _further_bounds(block: Block) -> int:
    return sum(len(one.bounds) - 1 for one in statements(block) if isinstance(one, If))


def most_branches(program: Program) -> int:
    """The largest number of `branches` in any serial loop of the program."""
    loops = (one for one in statements(program.body.body) if isinstance(one, Loop))
    serial = (loop for loop in loops if loop.kind is LoopKind.SERIAL)
    return max((branches(loop.body) for loop in serial), default=0)


Place = Register | tuple[Buffer, Affine]


def convert_ifs(program: Program) -> Program:
    body = program.body.body
    if not any(isinstance(one, Loop) and too_many_branches(one) for one in statements(body)):
        return program
    return replace(program, body=replace(program.body, body=_block(body, inside=False)))


def _block(block: Block, *, inside: bool) -> Block:
    return tuple(new for one in block for new in _statement(one, inside=inside))


def _statement(statement: Statement, *, inside: bool) -> Block:
    """`inside`: the statement stands in a loop with too many branches."""
    match statement:
        case Loop(body=body):
            within = inside or too_many_branches(statement)
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
    """The If converted, where its then branch assigns all that the else branch assigns, and neither
    reads any of it; else the If as it is."""
    places = _written(statement.otherwise)
    own = _written(statement.body)
    if not places or own is None or not places <= own:
        return (statement,)
    if any(_reads(leaf, places) for leaf in _leaves((*statement.otherwise, *statement.body))):
        return (statement,)
    return (*statement.otherwise, replace(statement, otherwise=()))


def _written(block: Block) -> frozenset[Place] | None:
    """Returns what a block of assignments writes; None where it does more, or writes shared
    memory."""
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
    """Returns whether the leaf may read one of the places."""
    match leaf:
        case RegisterRead(register=register):
            return register in places
        case Load(buffer=buffer):
            return any(isinstance(place, tuple) and place[0] == buffer for place in places)
    return False

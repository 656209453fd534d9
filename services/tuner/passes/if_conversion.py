"""If-conversion: what a condition would set in its other arm is set before it.

    if in image: x = a[i]          x = 0
    else: x = 0             →      if in image: x = a[i]

Both write one number more. It is done in loops with so many conditions in a row that drivers walk
too many paths (`ir/decisions.py`); all other loops stay as they are.


Two-way decisions that follow one another inside of a loop: what drivers may choke on.

n of them in a row make 2^n paths through the loop (NPATH, Nejmeh 1988). SwiftShader, Chromium's
WebGPU on machines without a GPU, walks every one of them: `Function::ExistsPath` of its
SpirvShaderControlFlow.cpp, by which it finds the back edge of a loop, queues a block once for each
way to it. A 3x3 convolution whose loop gathers eight pixels, each under `a && b && c && d` with
zeros else, has 32 in a row: 8 KB of text that did not compile in minutes and took 10 GB.
Chromium 156: 16 in a row cost 0.1 s, 20 cost 0.5 s, 24 cost 5 s. Outside of loops, and where one
arm is empty, paths meet again at once and cost nothing.
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
    Read,
    Register,
    Scope,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import inner_blocks, leaves, statements

Place = Register | tuple[Buffer, Affine]


def convert_ifs(program: Program) -> Program:
    body = program.body.body
    if not any(isinstance(one, Loop) and too_many_branches(one) for one in statements(body)):
        return program
    return replace(program, body=replace(program.body, body=_block(body, inside=False)))


def _block(block: Block, *, inside: bool) -> Block:
    return tuple(new for one in block for new in _statement(one, inside=inside))


def _statement(statement: Statement, *, inside: bool) -> Block:
    """`inside` of a loop with too many decisions."""
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


MAX_BRANCHES = 16
"""In one loop."""


def too_many_branches(loop: Loop) -> bool:
    """Whether the paths through a loop are more than drivers are known to compile, where each bound
    of a condition is a decision of its own."""
    if loop.kind is not LoopKind.SERIAL:
        return False
    return branches(loop.body) + _further_bounds(loop.body) > MAX_BRANCHES


def branches(block: Block) -> int:
    """Conditions with two arms that one path meets, where bounds are evaluated together."""
    return sum(
        bool(one.otherwise) + max(map(branches, inner_blocks(one)))
        if isinstance(one, If)
        else sum(map(branches, inner_blocks(one)))
        for one in block
    )


def _further_bounds(block: Block) -> int:
    return sum(len(one.bounds) - 1 for one in statements(block) if isinstance(one, If))


def most_branches(program: Program) -> int:
    """Of all loops of a program."""
    loops = (one for one in statements(program.body.body) if isinstance(one, Loop))
    serial = (loop for loop in loops if loop.kind is LoopKind.SERIAL)
    return max((branches(loop.body) for loop in serial), default=0)

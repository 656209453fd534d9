"""Programs that no schedule has touched: four lanes in innermost loops, and a range to slice."""

from dataclasses import replace

from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    Bound,
    Const,
    If,
    IndexValue,
    Let,
    Load,
    Loop,
    LoopKind,
    Program,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import leaves, substitute
from services.tuner.passes.independence import independent

LANES = 4
CHUNK = 256
"""Iterations of a lone loop that make one of the range."""


def sliceable(program: Program) -> Program:
    """The one loop of the range's body becomes the range, where its iterations are independent."""
    match program.body.body:
        case (Loop(kind=LoopKind.SERIAL) as loop,) if program.body.extent == 1 and independent(
            loop
        ):
            ranged = loop if _holds_loop(loop.body) else _chunked(loop)
            return replace(program, body=replace(ranged, kind=LoopKind.RANGE))
    return program


def _holds_loop(block: Block) -> bool:
    return any(isinstance(statement, Loop) for statement in block)


def _chunked(loop: Loop) -> Loop:
    """The loop in pieces of `CHUNK` iterations, the last one guarded."""
    if loop.extent <= CHUNK:
        return loop
    inner = f"{loop.var}.in"
    place = Affine.of(0, {loop.var: CHUNK, inner: 1})
    body = substitute(loop.body, loop.var, place)
    if loop.extent % CHUNK:
        body = (If(bounds=(Bound(index=place, limit=loop.extent),), body=body),)
    piece = Loop(var=inner, extent=CHUNK, kind=LoopKind.SERIAL, body=body)
    return replace(loop, extent=-(-loop.extent // CHUNK), body=(piece,))


def vectorise(program: Program) -> Program:
    """Innermost serial loops over consecutive memory become vector loops and a tail."""
    return replace(program, body=replace(program.body, body=_block(program.body.body)))


def _block(block: Block) -> Block:
    return tuple(new for statement in block for new in _statement(statement))


def _statement(statement: Statement) -> Block:
    match statement:
        case Loop(kind=LoopKind.SERIAL) if _consecutive(statement):
            return _split(statement)
        case Loop(body=body) | Allocate(body=body) | Let(body=body):
            return (replace(statement, body=_block(body)),)
        case If(body=body, otherwise=otherwise):
            return (replace(statement, body=_block(body), otherwise=_block(otherwise)),)
    return (statement,)


def _consecutive(loop: Loop) -> bool:
    if loop.extent < LANES or not independent(loop):
        return False
    for statement in loop.body:
        if not isinstance(statement, Store) or statement.index.coefficient(loop.var) != 1:
            return False
        for leaf in leaves(statement.value):
            match leaf:
                case Load(index=index) if index.coefficient(loop.var) in (0, 1):
                    continue
                case IndexValue(index=index) if not index.coefficient(loop.var):
                    continue
                case Const():
                    continue
            return False
    return True


def _split(loop: Loop) -> Block:
    groups, rest = divmod(loop.extent, LANES)
    lane = f"{loop.var}.lane"
    here = Affine.of(0, {loop.var: LANES, lane: 1})
    vector = Loop(
        var=lane, extent=LANES, kind=LoopKind.VECTOR, body=substitute(loop.body, loop.var, here)
    )
    main = (replace(loop, extent=groups, body=(vector,)) if groups > 1 else _single(vector, loop),)
    if not rest:
        return main
    behind = Affine(constant=groups * LANES, terms=((loop.var, 1),))
    return (*main, replace(loop, extent=rest, body=substitute(loop.body, loop.var, behind)))


def _single(vector: Loop, loop: Loop) -> Loop:
    return replace(vector, body=substitute(vector.body, loop.var, Affine(constant=0)))

"""The outer loops of a plain nest become workgroups and their threads."""

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from msgspec.structs import replace

from services.tuner.ir.affine import Affine
from services.tuner.ir.kinds import LANES, BinaryOp, Element, LoopKind
from services.tuner.ir.nodes import (
    Allocate,
    Binary,
    Block,
    Bound,
    Const,
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
from services.tuner.ir.rewrite import leaves, substitute
from services.tuner.passes.independence import independent
from services.tuner.passes.sums import summed

GROUP, THREAD, VECTOR = "group", "thread", "vector"


class Stride(StrEnum):
    """How far apart what one thread makes lies: as far as its workgroup has threads, or all
    workgroups have, or side by side."""

    BLOCK = "block"
    GRID = "grid"
    NEXT = "next"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """`count` to a workgroup; each makes four neighbours at once where `wide` and possible, and
    does so `vectors` times, a `stride` apart."""

    count: int
    vectors: int
    wide: bool
    stride: Stride = Stride.BLOCK


def threaded(program: Program, threads: Threads) -> Program:
    """Each iteration of the outer loops that are independent is for one thread."""
    loops, body = _outer(program.body.body)
    lanes = LANES if threads.wide and loops and _consecutive(loops[-1], body) else 1
    if lanes > 1:
        loops, body = _four(loops, body)
    else:
        body = summed(body, 1, Affine(constant=0))
    extents = [loop.extent for loop in loops]
    vectors = max(1, min(threads.vectors, prod(extents) // threads.count))
    groups = -(-prod(extents) // (threads.count * vectors))
    place = _place(threads, vectors, groups)
    body = _placed(loops, place, body)
    if prod(extents) % (threads.count * vectors):
        body = (If(bounds=(Bound(index=place, limit=prod(extents)),), body=body),)
    if vectors > 1:
        body = (Loop(var=VECTOR, extent=vectors, kind=LoopKind.UNROLLED, body=body),)
    inner = Loop(var=THREAD, extent=threads.count, kind=LoopKind.THREAD_INDEX, body=body)
    return replace(program, body=Loop(var=GROUP, extent=groups, kind=LoopKind.RANGE, body=(inner,)))


def _place(threads: Threads, vectors: int, groups: int) -> Affine:
    """The number of an iteration, from workgroup, vector and thread."""
    count = threads.count
    if vectors == 1:
        return Affine.of(0, {GROUP: count, THREAD: 1})
    steps = {
        Stride.BLOCK: {GROUP: count * vectors, VECTOR: count, THREAD: 1},
        Stride.GRID: {GROUP: count, VECTOR: count * groups, THREAD: 1},
        Stride.NEXT: {GROUP: count * vectors, VECTOR: 1, THREAD: vectors},
    }
    return Affine.of(0, steps[threads.stride])


def _outer(block: Block) -> tuple[list[Loop], Block]:
    """Independent loops around everything, and what is inside of them."""
    loops: list[Loop] = []
    while len(block) == 1 and isinstance(block[0], Loop) and independent(block[0]):
        loops.append(block[0])
        block = block[0].body
    return loops, block


def _consecutive(loop: Loop, body: Block) -> bool:
    """Four iterations touch neighbours, or the same, and are guarded alike."""
    if loop.extent % LANES:
        return False
    return all(_lane_by_lane(statement, loop.var) for statement in body)


def _lane_by_lane(statement: Statement, var: str) -> bool:
    match statement:
        case Store(index=index, value=value):
            return index.coefficient(var) == 1 and all(
                _neighbours(leaf, var) for leaf in leaves(value)
            )
        case Loop(body=body, kind=LoopKind.SERIAL):
            return all(_lane_by_lane(inner, var) for inner in body)
        case If(bounds=bounds, body=body, otherwise=otherwise):
            return all(_alike(bound, var) for bound in bounds) and all(
                _lane_by_lane(inner, var) for inner in (*body, *otherwise)
            )
    return False


def _alike(bound: Bound, var: str) -> bool:
    """Four iterations from a multiple of four on keep the bound, or none does."""
    factor = bound.index.coefficient(var)
    if not factor:
        return True
    others = [c for name, c in bound.index.terms if name != var]
    room = bound.limit - bound.index.constant
    edge = {1: room, -1: room - 1}.get(factor)
    return edge is not None and not edge % LANES and not any(c % LANES for c in others)


def _neighbours(leaf: Expression, var: str) -> bool:
    match leaf:
        case Load(index=index):
            return index.coefficient(var) in (0, 1)
        case IndexValue(index=index):
            return not index.coefficient(var)
    return True


def _four(loops: list[Loop], body: Block) -> tuple[list[Loop], Block]:
    """The innermost loop in steps of four, whose iterations are lanes of every store."""
    *outer, last = loops
    lane = f"{last.var}.lane"
    body = substitute(body, last.var, Affine.of(0, {last.var: LANES, lane: 1}))
    body = summed(body, LANES, Affine.variable(lane))
    return [*outer, replace(last, extent=last.extent // LANES)], _lanes(body, lane)


def _lanes(block: Block, lane: str) -> Block:
    return tuple(_vector(statement, lane) for statement in block)


def _vector(statement: Statement, lane: str) -> Statement:
    match statement:
        case Loop(body=body) | Allocate(body=body):
            return replace(statement, body=_lanes(body, lane))
        case If(bounds=bounds, body=body, otherwise=otherwise):
            first = Affine(constant=0)
            return If(
                bounds=tuple(replace(b, index=b.index.substitute(lane, first)) for b in bounds),
                body=_lanes(body, lane),
                otherwise=_lanes(otherwise, lane),
            )
    return Loop(var=lane, extent=LANES, kind=LoopKind.VECTOR, body=(statement,))


def _placed(loops: list[Loop], place: Affine, body: Block) -> Block:
    """The body where the loops' variables follow from a number that counts all iterations."""
    if not loops:
        return body
    if len(loops) == 1:
        return substitute(body, loops[0].var, place)
    rest = IndexValue(index=place)
    lets: list[Let] = []
    for loop, outer in zip(reversed(loops), reversed(loops[:-1]), strict=False):
        over = f"{outer.var}.up"
        size = prod(each.extent for each in loops[: loops.index(loop)])
        lets.append(_let(loop.var, BinaryOp.FLOOR_MOD, rest, loop.extent, loop.extent))
        lets.append(_let(over, BinaryOp.FLOOR_DIV, rest, loop.extent, size))
        rest = IndexValue(index=Affine.variable(over))
    first = loops[0]
    body = substitute(body, first.var, rest.index)
    for let in reversed(lets):
        body = (replace(let, body=body),)
    return body


def _let(var: str, op: BinaryOp, value: Expression, by: int, extent: int) -> Let:
    divisor = Const(value=by, element=Element.I32)
    quotient = Binary(op=op, left=value, right=divisor)
    return Let(var=var, value=quotient, low=0, high=extent - 1, body=())

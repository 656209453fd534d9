"""Thread binding: the parallel outer loops of an unscheduled nest become workgroups and threads.

    for whole < 1 range:                for group < 2 range:
      for i < 64:                         for thread < 64 thread_index:
        for j < 8:                →         let j = floor_mod(index(64*group + thread), 2) …
          y[8*i + j] = x[8*i + j]             y[… +4] = x[… +4]

The loops are fused into one number of an iteration, which workgroup and thread index give; div and
mod give the loop variables back (TVM: fuse, split, bind; DLight's Fallback schedule). Where the
innermost loop allows it a thread computes four neighbours at once. `split_nests` comes before:
several loop nests become a program, and so a dispatch, each.

A sum that the nest accumulates in memory is accumulated in a local buffer and stored once
(`accumulate_locally`; LLVM calls this promotion of memory to scalars in LICM):

    for k < 8:                          local y.total: f32[1]
      if k < 1: y[i] = 0                y.total[0] = 0
      y[i] = (y[i] + x[8*i + k])  →     for k < 8: y.total[0] = (y.total[0] + x[8*i + k])
                                        y[i] = y.total[0]
"""

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, Bound, variable
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Binary,
    BinaryOp,
    Block,
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
    Scope,
    Statement,
    Store,
    unsupported,
)
from services.tuner.ir.rewrite import leaves, substitute, with_operands
from services.tuner.passes.dependence import is_parallel

GROUP, THREAD, VECTOR = "group", "thread", "vector"


class Stride(StrEnum):
    """Entries that one thread computes lie so far apart.

    BLOCK: as many entries as its workgroup has threads. GRID: as many as all workgroups have
    threads (a grid-stride loop). NEXT: side by side.
    """

    BLOCK = "block"
    GRID = "grid"
    NEXT = "next"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadBinding:
    """`count` threads a workgroup. Each computes `vectors` entries, a `stride` apart; an entry is
    four neighbours where `vec4` is set and the program allows it.
    """

    count: int
    vectors: int
    vec4: bool
    stride: Stride = Stride.BLOCK


def bind_threads(program: Program, threads: ThreadBinding) -> Program:
    """Binds the parallel outer loops of a program of one nest to workgroups and threads."""
    loops, body = _parallel_loops(program.body.body)
    lanes = LANES if threads.vec4 and loops and _consecutive(loops[-1], body) else 1
    if lanes > 1:
        loops, body = _split_by_lanes(loops, body)
    else:
        body = accumulate_locally(body, 1, Affine(constant=0))
    extents = [loop.extent for loop in loops]
    vectors = max(1, min(threads.vectors, prod(extents) // threads.count))
    groups = -(-prod(extents) // (threads.count * vectors))
    place = _place(threads, vectors, groups)
    body = _unfused(loops, place, body)
    if prod(extents) % (threads.count * vectors):
        body = (If(bounds=(Bound(index=place, limit=prod(extents)),), body=body),)
    if vectors > 1:
        body = (Loop(var=VECTOR, extent=vectors, kind=LoopKind.UNROLLED, body=body),)
    inner = Loop(var=THREAD, extent=threads.count, kind=LoopKind.THREAD_INDEX, body=body)
    return replace(program, body=Loop(var=GROUP, extent=groups, kind=LoopKind.RANGE, body=(inner,)))


def _place(threads: ThreadBinding, vectors: int, groups: int) -> Affine:
    """The number of an iteration of the fused loops, from workgroup, vector and thread."""
    count = threads.count
    if vectors == 1:
        return Affine.of(0, {GROUP: count, THREAD: 1})
    steps = {
        Stride.BLOCK: {GROUP: count * vectors, VECTOR: count, THREAD: 1},
        Stride.GRID: {GROUP: count, VECTOR: count * groups, THREAD: 1},
        Stride.NEXT: {GROUP: count * vectors, VECTOR: 1, THREAD: vectors},
    }
    return Affine.of(0, steps[threads.stride])


def _parallel_loops(block: Block) -> tuple[list[Loop], Block]:
    """The parallel loops around everything, outermost first, and their body."""
    loops: list[Loop] = []
    while len(block) == 1 and isinstance(block[0], Loop) and is_parallel(block[0]):
        loops.append(block[0])
        block = block[0].body
    return loops, block


def _consecutive(loop: Loop, body: Block) -> bool:
    """Returns whether four iterations of the loop can be four lanes."""
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
            return all(_holds_for_all_lanes(bound, var) for bound in bounds) and all(
                _lane_by_lane(inner, var) for inner in (*body, *otherwise)
            )
    return False


def _holds_for_all_lanes(bound: Bound, var: str) -> bool:
    """Returns whether the bound holds for all of four iterations from a multiple of four on, or for
    none.

    It does where it changes at a multiple of four, whatever the other variables are.
    """
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


def _split_by_lanes(loops: list[Loop], body: Block) -> tuple[list[Loop], Block]:
    """Splits the innermost loop by four; the inner part becomes a vector loop around each store."""
    *outer, last = loops
    lane = f"{last.var}.lane"
    body = substitute(body, last.var, Affine.of(0, {last.var: LANES, lane: 1}))
    body = accumulate_locally(body, LANES, variable(lane))
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


def _unfused(loops: list[Loop], place: Affine, body: Block) -> Block:
    """The body with the loops' variables computed from `place`, the number of the iteration."""
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
        rest = IndexValue(index=variable(over))
    first = loops[0]
    body = substitute(body, first.var, rest.index)
    for let in reversed(lets):
        body = (replace(let, body=body),)
    return body


def _let(var: str, op: BinaryOp, value: Expression, by: int, extent: int) -> Let:
    divisor = Const(value=by, dtype=DType.I32)
    quotient = Binary(op=op, left=value, right=divisor)
    return Let(var=var, value=quotient, low=0, high=extent - 1, body=())


def split_nests(program: Program) -> tuple[Program, ...]:
    """A program for each loop nest, to be run one after another; buffers between nests become
    parameters of all.

    Raises UnsupportedProgram where a nest is inside an allocation that is not of scope GLOBAL.
    """
    shared: list[Buffer] = []
    nests = _nests(program.body.body, shared)
    parameters = (*program.parameters, *shared)
    return tuple(
        Program(parameters=parameters, body=replace(program.body, body=(nest,))) for nest in nests
    )


def _nests(block: Block, shared: list[Buffer]) -> list[Statement]:
    found: list[Statement] = []
    for statement in block:
        match statement:
            case Allocate(buffer=buffer, body=body) if buffer.scope is Scope.GLOBAL:
                shared.append(buffer)
                found += _nests(body, shared)
            case Allocate():
                raise unsupported(statement, "the split into loop nests")
            case _:
                found.append(statement)
    return found


def accumulate_locally(block: Block, lanes: int, lane: Affine) -> Block:
    """Gives sums a local accumulator of `lanes` elements; a statement adds to element `lane`."""
    return tuple(_summed(statement, lanes, lane) for statement in block)


def _summed(statement: Statement, lanes: int, lane: Affine) -> Statement:
    loops: list[Loop] = []
    inner: Block = (statement,)
    while len(inner) == 1 and isinstance(inner[0], Loop):
        loops.append(inner[0])
        inner = inner[0].body
    match inner:
        case (If(body=(Store() as first,), otherwise=()) as start, Store() as step) if (
            loops
            and _is_first_iteration(start, loops)
            and (first.buffer, first.index) == (step.buffer, step.index)
            and not any(step.index.coefficient(loop.var) for loop in loops)
            and all(loop.kind is LoopKind.SERIAL for loop in loops)
        ):
            return _local(first, step, loops, lanes, lane)
    return statement


def _is_first_iteration(start: If, loops: list[Loop]) -> bool:
    """Returns whether the condition is that every loop is in its first iteration."""
    bounds = {(bound.index.terms, bound.index.constant, bound.limit) for bound in start.bounds}
    return bounds == {(((loop.var, sign),), 0, 1) for loop in loops for sign in (1, -1)}


def _local(first: Store, step: Store, loops: list[Loop], lanes: int, lane: Affine) -> Statement:
    target = first.buffer
    dtype = target.dtype.compute_dtype
    total = Buffer(name=f"{target.name}.total", scope=Scope.LOCAL, dtype=dtype, size=lanes)
    here = Load(buffer=total, index=lane)

    def inside(value: Expression) -> Expression:
        match value:
            case Load(buffer=buffer) if buffer == target:
                return here
        return with_operands(value, inside)

    nest: Block = (Store(buffer=total, index=lane, value=inside(step.value)),)
    for loop in reversed(loops):
        nest = (replace(loop, body=nest),)
    begin = Store(buffer=total, index=lane, value=first.value)
    end = Store(buffer=target, index=first.index, value=here)
    return Allocate(buffer=total, body=(begin, *nest, end))

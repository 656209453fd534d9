"""Auto-vectorisation of inner loops, and slicing of the outer loop, for unscheduled programs.

    for whole < 1 range:                for i < 10 range:
      for i < 10:                         for j < 4:
        for j < 18:               →         for j.lane < 4 vector:
          y[18*i + j] = x[j]                  y[18*i + 4*j + j.lane] = x[4*j + j.lane]
                                          for j < 2: y[18*i + j + 16] = x[j + 16]

Innermost parallel loops over consecutive memory are strip-mined by four lanes, or by several
vectors of four. The outermost parallel loop becomes the range, which the caller cuts into slices
for threads and for warm-up (ABI 1: lo and hi).
"""

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, Bound
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Block,
    Buffer,
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
from services.tuner.ir.rewrite import leaves, statements, substitute
from services.tuner.passes.dependence import in_lanes, is_parallel

CHUNK = 256
"""Iterations of a single loop in one iteration of the range, unless a schedule says otherwise."""


def slice_outer_loop(program: Program, chunk: int) -> Program:
    """Makes the only loop of the body the range, where its iterations are independent.

    A loop without loops inside is cut into chunks of `chunk` iterations first, so that an iteration
    of the range is worth a call; a loop of one chunk stays as it is.
    """
    match program.body.body:
        case (Loop(kind=LoopKind.SERIAL) as loop,) if program.body.extent == 1 and is_parallel(
            loop
        ):
            if not _holds_loop(loop.body) and loop.extent <= chunk:
                return program
            ranged = loop if _holds_loop(loop.body) else _chunked(loop, chunk)
            return replace(program, body=replace(ranged, kind=LoopKind.RANGE))
    return program


def _holds_loop(block: Block) -> bool:
    return any(isinstance(statement, Loop) for statement in statements(block))


def _chunked(loop: Loop, chunk: int) -> Loop:
    """The loop strip-mined by `chunk`, the last strip guarded."""
    inner = f"{loop.var}.in"
    place = Affine.of(0, {loop.var: chunk, inner: 1})
    body = substitute(loop.body, loop.var, place)
    if loop.extent % chunk:
        body = (If(bounds=(Bound(index=place, limit=loop.extent),), body=body),)
    piece = Loop(var=inner, extent=chunk, kind=LoopKind.SERIAL, body=body)
    return replace(loop, extent=-(-loop.extent // chunk), body=(piece,))


def vectorise_inner_loops(program: Program, vectors: int) -> Program:
    """Strip-mines innermost parallel loops on consecutive memory by `vectors` times four lanes."""
    body = _block(program.body.body, vectors)
    return replace(program, body=replace(program.body, body=body))


def _block(block: Block, vectors: int) -> Block:
    return tuple(new for statement in block for new in _statement(statement, vectors))


def _statement(statement: Statement, vectors: int) -> Block:
    match statement:
        case Loop(kind=LoopKind.SERIAL) if _consecutive(statement):
            return _split(statement, vectors)
        case Loop(body=body) | Allocate(body=body) | Let(body=body):
            return (replace(statement, body=_block(body, vectors)),)
        case If(body=body, otherwise=otherwise):
            return (
                replace(
                    statement, body=_block(body, vectors), otherwise=_block(otherwise, vectors)
                ),
            )
    return (statement,)


def _consecutive(loop: Loop) -> bool:
    """Returns whether four iterations store to neighbours and load neighbours or the same
    element."""
    if loop.extent < LANES or not is_parallel(loop):
        return False
    for statement in loop.body:
        if not isinstance(statement, Store) or statement.index.coefficient(loop.var) != 1:
            return False
        if statement.buffer.dtype not in (DType.F32, DType.I32):
            return False
        if not in_lanes(statement.value, loop.var):
            return False
        for leaf in leaves(statement.value):
            match leaf:
                case Load(buffer=Buffer(dtype=DType.I64)):
                    return False
                case Load(index=index) if index.coefficient(loop.var) in (0, 1):
                    continue
                case IndexValue(index=index) if not index.coefficient(loop.var):
                    continue
                case Const():
                    continue
            return False
    return True


def _split(loop: Loop, vectors: int) -> Block:
    """Full steps, then the rest in single vectors, then the rest of that in single lanes."""
    steps, rest = divmod(loop.extent, LANES * vectors)
    parts = [(0, steps, LANES * vectors)] if steps else []
    done = loop.extent - rest
    parts += [(done, rest // LANES, LANES)] if rest >= LANES else []
    parts += [(loop.extent - rest % LANES, rest % LANES, 1)] if rest % LANES else []
    return tuple(new for part in parts for new in _part(loop, *part))


def _part(loop: Loop, first: int, count: int, width: int) -> Block:
    """`count` steps of `width` iterations each, from iteration `first` on."""
    lane = f"{loop.var}.lane"
    coefficients = {loop.var: width if count > 1 else 0} | ({lane: 1} if width > 1 else {})
    body = substitute(loop.body, loop.var, Affine.of(first, coefficients))
    if width > 1:
        body = (Loop(var=lane, extent=width, kind=LoopKind.VECTOR, body=body),)
    return (replace(loop, extent=count, body=body),) if count > 1 else body

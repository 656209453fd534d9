"""Loop partitioning: a loop is split where its guards change, so that its main part has none.

    for i < 3:                          for i < 2:
      for k < 4:                          for k < 4: y[4*i + k] = 1
        if 4*i + k < 10:          →
          y[4*i + k] = 1                for k < 2: y[k + 8] = 1

This is index-set splitting (TVM's LoopPartition, LLVM's loop peeling). Iterations of the tail are
counted from 0 again, and a tail of one iteration is no loop: its variable becomes a constant, which
decides the guards inside. The range loop belongs to the caller, who gives its bounds, so it cannot
be split; its parts become the two branches of an If on its variable. Where they were too many, it
stays whole with its guards.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from services.tuner.ir.affine import Affine, Bound, Ranges, variable
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    If,
    Let,
    Loop,
    LoopKind,
    Program,
    Statement,
)
from services.tuner.ir.rewrite import inner_blocks, substitute

MOST_PARTS = 4
"""Parts of a range loop at most. Each is a copy of its body: twenty stages of a walk through trees,
each with a guard of its own, would be twelve times the code."""


def partition_loops(program: Program) -> Program:
    loop = program.body
    whole = _block(loop.body, {loop.var: (0, loop.extent - 1)})
    body = _range(loop, 0, loop.extent) if _parts(loop) <= MOST_PARTS else whole
    return replace(program, body=replace(loop, body=body))


def _parts(loop: Loop) -> int:
    """Parts that the range loop would be split into."""
    low, parts = 0, 1
    while (cut := _cut(loop.var, loop.body, {loop.var: (low, loop.extent - 1)})) is not None:
        low, parts = cut, parts + 1
    return parts


def _range(loop: Loop, low: int, high: int) -> Block:
    """The body of the range loop for iterations `low` to `high` - 1, as nested Ifs."""
    cut = _cut(loop.var, loop.body, {loop.var: (low, high - 1)})
    if cut is None:
        body = loop.body
        if high - low == 1 < loop.extent:
            body = substitute(body, loop.var, Affine(constant=low))
        return _block(body, {loop.var: (low, high - 1)})
    bound = Bound(index=variable(loop.var), limit=cut)
    main, rest = _range(loop, low, cut), _range(loop, cut, high)
    return (If(bounds=(bound,), body=main, otherwise=rest),)


def _block(block: Block, ranges: Ranges) -> Block:
    return tuple(new for statement in block for new in _statement(statement, ranges))


def _statement(statement: Statement, ranges: Ranges) -> Block:
    match statement:
        case Loop(kind=LoopKind.SERIAL):
            return _serial(statement, ranges)
        case Loop(var=var, extent=extent):
            body = _block(statement.body, {**ranges, var: (0, extent - 1)})
            return (replace(statement, body=body),) if body else ()
        case Allocate():
            body = _block(statement.body, ranges)
            return (replace(statement, body=body),) if body else ()
        case Let(var=var, low=low, high=high):
            body = _block(statement.body, {**ranges, var: (low, high)})
            return (replace(statement, body=body),) if body else ()
        case If():
            return _decided(statement, ranges)
    return (statement,)


def _decided(statement: If, ranges: Ranges) -> Block:
    """Drops bounds that always hold; takes the other branch where one never holds."""
    spans = [(bound, *bound.index.bounds(ranges)) for bound in statement.bounds]
    if any(low >= bound.limit for bound, low, _ in spans):
        return _block(statement.otherwise, ranges)
    undecided = tuple(bound for bound, _, high in spans if high >= bound.limit)
    body = _block(statement.body, ranges)
    if not undecided:
        return body
    otherwise = _block(statement.otherwise, ranges)
    return (replace(statement, bounds=undecided, body=body, otherwise=otherwise),)


def _serial(loop: Loop, ranges: Ranges) -> Block:
    """The loop as it is, or its main part followed by its tail, which counts from 0 again."""
    if loop.extent == 1:
        return _block(substitute(loop.body, loop.var, Affine(constant=0)), ranges)
    inside = {**ranges, loop.var: (0, loop.extent - 1)}
    cut = _cut(loop.var, loop.body, inside)
    if cut is None:
        body = _block(loop.body, inside)
        return (replace(loop, body=body),) if body else ()
    shifted = Affine(constant=cut, terms=((loop.var, 1),))
    tail = replace(loop, extent=loop.extent - cut, body=substitute(loop.body, loop.var, shifted))
    return (*_serial(replace(loop, extent=cut), ranges), *_serial(tail, ranges))


def _cut(var: str, body: Block, ranges: Ranges) -> int | None:
    """The first iteration from which on some guard of the body is decided, or no longer is."""
    first, last = ranges[var]
    cuts = [
        cut
        for bound, scope in _guards(body, ranges)
        for cut in _thresholds(bound, var, scope)
        if first < cut <= last
    ]
    return min(cuts, default=None)


def _thresholds(bound: Bound, var: str, ranges: Ranges) -> tuple[int, ...]:
    """Values of `var` at which the bound changes between always, sometimes and never holding, over
    all values of the other variables in their ranges."""
    factor = bound.index.coefficient(var)
    if not factor or bound.index.bounds(ranges)[1] < bound.limit:
        return ()
    # factor·var must be at most this, where the other terms are smallest, and where largest.
    slacks = [bound.limit - 1 - rest for rest in bound.index.bounds({**ranges, var: (0, 0)})]
    if factor > 0:
        return tuple(slack // factor + 1 for slack in slacks)
    return tuple(-(slack // -factor) for slack in slacks)


def _guards(block: Block, ranges: Ranges) -> Iterator[tuple[Bound, Ranges]]:
    """Every bound that is worth a split, with the ranges of the variables that it may name.

    An If around whole loops is not worth one: it is evaluated once a loop, and a split doubles the
    code.
    """
    for statement in block:
        inside = ranges
        match statement:
            case Loop(var=var, extent=extent):
                inside = {**ranges, var: (0, extent - 1)}
            case Let(var=var, low=low, high=high):
                inside = {**ranges, var: (low, high)}
            case If(bounds=bounds) if not any(isinstance(s, Loop) for s in statement.body):
                yield from ((bound, ranges) for bound in bounds)
        for inner in inner_blocks(statement):
            yield from _guards(inner, inside)

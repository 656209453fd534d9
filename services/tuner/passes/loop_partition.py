"""Main nest and tail: loops are cut where their guards stop holding for every inner iteration.

In the main part the guards are gone; so they are where they never hold. The tail of a tiled axis is
one iteration, so its variable becomes a constant and the guards inside are decided by the loops
below. The range loop is the
caller's and stays whole: its parts become branches.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from services.tuner.ir.affine import Affine, Range
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    Bound,
    If,
    Let,
    Loop,
    LoopKind,
    Program,
    Statement,
)
from services.tuner.ir.rewrite import inner_blocks, substitute

Ranges = Mapping[str, Range]


def partition_loops(program: Program) -> Program:
    loop = program.body
    return replace(program, body=replace(loop, body=_range(loop, 0, loop.extent)))


def _range(loop: Loop, low: int, high: int) -> Block:
    """The body where the caller's variable is from `low` to `high` - 1."""
    cut = _cut(loop.var, loop.body, {loop.var: (low, high - 1)})
    if cut is None:
        body = loop.body
        if high - low == 1 < loop.extent:
            body = substitute(body, loop.var, Affine(constant=low))
        return _block(body, {loop.var: (low, high - 1)})
    bound = Bound(index=Affine.variable(loop.var), limit=cut)
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
    """Bounds that always hold go; one that never holds leaves the other branch."""
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
    """The loop whole, or its main part followed by its tail counted from 0 again."""
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
    """The first iteration at which a guard starts or stops to hold for all, or any, that is
    inside."""
    first, last = ranges[var]
    cuts = [
        cut
        for bound, scope in _guards(body, ranges)
        for cut in _turns(bound, var, scope)
        if first < cut <= last
    ]
    return min(cuts, default=None)


def _turns(bound: Bound, var: str, ranges: Ranges) -> tuple[int, ...]:
    """Where, as `var` grows, the bound stops or starts to hold: whatever the other variables are,
    and whether it holds for any value of them."""
    factor = bound.index.coefficient(var)
    if not factor or bound.index.bounds(ranges)[1] < bound.limit:
        return ()
    spares = [bound.limit - 1 - o for o in bound.index.bounds({**ranges, var: (0, 0)})]
    if factor > 0:
        return tuple(spare // factor + 1 for spare in spares)
    return tuple(-(spare // -factor) for spare in spares)


def _guards(block: Block, ranges: Ranges) -> Iterator[tuple[Bound, Ranges]]:
    """Every bound that is worth a cut, with the ranges of the variables that it may name.

    One around whole loops is not: it is asked for once a loop, and a cut repeats the code.
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

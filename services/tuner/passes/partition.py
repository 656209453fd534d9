"""Main nest and tail: loops are cut where their guards stop holding for every inner iteration.

In the main part the guards are gone. The tail of a tiled axis is one iteration, so its variable
becomes a constant and the guards inside are decided by the loops below. The range loop is the
caller's and stays whole: its two parts become the branches of one condition.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from services.tuner.ir.affine import Affine, Range
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    Bound,
    If,
    Loop,
    LoopKind,
    Program,
    Statement,
)
from services.tuner.ir.rewrite import inner_blocks, substitute

Ranges = Mapping[str, Range]


def partition(program: Program) -> Program:
    loop = program.body
    whole = {loop.var: (0, loop.extent - 1)}
    cut = _cut(loop, {})
    if not 0 < cut < loop.extent:
        return replace(program, body=replace(loop, body=_block(loop.body, whole)))
    main = _block(loop.body, {loop.var: (0, cut - 1)})
    rest = loop.body
    if loop.extent - cut == 1:
        rest = substitute(rest, loop.var, Affine(constant=cut))
    tail = _block(rest, {loop.var: (cut, loop.extent - 1)})
    branch = If(
        bounds=(Bound(index=Affine.variable(loop.var), limit=cut),), body=main, otherwise=tail
    )
    return replace(program, body=replace(loop, body=(branch,)))


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
    cut = _cut(loop, ranges)
    if not 0 < cut < loop.extent:
        body = _block(loop.body, {**ranges, loop.var: (0, loop.extent - 1)})
        return (replace(loop, body=body),) if body else ()
    shifted = Affine(constant=cut, terms=((loop.var, 1),))
    tail = replace(loop, extent=loop.extent - cut, body=substitute(loop.body, loop.var, shifted))
    return (*_serial(replace(loop, extent=cut), ranges), *_serial(tail, ranges))


def _cut(loop: Loop, ranges: Ranges) -> int:
    """Iterations from 0 on in which every guard on the loop's variable always holds."""
    inside = {**ranges, loop.var: (0, loop.extent - 1)}
    cut = loop.extent
    for bound, scope in _guards(loop.body, inside):
        factor = bound.index.coefficient(loop.var)
        if factor > 0 and bound.index.bounds(scope)[1] >= bound.limit:
            others = bound.index.bounds({**scope, loop.var: (0, 0)})[1]
            cut = min(cut, max(0, (bound.limit - 1 - others) // factor + 1))
    return cut


def _guards(block: Block, ranges: Ranges) -> Iterator[tuple[Bound, Ranges]]:
    """Every bound of the block, with the ranges of the variables that it may name."""
    for statement in block:
        inside = ranges
        match statement:
            case Loop(var=var, extent=extent):
                inside = {**ranges, var: (0, extent - 1)}
            case If(bounds=bounds):
                yield from ((bound, ranges) for bound in bounds)
        for inner in inner_blocks(statement):
            yield from _guards(inner, inside)

"""Dependence test: whether the iterations of a loop may run in any order, or at once.

    for i < 8: y[4*i + j] = x[i]        parallel: iterations write 4 apart, and j is below 4
    for i < 8: y[i + 1] = y[i]          not parallel: an iteration reads what another wrote

The test is conservative. It takes all accesses of a buffer that the loop writes, and wants the loop
variable to move every one of them by the same stride, which must exceed what one iteration spans.
Variables of the loops around must occur in all of the indices alike.
"""

from collections.abc import Iterator, Mapping

from services.tuner.ir.affine import Affine, Range
from services.tuner.ir.nodes import (
    DIVISIONS,
    SHIFTS,
    Allocate,
    Binary,
    Block,
    Buffer,
    Expression,
    IndexValue,
    Let,
    Load,
    Loop,
    Store,
)
from services.tuner.ir.rewrite import inner_blocks, leaves, subexpressions

Access = tuple[Buffer, Affine, bool, Mapping[str, Range]]
"""Buffer, index, whether it is written, and the ranges of the variables bound inside the loop."""


def is_parallel(loop: Loop) -> bool:
    """Returns whether no iteration reads or writes what another one writes."""
    found = list(_accesses(loop.body, {loop.var: (0, loop.extent - 1)}))
    inside = set(_allocated(loop.body))
    written = {buffer for buffer, _, store, _ in found if store} - inside
    return all(
        _disjoint(
            [(index, ranges) for other, index, _, ranges in found if other is buffer], loop.var
        )
        for buffer in written
    )


def in_lanes(value: Expression, var: str) -> bool:
    """Returns whether the operations of four iterations can be those of vectors: divisions of
    integers cannot, nor shifts by counts that differ."""
    for part in subexpressions(value):
        if not isinstance(part, Binary):
            continue
        if part.op in DIVISIONS:
            return False
        if part.op in SHIFTS and any(_moves(leaf, var) for leaf in leaves(part.right)):
            return False
    return True


def _moves(leaf: Expression, var: str) -> bool:
    return isinstance(leaf, Load | IndexValue) and leaf.index.coefficient(var) != 0


def _disjoint(places: list[tuple[Affine, Mapping[str, Range]]], var: str) -> bool:
    """Returns whether different values of `var` access different elements."""
    strides = {index.coefficient(var) for index, _ in places}
    outer = {
        tuple(term for term in index.terms if term[0] != var and term[0] not in ranges)
        for index, ranges in places
    }
    if len(strides) != 1 or len(outer) != 1:
        return False
    stride = abs(strides.pop())
    spans = [index.bounds({**_all_ranges(index, ranges), var: (0, 0)}) for index, ranges in places]
    return max(high for _, high in spans) - min(low for low, _ in spans) < stride


def _all_ranges(index: Affine, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Ranges of all variables of the index. Those bound outside the loop occur in every index
    alike, so they may be taken as 0: only differences of indices count."""
    return {name: ranges.get(name, (0, 0)) for name, _ in index.terms}


def _accesses(block: Block, ranges: Mapping[str, Range]) -> Iterator[Access]:
    for statement in block:
        inside = ranges
        match statement:
            case Store(buffer=buffer, index=index, value=value):
                yield buffer, index, True, ranges
                yield from _loads(leaves(value), ranges)
            case Let(value=value, var=var, low=low, high=high):
                yield from _loads(leaves(value), ranges)
                inside = {**ranges, var: (low, high)}
            case Loop(var=var, extent=extent):
                inside = {**ranges, var: (0, extent - 1)}
        for inner in inner_blocks(statement):
            yield from _accesses(inner, inside)


def _loads(parts: Iterator[object], ranges: Mapping[str, Range]) -> Iterator[Access]:
    for part in parts:
        if isinstance(part, Load):
            yield part.buffer, part.index, False, ranges


def _allocated(block: Block) -> Iterator[Buffer]:
    for statement in block:
        if isinstance(statement, Allocate):
            yield statement.buffer
        for inner in inner_blocks(statement):
            yield from _allocated(inner)

"""Whether the iterations of a loop may run in any order, or at once."""

from collections.abc import Iterator, Mapping

from services.tuner.ir.affine import Affine, Range
from services.tuner.ir.nodes import Allocate, Block, Buffer, Let, Load, Loop, Store
from services.tuner.ir.rewrite import inner_blocks, leaves

Access = tuple[Buffer, Affine, bool, Mapping[str, Range]]
"""A buffer, where, whether it is written, and the ranges of the variables there."""


def is_parallel(loop: Loop) -> bool:
    """What an iteration writes, no other reads or writes."""
    found = list(_accesses(loop.body, {loop.var: (0, loop.extent - 1)}))
    inside = set(_allocated(loop.body))
    written = {buffer for buffer, _, store, _ in found if store} - inside
    return all(
        _apart([(index, ranges) for other, index, _, ranges in found if other is buffer], loop.var)
        for buffer in written
    )


def _apart(places: list[tuple[Affine, Mapping[str, Range]]], var: str) -> bool:
    """Iterations touch places that lie apart: all move alike, by more than what one spans."""
    strides = {index.coefficient(var) for index, _ in places}
    if len(strides) != 1:
        return False
    stride = abs(strides.pop())
    spans = [index.bounds({**_outer(index, ranges), var: (0, 0)}) for index, ranges in places]
    return max(high for _, high in spans) - min(low for low, _ in spans) < stride


def _outer(index: Affine, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Variables of the loops around are the same in every iteration."""
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

"""Transposition in squares of 4x4: four loads, eight shuffles, four stores.

`y[i, j] = x[j, i]` moves by one on either side along different loops, so that no loop has
consecutive memory on both. Several squares side by side use whole cache lines of x.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import (
    Block,
    Bound,
    Buffer,
    Expression,
    If,
    Load,
    Loop,
    LoopKind,
    Program,
    Shuffle,
    Store,
)

SIDE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Transposition:
    """target[i·target_row + j] = source[j·source_row + i] for i < rows and j < columns."""

    target: Buffer
    source: Buffer
    rows: int
    columns: int
    target_row: int
    source_row: int

    def entry(self, i: Affine, j: Affine, lanes: int = 1) -> Load:
        """`lanes` of a row of the source, which stand below one another in the target."""
        return Load(buffer=self.source, index=j.times(self.source_row).plus(i), lanes=lanes)

    def store(self, i: Affine, j: Affine, value: Expression) -> Store:
        return Store(buffer=self.target, index=i.times(self.target_row).plus(j), value=value)


def transpose_in_blocks(program: Program, width: int) -> Program:
    """`width` columns of the source, a multiple of four, to an iteration of the outermost loop.

    Programs that are no transposition stay as they are, as do small ones.
    """
    found = _found(program)
    if found is None or min(found.rows, found.columns) < SIDE:
        return program
    width = min(width, found.rows // SIDE * SIDE)
    return replace(program, body=replace(program.body, body=(_strips(found, width),)))


def _found(program: Program) -> _Transposition | None:
    match program.body.body:
        case (
            Loop(
                var=row,
                kind=LoopKind.SERIAL,
                body=(
                    Loop(
                        var=column,
                        kind=LoopKind.SERIAL,
                        body=(Store(buffer=target, index=to, value=Load(buffer=source, index=at)),),
                    ) as inner,
                ),
            ) as outer,
        ) if to.coefficient(column) == 1 == at.coefficient(row) and not to.constant + at.constant:
            return _Transposition(
                target=target,
                source=source,
                rows=outer.extent,
                columns=inner.extent,
                target_row=to.coefficient(row),
                source_row=at.coefficient(column),
            )
    return None


def _strips(one: _Transposition, width: int) -> Loop:
    """Each of `width` rows of the target, the last one of what is left."""
    first = Affine.of(0, {"strip": width})
    count, rest = divmod(one.rows, width)
    body: Block = tuple(_strip(one, first, width))
    if rest:
        limit = Bound(index=Affine.variable("strip"), limit=count)
        last = tuple(_strip(one, first, rest))
        body = (If(bounds=(limit,), body=body, otherwise=last),)
    extent = count + (rest > 0)
    return Loop(var="strip", extent=extent, kind=LoopKind.SERIAL, body=body)


def _strip(one: _Transposition, first: Affine, width: int) -> Iterator[Loop]:
    """Squares as far as they go, then entry by entry."""
    squares, rest = one.columns // SIDE, one.columns % SIDE
    whole = width // SIDE * SIDE
    if whole:
        at = Affine.of(0, {"square": SIDE})
        body = tuple(s for i in range(0, whole, SIDE) for s in _square(one, _moved(first, i), at))
        yield Loop(var="square", extent=squares, kind=LoopKind.SERIAL, body=body)
    if whole and rest:
        yield _entries(one, (first, whole), (squares * SIDE, rest))
    if width > whole:
        yield _entries(one, (_moved(first, whole), width - whole), (0, one.columns))


def _square(one: _Transposition, i: Affine, j: Affine) -> Iterator[Store]:
    """Two rounds of shuffles; what they share is made once by the engine."""
    rows = [one.entry(i, _moved(j, k), SIDE) for k in range(SIDE)]
    for pair in range(2):
        near, far = 2 * pair, 2 * pair + 1
        halves = [
            Shuffle(left=rows[k], right=rows[k + 1], lanes=(near, 4 + near, far, 4 + far))
            for k in (0, 2)
        ]
        for half in range(2):
            lanes = (2 * half, 2 * half + 1, 4 + 2 * half, 5 + 2 * half)
            value = Shuffle(left=halves[0], right=halves[1], lanes=lanes)
            yield one.store(_moved(i, 2 * pair + half), j, value)


def _entries(one: _Transposition, rows: tuple[Affine, int], columns: tuple[int, int]) -> Loop:
    """Rows of the target from a place on, so many; columns alike."""
    (first, height), (start, width) = rows, columns
    i, j = first.plus(Affine.variable("row")), Affine.of(start, {"column": 1})
    inner: Block = (one.store(i, j, one.entry(i, j)),)
    across = Loop(var="column", extent=width, kind=LoopKind.SERIAL, body=inner)
    return Loop(var="row", extent=height, kind=LoopKind.SERIAL, body=(across,))


def _moved(index: Affine, by: int) -> Affine:
    return index.plus(Affine(constant=by))

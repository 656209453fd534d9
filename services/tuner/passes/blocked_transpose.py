"""Blocked transposition: each 4x4 block is four vector loads, eight shuffles, four vector stores.

    for i < 8:                          for strip < 1:
      for j < 8:                  →       for block < 2:
        y[8*i + j] = x[8*j + i]             y[4*block +4] = shuffle(shuffle(x[32*block +4], …
                                            … 7 more stores of four lanes

A transposition has consecutive memory on one side of each loop only, so no loop of it can be
vectorised; a block of four rows and four columns can. Several blocks side by side, `width` columns
of x, use whole cache lines of it.

Rows of three, the colours of a picture's pixels, are taken four at a time: three loads, six
shuffles and three stores of twelve neighbours. One by one, 224 x 224 pixels took 0.065 ms.

    for i < 8:                          for strip < 1:
      for j < 3:                  →       y[+4] = shuffle(shuffle(x[+4], x[8 +4]), x[16 +4])
        y[3*i + j] = x[8*j + i]           y[4 +4] = … 4 more stores of four lanes

A transposition may stand in loops, and between others: one that pads is split where its guards
change (`loop_partition`), into zeros before it, the transposition, and zeros behind it.

What is computed of entries that lie transposed reads them out of a tile of 4x4, in vectors. Four
tiles below one another use whole cache lines of x:

    for i < 16:                         for strip < 1:
      for j < 8:                          for block < 2:
        y[8*i + j] = x[16*j + i] + b[j]     for group < 4:
                                              tile[+4] = shuffle(…), …
                                              y[128*strip + 32*group + 4*block +4]
                                                  = tile[+4] + b[4*block +4]
                                              … 3 more
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, Bound, variable
from services.tuner.ir.build import ZERO, local
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Const,
    Expression,
    If,
    IndexValue,
    Load,
    Loop,
    LoopKind,
    Program,
    Shuffle,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import leaves, substitute, with_operands
from services.tuner.passes.dependence import in_lanes, is_parallel
from services.tuner.passes.loop_partition import partition_loops

SIDE = 4
COLOURS = 3
GROUPS = 4
"""Tiles below one another: 16 rows, a cache line of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Transposition:
    """target[to + i·target_row + j] = source[at + j·source_row + i] for i < rows and j < columns;
    `to` and `at` are places that the loops around it have."""

    target: Buffer
    source: Buffer
    to: Affine
    at: Affine
    rows: int
    columns: int
    target_row: int
    source_row: int

    @property
    def interleaves(self) -> bool:
        """True if its columns are three, whose entries become neighbours."""
        return self.columns == self.target_row == COLOURS and self.rows >= SIDE

    def entry(self, i: Affine, j: Affine, lanes: int = 1) -> Load:
        """`lanes` neighbours in a row of the source, which belong into one column of the target."""
        return Load(buffer=self.source, index=self.at + j * self.source_row + i, lanes=lanes)

    def store(self, i: Affine, j: Affine, value: Expression) -> Store:
        return Store(buffer=self.target, index=self.to + i * self.target_row + j, value=value)


def transpose_in_blocks(program: Program, width: int) -> Program:
    """Takes `width` rows of the target at a time, a multiple of four, wherever two loops transpose.

    A program without a transposition stays as it is, and so do transpositions below 4x4 but for
    rows of three.
    """
    partitioned = partition_loops(program)
    body = _block(partitioned.body.body, width)
    if body == partitioned.body.body:
        return program
    return replace(partitioned, body=replace(partitioned.body, body=body))


def _block(block: Block, width: int) -> Block:
    return tuple(_statement(statement, width) for statement in block)


def _statement(statement: Statement, width: int) -> Statement:
    match statement:
        case Loop(kind=LoopKind.SERIAL):
            found = _found(statement)
            if found is None:
                chain = _chain(statement)
                return chain or replace(statement, body=_block(statement.body, width))
            if min(found.rows, found.columns) < SIDE and not found.interleaves:
                return statement
            return _strips(found, min(width, found.rows // SIDE * SIDE))
        case If(body=body, otherwise=otherwise):
            return replace(statement, body=_block(body, width), otherwise=_block(otherwise, width))
    return statement


def _found(loop: Loop) -> _Transposition | None:
    match loop:
        case Loop(
            var=row,
            body=(
                Loop(
                    var=column,
                    kind=LoopKind.SERIAL,
                    body=(Store(buffer=target, index=to, value=Load(buffer=source, index=at)),),
                ) as inner,
            ),
        ) if to.coefficient(column) == 1 == at.coefficient(row):
            target_row, source_row = to.coefficient(row), at.coefficient(column)
            return _Transposition(
                target=target,
                source=source,
                to=to - variable(row) * target_row - variable(column),
                at=at - variable(column) * source_row - variable(row),
                rows=loop.extent,
                columns=inner.extent,
                target_row=target_row,
                source_row=source_row,
            )
    return None


def _chain(outer: Loop) -> Loop | None:
    """Tiles of two loops over what is computed of one entry that lies transposed, and of others
    that are neighbours or the same along the inner loop; None for other loops."""
    match outer.body:
        case (Loop(kind=LoopKind.SERIAL, body=(Store() as store,)) as inner,):
            pass
        case _:
            return None
    column, value = inner.var, store.value
    if min(outer.extent, inner.extent) < SIDE or store.index.coefficient(column) != 1:
        return None
    if not (is_parallel(outer) and is_parallel(inner) and in_lanes(value, column)):
        return None
    if store.buffer.dtype is not DType.F32:
        return None
    transposed: set[Load] = set()
    for leaf in leaves(value):
        match leaf:
            case Const():
                continue
            case Load(index=index, lanes=1) if index.coefficient(column) in (0, 1):
                continue
            case Load(buffer=Buffer(dtype=DType.F32), index=index, lanes=1) if (
                index.coefficient(outer.var) == 1
            ):
                transposed.add(leaf)
                continue
            case IndexValue(index=index) if not index.coefficient(column):
                continue
        return None
    if len(transposed) != 1:
        return None
    return _Chain(outer=outer, inner=inner, store=store, load=transposed.pop()).tiled()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chain:
    """Two loops around one store, whose value reads one entry that lies transposed."""

    outer: Loop
    inner: Loop
    store: Store
    load: Load

    def tiled(self) -> Loop:
        count, rest = divmod(self.outer.extent, GROUPS * SIDE)
        first = Affine.of(0, {"strip": GROUPS * SIDE})
        body = self._strip(first, GROUPS)
        if rest:
            limit = Bound(index=variable("strip"), limit=count)
            groups, left = divmod(rest, SIDE)
            last = self._strip(first, groups) if groups else ()
            if left:
                last = (*last, self._entries(first + groups * SIDE, left, 0, self.inner.extent))
            body = (If(bounds=(limit,), body=body, otherwise=last),)
        extent = count + (rest > 0)
        return Loop(var="strip", extent=extent, kind=LoopKind.SERIAL, body=body)

    def _strip(self, first: Affine, groups: int) -> Block:
        """`groups` times four rows from the first on."""
        blocks, rest = divmod(self.inner.extent, SIDE)
        tile = self._tile(first + variable("group") * SIDE, variable("block") * SIDE)
        below = Loop(var="group", extent=groups, kind=LoopKind.SERIAL, body=(tile,))
        body: Block = (Loop(var="block", extent=blocks, kind=LoopKind.SERIAL, body=(below,)),)
        if rest:
            body = (*body, self._entries(first, groups * SIDE, blocks * SIDE, rest))
        return body

    def _tile(self, i: Affine, j: Affine) -> Allocate:
        """Four rows from `i` on of four columns from `j` on."""
        tile = local("tile", SIDE * SIDE)
        at = self.load.index.substitute(self.outer.var, i).substitute(self.inner.var, j)
        filling = _Transposition(
            target=tile,
            source=self.load.buffer,
            to=ZERO,
            at=at,
            rows=SIDE,
            columns=SIDE,
            target_row=SIDE,
            source_row=self.load.index.coefficient(self.inner.var),
        )
        body: Block = tuple(_transposed_block(filling, ZERO, ZERO))
        for k in range(SIDE):
            place = Affine.of(SIDE * k, {"lane": 1})
            value = _replaced(self.store.value, self.load, Load(buffer=tile, index=place))
            stored = substitute((replace(self.store, value=value),), self.outer.var, i + k)
            stored = substitute(stored, self.inner.var, j + variable("lane"))
            body = (*body, Loop(var="lane", extent=SIDE, kind=LoopKind.VECTOR, body=stored))
        return Allocate(buffer=tile, body=body)

    def _entries(self, first: Affine, rows: int, start: int, columns: int) -> Loop:
        body = substitute((self.store,), self.outer.var, first + variable("row"))
        body = substitute(body, self.inner.var, variable("column") + start)
        across = Loop(var="column", extent=columns, kind=LoopKind.SERIAL, body=body)
        return Loop(var="row", extent=rows, kind=LoopKind.SERIAL, body=(across,))


def _strips(one: _Transposition, width: int) -> Loop:
    """The loop over strips of `width` rows of the target; the last strip has the rest of them."""
    first = Affine.of(0, {"strip": width})
    count, rest = divmod(one.rows, width)
    body: Block = tuple(_strip(one, first, width))
    if rest:
        limit = Bound(index=variable("strip"), limit=count)
        last = tuple(_strip(one, first, rest))
        body = (If(bounds=(limit,), body=body, otherwise=last),)
    extent = count + (rest > 0)
    return Loop(var="strip", extent=extent, kind=LoopKind.SERIAL, body=body)


def _strip(one: _Transposition, first: Affine, width: int) -> Iterator[Loop | Store]:
    """Blocks of four rows as far as they go, then single entries."""
    blocks, rest = one.columns // SIDE, one.columns % SIDE
    whole = width // SIDE * SIDE
    if one.interleaves:
        for i in range(0, whole, SIDE):
            yield from _interleaved(one, _moved(first, i))
        rest = 0
    elif whole:
        at = Affine.of(0, {"block": SIDE})
        body = tuple(
            s for i in range(0, whole, SIDE) for s in _transposed_block(one, _moved(first, i), at)
        )
        yield Loop(var="block", extent=blocks, kind=LoopKind.SERIAL, body=body)
    if whole and rest:
        yield _entries(one, (first, whole), (blocks * SIDE, rest))
    if width > whole:
        yield _entries(one, (_moved(first, whole), width - whole), (0, one.columns))


def _transposed_block(one: _Transposition, i: Affine, j: Affine) -> Iterator[Store]:
    """A 4x4 block: unpack pairs of rows, then combine their halves (as _MM_TRANSPOSE4_PS does).

    Each first shuffle is named by two stores; the engine's common subexpression elimination makes
    it once.
    """
    rows = [one.entry(i, _moved(j, k), SIDE) for k in range(SIDE)]
    for pair in range(2):
        near, far = 2 * pair, 2 * pair + 1
        unpacked = [
            Shuffle(left=rows[k], right=rows[k + 1], lanes=(near, 4 + near, far, 4 + far))
            for k in (0, 2)
        ]
        for half in range(2):
            lanes = (2 * half, 2 * half + 1, 4 + 2 * half, 5 + 2 * half)
            value = Shuffle(left=unpacked[0], right=unpacked[1], lanes=lanes)
            yield one.store(_moved(i, 2 * pair + half), j, value)


def _interleaved(one: _Transposition, i: Affine) -> Iterator[Store]:
    """Four rows of three, as a0 b0 c0 a1, b1 c1 a2 b2 and c2 a3 b3 c3: of two columns what they
    have of it, then the third column's one entry in their midst."""
    a, b, c = (one.entry(i, Affine(constant=j), SIDE) for j in range(COLOURS))
    parts = (
        (a, b, (0, 4, 1, 5), c, 0),
        (b, c, (1, 5, 2, 6), a, 2),
        (c, a, (2, 7, 3, 7), b, 3),
    )
    for place, (left, right, lanes, third, lane) in enumerate(parts):
        two = Shuffle(left=left, right=right, lanes=lanes)
        value = Shuffle(left=two, right=third, lanes=(0, 1, SIDE + lane, 2))
        yield one.store(i, Affine(constant=SIDE * place), value)


def _entries(one: _Transposition, rows: tuple[Affine, int], columns: tuple[int, int]) -> Loop:
    """Single entries: `rows` and `columns` of the target are each a first one and a count."""
    (first, height), (start, width) = rows, columns
    i, j = first + variable("row"), Affine.of(start, {"column": 1})
    inner: Block = (one.store(i, j, one.entry(i, j)),)
    across = Loop(var="column", extent=width, kind=LoopKind.SERIAL, body=inner)
    return Loop(var="row", extent=height, kind=LoopKind.SERIAL, body=(across,))


def _replaced(expression: Expression, old: Load, new: Load) -> Expression:
    if expression == old:
        return new
    return with_operands(expression, lambda part: _replaced(part, old, new))


def _moved(index: Affine, by: int) -> Affine:
    return index + by

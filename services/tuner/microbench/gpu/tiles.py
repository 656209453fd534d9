"""The inner loop of a contraction: a thread's tile of 4x4, read from storage or from workgroup
memory."""

from dataclasses import dataclass

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import (
    LANES,
    Assign,
    Barrier,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Const,
    Expression,
    IndexValue,
    Lanes,
    Let,
    Program,
    Register,
    Scope,
)
from services.tuner.microbench.gpu.nests import (
    GROUPS,
    THREAD,
    ZERO,
    accumulate,
    affine,
    assign,
    load,
    place,
    program,
    read,
    serial,
    sink,
    source,
    spread,
    store,
    sum_of,
    vector,
)

SIDE = 8
THREADS = SIDE * SIDE
ROWS = 4
"""Of a thread's tile; it has one vector of four columns."""

BLOCK = SIDE * LANES
"""Rows and columns of a workgroup."""

DEPTH = 8
"""Of k in workgroup memory: one vector of each matrix for each thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLoop:
    """c[32, 32] += a[32, k]·b[k, 32] by 8 by 8 threads. All workgroups read the same a and b, which
    stay in the first cache that there is.

    `wide` loads vectors, and `staged` copies eight of k at a time into workgroup memory. a and b
    are of f16 where they are `half`.
    """

    k: int = 64
    wide: bool = True
    staged: bool = False
    half: bool = False
    groups: int = GROUPS

    @property
    def flops(self) -> int:
        """Of one workgroup."""
        return 2 * THREADS * ROWS * LANES * self.k

    @property
    def elements(self) -> int:
        """Of a and b."""
        return 2 * BLOCK * self.k

    def program(self, into: Buffer | None = None) -> Program:
        """Stores to the sink, or to another buffer of its size."""
        data, written = source(self.elements, half=self.half), into or sink(self.groups * THREADS)
        totals = [vector(f"total{row}") for row in range(ROWS)]
        zeros: Block = tuple(assign(total, ZERO) for total in totals)
        own = _tiles() if self.staged else ()
        sums = self._staged(data, own, totals) if own else self._direct(data, totals)
        body = (*zeros, *sums, store(written, place(THREADS), sum_of(totals)))
        placed = (_split("row", "column", SIDE, body),)
        return program((data, written), self.groups, THREADS, placed, own)

    def _direct(self, data: Buffer, totals: list[Register]) -> Block:
        """a[32, k] row-major, then b[k, 32] row-major."""
        a = affine(row=ROWS * self.k, step=LANES)
        b = affine(BLOCK * self.k, column=LANES, step=LANES * BLOCK)
        body = self._step((data, a, self.k), (data, b, BLOCK), totals, 0)
        return (serial("step", self.k // LANES, tuple(body)),)

    def _staged(self, data: Buffer, own: tuple[Buffer, ...], totals: list[Register]) -> Block:
        """The next eight of k of both, copied by all threads a vector each."""
        own_a, own_b = own
        copies = (*self._copy_a(data, own_a), *self._copy_b(data, own_b))
        body: list[Assign] = []
        for part in range(DEPTH // LANES):
            a = affine(LANES * part, row=ROWS * DEPTH)
            b = affine(LANES * part * BLOCK, column=LANES)
            body += self._step((own_a, a, DEPTH), (own_b, b, BLOCK), totals, part)
        block: Block = (Barrier(), *copies, Barrier(), *body)
        return (serial("block", self.k // DEPTH, block),)

    def _copy_a(self, data: Buffer, own: Buffer) -> Block:
        """Two vectors of each row of a."""
        at = affine(block=DEPTH, line=self.k, part=LANES)
        body = store(own, affine(thread=LANES), load(data, at))
        return (_split("line", "part", DEPTH // LANES, (body,)),)

    def _copy_b(self, data: Buffer, own: Buffer) -> Block:
        at = affine(BLOCK * self.k, block=DEPTH * BLOCK, thread=LANES)
        return (store(own, affine(thread=LANES), load(data, at)),)

    def _step(
        self,
        a: tuple[Buffer, Affine, int],
        b: tuple[Buffer, Affine, int],
        totals: list[Register],
        part: int,
    ) -> list[Assign]:
        """Four of k: a vector of each row of a, and four vectors of b."""
        rows = [vector(f"a{part}_{row}") for row in range(ROWS)]
        columns = [vector(f"b{part}_{k}") for k in range(LANES)]
        loads = [assign(register, self._four(a, row)) for row, register in enumerate(rows)]
        loads += [assign(register, self._four(b, k)) for k, register in enumerate(columns)]
        return loads + [
            accumulate(total, spread(read(row), k), read(column))
            for k, column in enumerate(columns)
            for row, total in zip(rows, totals, strict=True)
        ]

    def _four(self, matrix: tuple[Buffer, Affine, int], line: int) -> Expression:
        buffer, start, pitch = matrix
        at = start.plus(affine(line * pitch))
        if self.wide:
            return load(buffer, at)
        return Lanes(values=tuple(load(buffer, at.plus(affine(i)), 1) for i in range(LANES)))


def _tiles() -> tuple[Buffer, ...]:
    """Of a and of b."""
    size = BLOCK * DEPTH
    return tuple(
        Buffer(name=name, scope=Scope.WORKGROUP, dtype=DType.F32, size=size)
        for name in ("tile_a", "tile_b")
    )


def _split(over: str, rest: str, by: int, body: Block) -> Let:
    """`over` and `rest` are the thread's number divided by `by`, and what is left."""
    number = IndexValue(index=Affine.variable(THREAD))
    divisor = Const(value=by, dtype=DType.I32)
    high = THREADS // by - 1
    for var, op, last in ((rest, BinaryOp.FLOOR_MOD, by - 1), (over, BinaryOp.FLOOR_DIV, high)):
        quotient = Binary(op=op, left=number, right=divisor)
        body = (Let(var=var, value=quotient, low=0, high=last, body=body),)
    (made,) = body
    assert isinstance(made, Let)
    return made

"""The inner loop of a contraction: a thread's tile of 4x4, read from storage or from workgroup
memory."""

from dataclasses import dataclass

from services.tuner.ir.affine import Affine
from services.tuner.ir.kinds import BinaryOp, Element, Scope
from services.tuner.ir.nodes import (
    Assign,
    Barrier,
    Binary,
    Block,
    Buffer,
    Const,
    Expression,
    IndexValue,
    Lanes,
    Let,
    Program,
    Register,
)
from services.tuner.microbench.gpu.nests import (
    GROUPS,
    LANES,
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

THREADS = 64
ROWS = 4
"""Of a thread's tile; it has one vector of four columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLoop:
    """c[rows, columns] += a[rows, k]·b[k, columns] for a block of `across` by 64 / `across`
    threads. All workgroups read the same a and b, which stay in the first cache that there is.

    `wide` loads vectors, `staged` copies `depth` of k at a time into workgroup memory, and `unroll`
    steps of four k stand in one iteration. `groups` workgroups.
    """

    k: int = 64
    across: int = 8
    wide: bool = True
    staged: bool = False
    depth: int = 8
    unroll: int = 1
    groups: int = GROUPS

    @property
    def flops(self) -> int:
        """Of one workgroup."""
        return 2 * THREADS * ROWS * LANES * self.k

    @property
    def rows(self) -> int:
        return ROWS * THREADS // self.across

    @property
    def columns(self) -> int:
        return LANES * self.across

    @property
    def elements(self) -> int:
        """Of a and b."""
        return self.k * (self.rows + self.columns)

    def program(self, into: Buffer | None = None) -> Program:
        """Stores to the sink, or to another buffer of its size."""
        data, written = source(self.elements), into or sink(self.groups * THREADS)
        totals = [vector(f"total{row}") for row in range(ROWS)]
        zeros: Block = tuple(assign(total, ZERO) for total in totals)
        own = self._tiles() if self.staged else ()
        sums = self._staged(data, own, totals) if own else self._direct(data, totals)
        body = (*zeros, *sums, store(written, place(THREADS), sum_of(totals)))
        return program((data, written), self.groups, THREADS, _places(self.across, body), own)

    def _tiles(self) -> tuple[Buffer, ...]:
        """Of a and of b."""
        sizes = {"tile_a": self.rows * self.depth, "tile_b": self.depth * self.columns}
        return tuple(
            Buffer(name=name, scope=Scope.WORKGROUP, element=Element.F32, size=size)
            for name, size in sizes.items()
        )

    def _direct(self, data: Buffer, totals: list[Register]) -> Block:
        """a[rows, k] row-major, then b[k, columns] row-major."""
        step = LANES * self.unroll
        body: list[Assign] = []
        for part in range(self.unroll):
            a = affine(LANES * part, row=ROWS * self.k, step=step)
            b = affine(self.rows * self.k + LANES * part * self.columns, column=LANES)
            b = b.plus(affine(step=step * self.columns))
            body += self._step((data, a, self.k), (data, b, self.columns), totals, part)
        return (serial("step", self.k // step, tuple(body)),)

    def _staged(self, data: Buffer, own: tuple[Buffer, ...], totals: list[Register]) -> Block:
        """The next `depth` of k of both, copied by all threads a vector each."""
        own_a, own_b = own
        copies = (*self._copy_a(data, own_a), *self._copy_b(data, own_b))
        body: list[Assign] = []
        for part in range(self.depth // LANES):
            a = affine(LANES * part, row=ROWS * self.depth)
            b = affine(LANES * part * self.columns, column=LANES)
            body += self._step((own_a, a, self.depth), (own_b, b, self.columns), totals, part)
        block: Block = (Barrier(), *copies, Barrier(), *body)
        return (serial("block", self.k // self.depth, block),)

    def _copy_a(self, data: Buffer, own: Buffer) -> Block:
        """A vector of a is in row thread / (depth / 4)."""
        across = self.depth // LANES
        at = affine(block=self.depth, line=self.k, part=LANES)
        body = store(own, affine(thread=LANES), load(data, at))
        return (_split("line", "part", across, (body,)),)

    def _copy_b(self, data: Buffer, own: Buffer) -> Block:
        at = affine(self.rows * self.k, block=self.depth * self.columns, thread=LANES)
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


def _places(across: int, body: Block) -> Block:
    """`row` and `column` of the thread in its block."""
    return (_split("row", "column", across, body),)


def _split(over: str, rest: str, by: int, body: Block) -> Let:
    """`over` and `rest` are the thread's number divided by `by`, and what is left."""
    number = IndexValue(index=Affine.variable(THREAD))
    divisor = Const(value=by, element=Element.I32)
    high = THREADS // by - 1
    for var, op, last in ((rest, BinaryOp.FLOOR_MOD, by - 1), (over, BinaryOp.FLOOR_DIV, high)):
        quotient = Binary(op=op, left=number, right=divisor)
        body = (Let(var=var, value=quotient, low=0, high=last, body=body),)
    (made,) = body
    assert isinstance(made, Let)
    return made

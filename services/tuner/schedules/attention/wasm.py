"""Attention for wasm: a block of rows goes through both products and the softmax while its scores
are in the cache.

Shapes, named by the settings of `WasmAttentionConfig`:

    range         heads, each in `groups` of rows
    packed_keys   [⌈n / tile_n⌉][head_dim][tile_n]   keys of the head, transposed
    packed_values [⌈width / tile_n⌉][n][tile_n]
    packed_queries [block_m, head_dim]              of a block of rows
    scores        [block_m, n]
    shares        [block_m]                          1 / the sum of a row

What it makes of attention of 2 heads with m=12, n=16, head_dim=width=8, block_m=6 and tiles of 6x8:

    for slice < 4 range:
      packed_keys[…] = x0[…], packed_values[…] = x0[…]        1. panels of a head
      for block < 1:
        packed_queries[…] = x0[…]
        for panel < 2:                                        2. products of queries and keys
          sums[48] += packed_queries[…] · packed_keys[…]         for k < 8
          scores[6, 8 · panel …] = sums[…] · scale + mask[…]
        for row < 6:                                          3. softmax, but for its division
          lanes[4 · vectors] = max(lanes, scores[row, …])
          scores[row, …] = exp(scores[row, …] − most)
          shares[row] = 1 / Σ scores[row, …]
        sums[48] += scores[…] · packed_values[…]              4. for k < 16
        c[…] = sums[…] · shares[…]

The last panel may have fewer columns, the last block and the last tile fewer rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import gcd

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    constant,
    loop,
    number,
    serial,
    total,
    under,
    unrolled,
    vector,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Call,
    Expression,
    Load,
    LoopKind,
    MathFunction,
    Program,
    Scope,
    Store,
)
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.attention.config import WasmAttentionConfig, attends
from services.tuner.schedules.attention.scores import LOWEST, scored
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram

LOWEST_EXPONENT = -87.0
"""e to it is a normal number, and nothing beside the 1 that every row has."""
VECTORS = (4, 3, 2, 5, 1)
"""Vectors of a row at once in a softmax: the first that divides the row."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmAttentionConfig.of(candidate)
    given = attends(candidate.workload)
    nest = _Nest(given=given, config=config, parameters=parameters_of(candidate.workload))
    return ScheduledProgram(nests=(nest.program(),), options=PassOptions(fma=config.fma))


@dataclass(frozen=True, slots=True)
class _Columns:
    """Panels of `width` columns each, from column `first` on."""

    first: int
    count: int
    width: int


def _columns(size: int, tile_n: int) -> list[_Columns]:
    """Whole panels, and what is left."""
    whole, rest = divmod(size, tile_n)
    found = [_Columns(0, whole, tile_n), _Columns(whole * tile_n, 1, rest)]
    return [each for each in found if each.count and each.width]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    """`parameters` are those of the workload, flat."""

    given: ManyRowsAttention
    config: WasmAttentionConfig
    parameters: tuple[Buffer, ...]

    def program(self) -> Program:
        given, config, frame = self.given, self.config, Frame()
        slices = given.heads * config.groups
        place = frame.variable("slice", slices)
        parts = (("head", given.heads), ("group", config.groups))
        head, group = frame.delinearize(place, parts)
        body: Block = (*self._packed(head), *self._blocks(head, group))
        for buffer in (self.keys, self.values, self.queries, self.scores, self.shares):
            body = (Allocate(buffer=buffer, body=body),)
        whole = loop("slice", slices, LoopKind.RANGE, frame.enclose(body))
        return Program(parameters=self.parameters, body=whole)

    @property
    def keys(self) -> Buffer:
        return _scratch("packed_keys", self.given.n * self.given.head_dim)

    @property
    def values(self) -> Buffer:
        return _scratch("packed_values", self.given.n * self.given.width)

    @property
    def queries(self) -> Buffer:
        return _scratch("packed_queries", self.config.block_m * self.given.head_dim)

    @property
    def scores(self) -> Buffer:
        return _scratch("scores", self.config.block_m * self.given.n)

    @property
    def shares(self) -> Buffer:
        return _scratch("shares", self.config.block_m)

    def _entry(
        self, operand: HeadsOperand, rows: int, entries: int, at: tuple[Affine, Affine, Affine]
    ) -> Load:
        """An entry of an operand, by head, row and entry of the row."""
        of_head, of_row = operand.steps(rows, entries)
        head, row, entry = at
        index = total(head.times(of_head), row.times(of_row), entry, constant(operand.first))
        return Load(buffer=self.parameters[operand.place], index=index)

    # Step 1: keys and values of the head in panels.

    def _packed(self, head: Affine) -> Block:
        given, tile_n = self.given, self.config.tile_n
        p, row, lane = (Affine.variable(name) for name in ("p", "row", "lane"))
        body: list[Block] = []
        for columns in _columns(given.n, tile_n):
            own = total(constant(columns.first), p.times(columns.width), lane)
            value = self._entry(given.keys, given.n, given.head_dim, (head, own, row))
            body.append(self._panels(columns, given.head_dim, self.keys, value))
        for columns in _columns(given.width, tile_n):
            own = total(constant(columns.first), p.times(columns.width), lane)
            value = self._entry(given.values, given.n, given.width, (head, row, own))
            body.append(self._panels(columns, given.n, self.values, value))
        return tuple(statement for block in body for statement in block)

    def _panels(self, columns: _Columns, rows: int, buffer: Buffer, value: Load) -> Block:
        width = columns.width
        index = Affine.of(columns.first * rows, {"p": rows * width, "row": width, "lane": 1})
        store = Store(buffer=buffer, index=index, value=value)
        copied = loop("lane", width, LoopKind.VECTOR, (store,))
        return serial("p", columns.count, serial("row", rows, (copied,)))

    # Blocks of rows.

    def _blocks(self, head: Affine, group: Affine) -> Block:
        config = self.config
        whole, rest = divmod(self.given.m, config.block_m)
        together = -(-whole // config.groups)
        frame = Frame()
        frame.variable("group", config.groups)
        number_ = group.times(together).plus(frame.variable("block", together))
        inside = frame.undecided((Bound(index=number_, limit=whole),))
        first = number_.times(config.block_m)
        blocks = serial("block", together, under(inside, self._block(head, first, config.block_m)))
        if not rest:
            return blocks
        # The last group has the block of fewer rows.
        last = total(constant(config.groups - 1), group.times(-1))
        is_last = frame.undecided((Bound(index=last, limit=1),))
        return (
            *blocks,
            *under(is_last, self._block(head, constant(whole * config.block_m), rest)),
        )

    def _block(self, head: Affine, first: Affine, rows: int) -> Block:
        return (
            *self._gathered(head, first, rows),
            *self._products(head, first, rows),
            *self._softmax(rows),
            *self._mixed(head, first, rows),
        )

    # Step 2: scores. Rows of a wide matrix would fall into few sets of the first cache: those of
    # queries are put side by side before.

    def _gathered(self, head: Affine, first: Affine, rows: int) -> Block:
        given = self.given
        row, entry = Affine.variable("row"), Affine.variable("entry")
        value = self._entry(given.queries, given.m, given.head_dim, (head, first.plus(row), entry))
        store = Store(buffer=self.queries, index=row.times(given.head_dim).plus(entry), value=value)
        return serial("row", rows, (loop("entry", given.head_dim, LoopKind.VECTOR, (store,)),))

    def _products(self, head: Affine, first: Affine, rows: int) -> Block:
        given = self.given
        k = Affine.of(0, {"k1": self._unroll(given.head_dim), "k0": 1})

        def left(row: Affine) -> Load:
            return Load(buffer=self.queries, index=row.times(given.head_dim).plus(k))

        def stored(row: Affine, column: Affine, value: Expression) -> Store:
            return Store(
                buffer=self.scores,
                index=row.times(given.n).plus(column),
                value=scored(given, self.parameters, value, (head, first.plus(row), column)),
            )

        return self._product(rows, given.n, given.head_dim, left, self.keys, stored)

    # Step 4: values, mixed.

    def _mixed(self, head: Affine, first: Affine, rows: int) -> Block:
        given, output = self.given, self.parameters[-1]
        k = Affine.of(0, {"k1": self._unroll(given.n), "k0": 1})

        def left(row: Affine) -> Load:
            return Load(buffer=self.scores, index=row.times(given.n).plus(k))

        def stored(row: Affine, column: Affine, value: Expression) -> Store:
            place = first.plus(row).times(given.heads).plus(head).times(given.width)
            share = Load(buffer=self.shares, index=row)
            value = binary(BinaryOp.MUL, value, share)
            return Store(buffer=output, index=place.plus(column), value=value)

        return self._product(rows, given.width, given.n, left, self.values, stored)

    # What steps 2 and 4 share.

    def _unroll(self, k: int) -> int:
        return gcd(self.config.unroll_k, k)

    def _product(
        self,
        rows: int,
        size: int,
        k: int,
        left: Callable[[Affine], Load],
        panels: Buffer,
        stored: Callable[[Affine, Affine, Expression], Store],
    ) -> Block:
        """Rows times panels of `size` columns in all: the rows of a block pass by each panel."""
        tile_m = self.config.tile_m
        body: list[Block] = []
        for columns in _columns(size, self.config.tile_n):
            tile = partial(self._tile, columns, k, left, panels, stored)
            whole, rest = divmod(rows, tile_m)
            tiles = serial("m", whole, tile(Affine.of(0, {"m": tile_m}), tile_m)) if whole else ()
            left_over = tile(constant(whole * tile_m), rest) if rest else ()
            body.append(serial("p", columns.count, (*tiles, *left_over)))
        return tuple(statement for block in body for statement in block)

    def _tile(
        self,
        columns: _Columns,
        k: int,
        left: Callable[[Affine], Load],
        panels: Buffer,
        stored: Callable[[Affine, Affine, Expression], Store],
        first: Affine,
        rows: int,
    ) -> Block:
        width, unroll_k = columns.width, self._unroll(k)
        sums = Buffer(name="sums", scope=Scope.LOCAL, dtype=DType.F32, size=rows * width)
        own = Affine.of(0, {"t": width, "lane": 1})
        held = Load(buffer=sums, index=own)
        row = first.plus(Affine.variable("t"))
        terms = {"p": k * width, "k1": unroll_k * width, "k0": width, "lane": 1}
        right = Load(buffer=panels, index=Affine.of(columns.first * k, terms))
        value = binary(BinaryOp.ADD, held, binary(BinaryOp.MUL, left(row), right))
        column = Affine.of(columns.first, {"p": width, "lane": 1})

        def each(store: Store) -> Block:
            lanes = loop("lane", width, LoopKind.VECTOR, (store,))
            return (unrolled("t", rows, lanes),)

        product = unrolled("k0", unroll_k, *each(Store(buffer=sums, index=own, value=value)))
        tile: Block = (
            *each(Store(buffer=sums, index=own, value=number(0))),
            *serial("k1", k // unroll_k, (product,)),
            *each(stored(row, column, held)),
        )
        return (Allocate(buffer=sums, body=tile),)

    # Step 3: the softmax of each row, but for its division.

    def _softmax(self, rows: int) -> Block:
        n = self.given.n
        vectors = next(count for count in VECTORS if n % (LANES * count) == 0)
        width = LANES * vectors
        most, sums, kept = (_local(name, width) for name in ("most", "total", "power"))
        one = _local("largest", 1)
        lane = Affine.of(0, {"v": LANES, "lane": 1})
        entry = Affine.of(0, {"row": n, "step": width, "v": LANES, "lane": 1})
        score = Load(buffer=self.scores, index=entry)

        def each(*stores: Store) -> Block:
            return (unrolled("v", vectors, *(vector("lane", store) for store in stores)),)

        def over_row(*stores: Store) -> Block:
            return serial("step", n // width, each(*stores))

        def kept_in(buffer: Buffer, value: Expression) -> Store:
            return Store(buffer=buffer, index=lane, value=value)

        def folded(op: BinaryOp, buffer: Buffer) -> Block:
            """All vectors of a buffer as the first."""
            first, here = Affine.variable("lane"), Affine.of(LANES, {"v": LANES, "lane": 1})
            loads = (Load(buffer=buffer, index=index) for index in (first, here))
            store = Store(buffer=buffer, index=first, value=binary(op, *loads))
            return (unrolled("v", vectors - 1, vector("lane", store)),) if vectors > 1 else ()

        def across(op: BinaryOp, buffer: Buffer) -> Expression:
            """The lanes of the first vector as one number."""
            w, x, y, z = (Load(buffer=buffer, index=constant(i)) for i in range(LANES))
            return binary(op, binary(op, w, x), binary(op, y, z))

        above = binary(BinaryOp.SUB, score, Load(buffer=one, index=ZERO))
        # Within these bounds, which cost an instruction each, e to it needs no choices.
        bounded = binary(BinaryOp.MAX, above, number(LOWEST_EXPONENT))
        bounded = binary(BinaryOp.MIN, bounded, number(0))
        power = Call(function=MathFunction.EXP, argument=bounded)
        held = {buffer.name: Load(buffer=buffer, index=lane) for buffer in (most, sums, kept)}
        body: Block = (
            *each(kept_in(most, number(LOWEST)), kept_in(sums, number(0))),
            *over_row(kept_in(most, binary(BinaryOp.MAX, held["most"], score))),
            *folded(BinaryOp.MAX, most),
            Store(buffer=one, index=ZERO, value=across(BinaryOp.MAX, most)),
            *over_row(
                kept_in(kept, power),
                Store(buffer=self.scores, index=entry, value=held["power"]),
                kept_in(sums, binary(BinaryOp.ADD, held["total"], held["power"])),
            ),
            *folded(BinaryOp.ADD, sums),
            Store(
                buffer=self.shares,
                index=Affine.variable("row"),
                value=binary(BinaryOp.DIV, number(1), across(BinaryOp.ADD, sums)),
            ),
        )
        for buffer in (most, sums, kept, one):
            body = (Allocate(buffer=buffer, body=body),)
        return serial("row", rows, body)


def _local(name: str, size: int) -> Buffer:
    return Buffer(name=name, scope=Scope.LOCAL, dtype=DType.F32, size=size)


def _scratch(name: str, size: int) -> Buffer:
    return Buffer(name=name, scope=Scope.GLOBAL, dtype=DType.F32, size=size)

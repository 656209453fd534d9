"""Attention for wasm: a block of rows goes through both products and the softmax while its scores
are in the cache.

Shapes, named by the settings of `WasmAttentionConfig`:

    range         heads that share keys and values, in `groups` of rows
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

Where something is spare, loops over keys end behind the last one that is there, and those over rows
behind the last one that is wanted. Steps of several keys go beyond it: values there are 0 in their
panels, and scores are -∞.
"""

from collections.abc import Callable
from math import gcd, inf

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.attention.config import WasmAttentionConfig, attends
from services.tuner.schedules.attention.scores import LOWEST, scored
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.tile_sums import TileSums

LOWEST_EXPONENT = -87.0
"""e to it is a normal number, and nothing beside the 1 that every row has."""
KEYS = "keys.there"
ROWS = "rows.wanted"
VECTORS = (4, 3, 2, 5, 1)
"""Vectors of a row at once in a softmax: the first that divides the row."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmAttentionConfig.of(candidate)
    given = attends(candidate.workload)
    nest = _AttentionNest(given, config, parameters_of(candidate.workload))
    return ScheduledProgram(nests=(nest.program(),), options=PassOptions(fma=config.fma))


class _AttentionNest:
    """`parameters` are those of the workload, flat."""

    def __init__(
        self,
        given: ManyRowsAttention,
        config: WasmAttentionConfig,
        parameters: tuple[ir.Buffer, ...],
    ) -> None:
        self.given, self.config, self.parameters = given, config, parameters
        self.keys = ir.scratch("packed_keys", given.n * given.head_dim)
        self.values = ir.scratch("packed_values", given.n * given.width)
        self.queries = ir.scratch("packed_queries", config.block_m * given.head_dim)
        self.scores = ir.scratch("scores", config.block_m * given.n)
        self.shares = ir.scratch("shares", config.block_m)

    def program(self) -> ir.Program:
        given, config, frame = self.given, self.config, ir.Frame()
        kv_heads = given.heads // given.shared
        slices = kv_heads * config.groups
        place = frame.variable("slice", slices)
        kv_head, group = frame.delinearize(place, (("kv_head", kv_heads), ("group", config.groups)))
        body: ir.Block = (*self._packed(kv_head), *self._heads(kv_head, group))
        # A group of rows that nobody wants needs no keys. The last one may begin before its blocks.
        whole, together = given.m // config.block_m, self._together
        if 0 < (config.groups - 1) * together <= whole:
            body = self._wanted(group * (together * config.block_m), body)
        body = ir.allocated((self.keys, self.values, self.queries, self.scores, self.shares), body)
        told = self.parameters[-1 - len(given.told) : -1]
        for name, most, spares, spare in (
            (KEYS, given.n, given.spare_keys, told[:1]),
            (ROWS, given.m, given.spare_rows, told[-1:]),
        ):
            if spares:
                count = ir.whole(most) - spare[0][0]
                body = (ir.let(name, count, most, body),)
        return ir.program(self.parameters, "slice", slices, frame.enclose(body))

    def _there(self, key: ir.Affine, body: ir.Block) -> ir.Block:
        """Bounds a block to where there is a key of this number."""
        bounds = (key.below(ir.variable(KEYS)),) if self.given.spare_keys else ()
        return ir.under(bounds, body)

    def _wanted(self, row: ir.Affine, body: ir.Block) -> ir.Block:
        """Bounds a block to where the row of this number is wanted."""
        bounds = (row.below(ir.variable(ROWS)),) if self.given.spare_rows else ()
        return ir.under(bounds, body)

    def _entry(
        self,
        operand: HeadsOperand,
        rows: int,
        entries: int,
        at: tuple[ir.Affine, ir.Affine, ir.Affine],
    ) -> ir.Load:
        """An entry of an operand, by head, row and entry of the row."""
        of_head, of_row = operand.steps(rows, entries)
        head, row, entry = at
        index = head * of_head + row * of_row + entry + operand.first
        return self.parameters[operand.place][index]

    # Step 1: keys and values of the head in panels.

    def _packed(self, head: ir.Affine) -> ir.Block:
        given, tile_n = self.given, self.config.tile_n
        row, lane = ir.variable("row"), ir.variable("lane")

        def keys(first: ir.Affine, width: int) -> ir.Block:
            at = (head, first + lane, row)
            value = self._entry(given.keys, given.n, given.head_dim, at)
            copied = _row(self.keys, first * given.head_dim + row * width, width, value)
            return self._there(first, ir.serial("row", given.head_dim, copied))

        def values(first: ir.Affine, width: int) -> ir.Block:
            at = (head, row, first + lane)
            value = self._entry(given.values, given.n, given.width, at)
            copied = _row(self.values, first * given.n + row * width, width, value)
            rows = ir.serial("row", given.n, self._there(row, copied))
            return (*rows, *self._without_values(first, width))

        return (*ir.tiled("p", given.n, tile_n, keys), *ir.tiled("p", given.width, tile_n, values))

    def _without_values(self, first: ir.Affine, width: int) -> ir.Block:
        """Zeros in the rows of a panel that the last step over keys reads beyond them."""
        given, beyond = self.given, self._unroll(self.given.n) - 1
        if not given.spare_keys or not beyond:
            return ()
        row = ir.variable(KEYS) + ir.variable("row")
        zeros = _row(self.values, first * given.n + row * width, width, 0.0)
        return ir.serial("row", beyond, ir.under((row.below(given.n),), zeros))

    # Blocks of rows.

    @property
    def _together(self) -> int:
        """Counts the whole blocks of a group."""
        return -(-(self.given.m // self.config.block_m) // self.config.groups)

    def _heads(self, kv_head: ir.Affine, group: ir.Affine) -> ir.Block:
        """Blocks of each head that has these keys and values."""
        shared = self.given.shared
        if shared == 1:
            return self._blocks(kv_head, group)
        head = kv_head * shared + ir.variable("own")
        return ir.serial("own", shared, self._blocks(head, group))

    def _blocks(self, head: ir.Affine, group: ir.Affine) -> ir.Block:
        config = self.config
        whole, rest = divmod(self.given.m, config.block_m)
        together = self._together
        frame = ir.Frame()
        frame.variable("group", config.groups)
        number_ = group * together + frame.variable("block", together)
        inside = frame.undecided((number_.below(whole),))
        first = number_ * config.block_m
        block = self._wanted(first, self._block(head, first, config.block_m))
        blocks = ir.serial("block", together, ir.under(inside, block))
        if not rest:
            return blocks
        # The last group has the block of fewer rows.
        last = config.groups - 1 - group
        is_last = frame.undecided((last.below(1),))
        first = ir.constant(whole * config.block_m)
        block = self._wanted(first, self._block(head, first, rest))
        return (*blocks, *ir.under(is_last, block))

    def _block(self, head: ir.Affine, first: ir.Affine, rows: int) -> ir.Block:
        return (
            *self._gathered(head, first, rows),
            *self._products(head, first, rows),
            *self._softmax(first, rows),
            *self._mixed(head, first, rows),
        )

    # Step 2: scores. Rows of a wide matrix would fall into few sets of the first cache: those of
    # queries are put side by side before.

    def _gathered(self, head: ir.Affine, first: ir.Affine, rows: int) -> ir.Block:
        given = self.given
        row, entry = ir.variable("row"), ir.variable("entry")
        value = self._entry(given.queries, given.m, given.head_dim, (head, first + row, entry))
        store = self.queries.store(row * given.head_dim + entry, value)
        copied = (ir.loop("entry", given.head_dim, (store,), ir.LoopKind.VECTOR),)
        return ir.serial("row", rows, self._wanted(first + row, copied))

    def _products(self, head: ir.Affine, first: ir.Affine, rows: int) -> ir.Block:
        given = self.given
        k = ir.affine(k1=self._unroll(given.head_dim), k0=1)

        def left(row: ir.Affine) -> ir.Load:
            return self.queries[row * given.head_dim + k]

        def stored(row: ir.Affine, column: ir.Affine, value: ir.Expression) -> ir.Store:
            return self.scores.store(
                row * given.n + column,
                scored(given, self.parameters, value, (head, first + row, column)),
            )

        return self._product(first, rows, given.n, given.head_dim, left, self.keys, stored)

    # Step 4: values, mixed.

    def _mixed(self, head: ir.Affine, first: ir.Affine, rows: int) -> ir.Block:
        given, output = self.given, self.parameters[-1]
        k = ir.affine(k1=self._unroll(given.n), k0=1)

        def left(row: ir.Affine) -> ir.Load:
            return self.scores[row * given.n + k]

        def stored(row: ir.Affine, column: ir.Affine, value: ir.Expression) -> ir.Store:
            place = ((first + row) * given.heads + head) * given.width
            return output.store(place + column, value * self.shares[row])

        return self._product(first, rows, given.width, given.n, left, self.values, stored)

    # What steps 2 and 4 share.

    def _unroll(self, k: int) -> int:
        return gcd(self.config.unroll_k, k)

    def _product(
        self,
        first: ir.Affine,
        rows: int,
        size: int,
        k: int,
        left: Callable[[ir.Affine], ir.Load],
        panels: ir.Buffer,
        stored: Callable[[ir.Affine, ir.Affine, ir.Expression], ir.Store],
    ) -> ir.Block:
        """Rows times panels of `size` columns in all: the rows of a block, from row `first` on,
        pass by each panel."""

        def panel(column: ir.Affine, width: int) -> ir.Block:
            def tile(row: ir.Affine, count: int) -> ir.Block:
                made = self._tile((row, count), (column, width), k, left, panels, stored)
                return self._wanted(first + row, made)

            passed = ir.tiled("m", rows, self.config.tile_m, tile)
            return self._there(column, passed) if panels == self.keys else passed

        return ir.tiled("p", size, self.config.tile_n, panel)

    def _tile(
        self,
        rows: tuple[ir.Affine, int],
        columns: tuple[ir.Affine, int],
        k: int,
        left: Callable[[ir.Affine], ir.Load],
        panels: ir.Buffer,
        stored: Callable[[ir.Affine, ir.Affine, ir.Expression], ir.Store],
    ) -> ir.Block:
        """`rows` and `columns` are the first, and how many there are."""
        (first, count), (panel, width), unroll_k = rows, columns, self._unroll(k)
        sums = TileSums(count, width, "t", "lane")
        row, column = first + ir.variable("t"), panel + ir.variable("lane")
        right = panels[panel * k + ir.affine(k1=unroll_k * width, k0=width, lane=1)]
        product = sums.add(unroll_k, left(row) * right)
        if panels == self.values:
            product = self._there(ir.affine(k1=unroll_k), product)
        tile: ir.Block = (
            *sums.start(),
            *ir.serial("k1", k // unroll_k, product),
            *sums.each(stored(row, column, sums.held)),
        )
        return ir.allocated((sums.buffer,), tile)

    # Step 3: the softmax of each row, but for its division.

    def _softmax(self, first: ir.Affine, rows: int) -> ir.Block:
        n = self.given.n
        vectors = next(count for count in VECTORS if n % (ir.LANES * count) == 0)
        width = ir.LANES * vectors
        most, sums, kept = (ir.local(name, width) for name in ("most", "total", "power"))
        one = ir.local("largest", 1)
        lane = ir.affine(v=ir.LANES, lane=1)
        entry = ir.affine(row=n, step=width, v=ir.LANES, lane=1)
        score = self.scores[entry]

        def each(*stores: ir.Store) -> ir.Block:
            return (ir.unrolled("v", vectors, *(ir.vector("lane", store) for store in stores)),)

        def over_row(*stores: ir.Store) -> ir.Block:
            body = self._there(ir.affine(step=width), each(*stores))
            return ir.serial("step", n // width, body)

        def kept_in(buffer: ir.Buffer, value: ir.Expression) -> ir.Store:
            return buffer.store(lane, value)

        def folded(op: ir.BinaryOp, buffer: ir.Buffer) -> ir.Block:
            """All vectors of a buffer as the first."""
            first, here = ir.variable("lane"), ir.affine(ir.LANES, v=ir.LANES, lane=1)
            store = buffer.store(first, ir.Binary(op=op, left=buffer[first], right=buffer[here]))
            return (ir.unrolled("v", vectors - 1, ir.vector("lane", store)),) if vectors > 1 else ()

        def across(op: ir.BinaryOp, buffer: ir.Buffer) -> ir.Expression:
            """The lanes of the first vector as one number."""
            return ir.pairwise([buffer[lane] for lane in range(ir.LANES)], op)

        above = score - one[0]
        # Within these bounds, which cost an instruction each, e to it needs no choices.
        bounded = above.max(LOWEST_EXPONENT).min(0.0)
        power = ir.call(ir.MathFunction.EXP, bounded)
        held = {buffer.name: buffer[lane] for buffer in (most, sums, kept)}
        body: ir.Block = (
            *self._without_scores(width),
            *each(kept_in(most, ir.number(LOWEST)), kept_in(sums, ir.number(0))),
            *over_row(kept_in(most, held["most"].max(score))),
            *folded(ir.BinaryOp.MAX, most),
            one.store(0, across(ir.BinaryOp.MAX, most)),
            *over_row(
                kept_in(kept, power),
                self.scores.store(entry, held["power"]),
                kept_in(sums, held["total"] + held["power"]),
            ),
            *folded(ir.BinaryOp.ADD, sums),
            self.shares.store(ir.variable("row"), ir.number(1) / across(ir.BinaryOp.ADD, sums)),
        )
        body = ir.allocated((most, sums, kept, one), body)
        return ir.serial("row", rows, self._wanted(first + ir.variable("row"), body))

    def _without_scores(self, width: int) -> ir.Block:
        """Scores of -∞ for keys that are not there, as far as steps over keys read beyond them."""
        n = self.given.n
        beyond = max(width, self._unroll(n)) - 1
        if not self.given.spare_keys:
            return ()
        key = ir.variable(KEYS) + ir.variable("key")
        store = self.scores.store(ir.affine(row=n) + key, ir.number(-inf))
        return ir.serial("key", beyond, ir.under((key.below(n),), (store,)))


def _row(buffer: ir.Buffer, at: ir.Affine, width: int, value: ir.Expression | float) -> ir.Block:
    """Stores a row of a panel."""
    store = buffer.store(at + ir.variable("lane"), value)
    return (ir.loop("lane", width, (store,), ir.LoopKind.VECTOR),)

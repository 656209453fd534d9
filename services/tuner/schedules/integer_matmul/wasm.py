"""Products of integers for wasm: c[m, n] = f(Σ_k p[m, k] · b[n, k]), p and b of 8 bits.

Shapes, named by the settings of `WasmIntegerMatmulConfig`; a word is four entries along k:

    range       slices of block_m rows, or of block_n columns
    panels      [⌈n / tile_n⌉][k / 4][tile_n]         words of b, columns beyond n are zero
    wide        [rows][2][k / 4]                      pairs: bytes 0 and 2 of a as i16, then 1 and 3
                [rows][k / 4]                         quads: bytes of a, less 128 but for dot-of-u8
    prepared    [k / 4][2][tile_n]                    halves of a panel of b for all rows of a slice
                [k / 4][tile_n]                       quads: its bytes plus 64
    tile        tile_m · tile_n / 4 vectors of sums
    loop body   unroll_k words: for each half of them tile_n / 4 vectors of b, tile_m splats of a

A dot product of pairs sums two products of i16 in each lane, so that bytes are widened in registers
as they are read; all is exact. One of quads takes four products of bytes, of which those of one
operand are from 0 to 127: weights of 7 bits plus 64. With p' = p - 128 and b' = b + 64,

    Σ p · b = Σ p' · b' - 64 · Σ p' + (128 · Σ b' - 8192 · k)

where the first sum begins as what stands in brackets, which a slice computes for each panel. Quads
of all bytes need less, where a device has them:

    Σ p · b = Σ p' · b + 128 · Σ b      both operands have signs (dot-of-i8)
    Σ p · b                             weights alone have signs (dot-of-u8): nothing is added

What it makes of matmul_u8i8:f32:m8k16n16:constant=b with tiles of 4x8 by columns:

    for slice < 2 range:
      for row < 8:                                                    1. halves of words of a
        wide[8·row +4] = a[4·row +4] & 0x00ff00ff
        wide[8·row + 4 +4] = (a[4·row +4] >> 8) & 0x00ff00ff
      for m < 2:                                                      2. tiles of a panel
        sums[0 +4] = 0, … of 8 vectors
        for word < 4:                                                 3.
          weights[0 +4] = even halves(b[32·slice + 8·word +4]), …
          sums[0 +4] += dot of pairs(weights[0 +4], wide[…] x4), …    × 4 rows, then odd halves
        c[…] = real(sums[…] - a_zero · b_sum[…]) · (a_scale · b_scale[…])         4.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product as product_of

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.integer_products import PER_WORD
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.integer_product import IntegerProduct, integer_product_of
from services.tuner.schedules.base.parameters import (
    Held,
    held_by,
    parameters_of,
    with_parameter,
)
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.integer_matmul.config import (
    OF_SEVEN_BITS,
    Dot,
    Slices,
    WasmIntegerMatmulConfig,
)

EVEN_BYTES = 0x00FF00FF
SIGN_BITS = -0x7F7F7F80
"""The highest bit of each byte."""
ONES, ONE_AND_ONE = 0x01010101, 0x00010001
LOW_BITS, MIDDLE_BITS = 0x7F7F7F7F, 0x40404040
"""The lowest 7 bits of each byte, and the highest of those: a weight b of 7 bits has b + 64 in
them when that is turned."""
ZERO_POINT, MIDDLE = 128, 64


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmIntegerMatmulConfig.of(candidate)
    workload = candidate.workload
    product = integer_product_of(workload)
    nest = _IntegerMatmulNest(config=config, product=product, held=held_by(workload))
    parameters = with_parameter(parameters_of(workload), nest.b)
    program = ir.Program(parameters=parameters, body=nest.body())
    # Reals are rounded as stated, so that all devices give the same bits.
    layout = quads_layout(config.tile_n) if config.packed else ""
    return ScheduledProgram(nests=(program,), options=PassOptions(), layout=layout)


def quads_layout(width: int) -> str:
    """The layout of b in panels of so many columns, words of four entries along k."""
    return f"quads{width}"


def packed_shape(workload: Workload, width: int) -> tuple[int, ...]:
    product = integer_product_of(workload)
    return (-(-product.n // width), product.words, width, PER_WORD)


def packing_program(workload: Workload, width: int) -> ir.Program:
    """From b to its panels, one to an iteration of the range."""
    product = integer_product_of(workload)
    b = ir.parameter("b", product.n * product.words, DType.I32)
    panels = -(-product.n // width)
    packed = ir.parameter("packed", panels * width * product.words, DType.I32)
    panel = ir.variable("panel") if panels > 1 else ir.ZERO
    return ir.program(
        (b, packed), "panel", panels, _copied(product, b, packed, width, panel, panel)
    )


def _copied(
    product: IntegerProduct,
    b: ir.Buffer,
    packed: ir.Buffer,
    width: int,
    panel: ir.Affine,
    target: ir.Affine,
) -> ir.Block:
    """Copies one panel of words to the place of the panel `target`."""
    word, column = ir.variable("word"), ir.variable("column")
    own = panel * width + column
    at = target * (width * product.words) + word * width + column
    inside = (own.below(product.n),) if product.n % width else ()
    copy = packed.store(at, b[own * product.words + word])
    fill = (packed.store(at, 0),) if inside else ()
    body = ir.under(inside, (copy,), fill)
    return ir.serial("word", product.words, ir.serial("column", width, body))


@dataclass(frozen=True, slots=True, kw_only=True)
class _IntegerMatmulNest:
    config: WasmIntegerMatmulConfig
    product: IntegerProduct
    held: Held

    @property
    def b(self) -> ir.Buffer:
        """The parameter, as words."""
        product, width = self.product, self.config.tile_n
        columns = -(-product.n // width) * width if self.config.packed else product.n
        return ir.parameter(product.b, columns * product.words, DType.I32)

    @property
    def _panels(self) -> ir.Buffer:
        if self.config.packed:
            return self.b
        return ir.scratch("panel", self.config.tile_n * self.product.words, DType.I32)

    @property
    def _halves(self) -> int:
        """Words that one of a becomes."""
        return 2 if not self.config.fma else 1

    @property
    def _wide(self) -> ir.Buffer:
        size = self.config.block_m * self._halves * self.product.words
        return ir.scratch("wide", size, DType.I32)

    @property
    def _column_sums(self) -> ir.Buffer:
        return ir.scratch("column_sums", self.config.tile_n, DType.I32)

    @property
    def _prepared(self) -> ir.Buffer:
        size = self._halves * self.product.words * self.config.tile_n
        return ir.scratch("prepared", size, DType.I32)

    @property
    def _row_sums(self) -> ir.Buffer:
        return ir.scratch("row_sums", self.config.block_m, DType.I32)

    def body(self) -> ir.Loop:
        product, config = self.product, self.config
        whole, rest = divmod(product.n, config.tile_n)
        if config.outer is Slices.COLUMNS:
            panels = config.block_n // config.tile_n
            slices = max(1, whole // panels)
            first = ir.affine(slice=panels)
            columns: ir.Block = ()
            if whole:
                panel = first + (ir.variable("panel") if panels > 1 else ir.ZERO)
                columns = ir.serial("panel", panels, self._panel(panel, config.tile_n, product.m))
            if rest:
                last = self._panel(ir.constant(whole), rest, product.m)
                ends = (ir.variable("slice").at_least(slices - 1),) if slices > 1 else ()
                columns = (*columns, *ir.under(ends, last))
            body = (*self._widened(ir.ZERO, product.m), *columns)
        else:
            slices = -(-product.m // config.block_m)
            body = self._sliced_rows(slices, product.m % config.block_m)
        scratch: tuple[ir.Buffer, ...] = (self._wide,)
        if self._is_moved:
            scratch = (*scratch, self._column_sums)
        if self._needs_row_sums:
            scratch = (*scratch, self._row_sums)
        if not config.packed:
            scratch = (*scratch, self._panels)
        if config.prepared:
            scratch = (*scratch, self._prepared)
        return ir.loop("slice", slices, ir.allocated(scratch, body), ir.LoopKind.RANGE)

    def _sliced_rows(self, slices: int, rest: int) -> ir.Block:
        """Each slice has block_m rows, the last one what is left of them."""
        whole, few = self._block(self.config.block_m), self._block(rest) if rest else ()
        if slices == 1:
            return few or whole
        if not rest:
            return whole
        return ir.under((ir.variable("slice").below(slices - 1),), whole, few)

    def _block(self, rows: int) -> ir.Block:
        product, config = self.product, self.config
        panels, rest = divmod(product.n, config.tile_n)
        first = ir.affine(slice=config.block_m)
        body = self._widened(first, rows)
        if panels:
            panel = ir.variable("panel") if panels > 1 else ir.ZERO
            body = (*body, *ir.serial("panel", panels, self._panel(panel, config.tile_n, rows)))
        if rest:
            body = (*body, *self._panel(ir.constant(panels), rest, rows))
        return body

    @property
    def _first(self) -> ir.Affine:
        """The first row of a slice."""
        if self.config.outer is Slices.COLUMNS:
            return ir.ZERO
        return ir.affine(slice=self.config.block_m)

    # Step 1: words of a become what the dot product takes.

    def _widened(self, first: ir.Affine, rows: int) -> ir.Block:
        """Makes operands of the words of each row, and the sums of rows where they are needed."""
        product = self.product
        a = self.held[product.a][0]
        vectors, rest = divmod(product.words, ir.LANES)
        row = ir.variable("row") if rows > 1 else ir.ZERO
        vector = ir.affine(vector=ir.LANES) if vectors > 1 else ir.ZERO
        source = (first + row) * product.words
        target = row * (self._halves * product.words)
        made, total = (ir.tile(name, 1, dtype=DType.I32) for name in ("made", "total"))

        def steps(words: ir.Expression, at: ir.Affine, lanes: int) -> Iterator[ir.Store]:
            for half in range(self._halves):
                yield made.store(0, self._activations(words, half))
                if self._needs_row_sums:
                    yield total.store(0, self._added_up(total[0], made[0]))
                stored = made[0] if lanes == ir.LANES else made.lane(0, ir.ZERO)
                yield self._wide.store(target + half * product.words + at, stored)

        body: ir.Block = ()
        if vectors:
            whole = tuple(steps(a.vector(source + vector), vector, ir.LANES))
            body = ir.serial("vector", vectors, whole)
        for at in range(product.words - rest, product.words):
            # The other lanes are bytes that count nothing in sums of rows.
            nothing = ir.whole(self._nothing)
            words = ir.Lanes(values=(a[source + at], nothing, nothing, nothing))
            body = (*body, *steps(words, ir.constant(at), 1))
        if self._needs_row_sums:
            last = self._row_sums.store(row, ir.all_lanes(total[0]))
            body = (*total.fill(0), *body, last)
        return ir.serial("row", rows, ir.allocated((made, total), body))

    @property
    def _needs_row_sums(self) -> bool:
        return self._in_seven_bits or bool(self.product.b_zero)

    @property
    def _in_seven_bits(self) -> bool:
        return self.config.dot in OF_SEVEN_BITS

    @property
    def _is_moved(self) -> bool:
        """Returns whether operands are bytes of a less 128."""
        return self._in_seven_bits or self.config.dot is Dot.QUADS_OF_I8

    @property
    def _nothing(self) -> int:
        """A word of activations that become 0."""
        return SIGN_BITS if self._is_moved else 0

    def _activations(self, words: ir.Expression, half: int) -> ir.Expression:
        """A byte whose highest bit is turned is less by 128, as a number with sign."""
        if self.config.fma:
            return words ^ SIGN_BITS if self._is_moved else words
        return (words >> 8 if half else words) & EVEN_BYTES

    def _added_up(self, total: ir.Expression, made: ir.Expression) -> ir.Expression:
        ones = ir.wholes(ONES)
        match self.config.dot:
            case Dot.PAIRS:
                return total + ir.DotPairs(left=made, right=ir.wholes(ONE_AND_ONE))
            case Dot.QUADS_OF_U8:
                return ir.DotQuads(left=ones, right=made, addend=total, bytes=ir.RightBytes.U8)
        return ir.DotQuads(left=made, right=ones, addend=total)

    # Steps 2 to 4: rows of the slice by a panel of so many columns.

    def _panel(self, panel: ir.Affine, columns: int, rows: int) -> ir.Block:
        config = self.config
        body: ir.Block = ()
        if not config.packed:
            b = self.b
            body = _copied(self.product, b, self._panels, config.tile_n, panel, ir.ZERO)
        if self._is_moved or config.prepared:
            body = (*body, *self._prepared_panel(panel, columns))
        return (*body, *ir.tiled("m", rows, config.tile_m, partial(self._tile, panel, columns)))

    def _tile(self, panel: ir.Affine, columns: int, first: ir.Affine, rows: int) -> ir.Block:
        product, config = self.product, self.config
        vectors = -(-columns // ir.LANES)
        sums = ir.tile("sums", rows, vectors, dtype=DType.I32)
        weights = ir.tile("weights", vectors, dtype=DType.I32)
        entry = ir.tile("entry", 1, dtype=DType.I32)
        wide, words = self._wide, product.words

        def terms(k0: int) -> Iterator[ir.Store]:
            k = ir.affine(k0, word=config.unroll_k) if words > config.unroll_k else ir.constant(k0)
            for half in range(self._halves):
                for vector in range(vectors):
                    yield weights.store(vector, self._weights(panel, k, half, ir.LANES * vector))
                # One splat of a word of a serves all vectors of columns.
                for row in range(rows):
                    place = (first + row) * (self._halves * words) + half * words
                    yield entry.store(0, ir.splat(wide[place + k]))
                    for at in product_of((row,), range(vectors)):
                        yield sums.store(at, self._added(sums[at], entry[0], weights[at[1]]))

        def begun() -> Iterator[ir.Store]:
            for row, vector in product_of(range(rows), range(vectors)):
                yield sums.store((row, vector), self._column_sums.vector(ir.LANES * vector))

        body: ir.Block = (
            *(begun() if self._is_moved else sums.fill(0)),
            *ir.serial(
                "word",
                words // config.unroll_k,
                tuple(each for k0 in range(config.unroll_k) for each in terms(k0)),
            ),
            *self._stored(panel, columns, first, rows, sums),
        )
        return ir.allocated((sums, weights, entry), body)

    def _weights(self, panel: ir.Affine, k: ir.Affine, half: int, at: int) -> ir.Expression:
        """A vector of columns, as the dot product takes it."""
        width = self.config.tile_n
        if self.config.prepared:
            return self._prepared.vector((k * self._halves + half) * width + at)
        start = self._start(panel) + k * width
        return self._operand(self._panels.vector(start + at), half)

    def _start(self, panel: ir.Affine) -> ir.Affine:
        """The first word of a panel, of which there is one at a time where a slice copies it."""
        if not self.config.packed:
            return ir.ZERO
        return panel * (self.product.words * self.config.tile_n)

    def _prepared_panel(self, panel: ir.Affine, columns: int) -> ir.Block:
        """Stores the operands that a panel gives, and what sums of products of quads begin as, for
        each of its columns."""
        product, config = self.product, self.config
        vectors = -(-columns // ir.LANES)
        sums = ir.tile("sums", vectors, dtype=DType.I32)
        word = ir.variable("word") if product.words > 1 else ir.ZERO
        start = self._start(panel) + word * config.tile_n
        made = ir.tile("made", 1, dtype=DType.I32)

        def terms() -> Iterator[ir.Store]:
            for vector, half in product_of(range(vectors), range(self._halves)):
                at = ir.LANES * vector
                yield made.store(0, self._operand(self._panels.vector(start + at), half))
                if config.prepared:
                    place = (word * self._halves + half) * config.tile_n + at
                    yield self._prepared.store(place, made[0])
                if self._is_moved:
                    yield sums.store(vector, self._column_sum(sums[vector], made[0]))

        nest = ir.serial("word", product.words, tuple(terms()))
        if not self._is_moved:
            return ir.allocated((made,), nest)
        less = ir.wholes(MIDDLE * ZERO_POINT * product.k if self._in_seven_bits else 0)
        body: ir.Block = (
            *sums.fill(0),
            *nest,
            *(
                self._column_sums.store(
                    ir.LANES * vector, sums[vector] * ir.wholes(ZERO_POINT) - less
                )
                for vector in range(vectors)
            ),
        )
        return ir.allocated((sums, made), body)

    def _column_sum(self, total: ir.Expression, weights: ir.Expression) -> ir.Expression:
        ones = ir.wholes(ONES)
        if self._in_seven_bits:
            return ir.DotQuads(left=ones, right=weights, addend=total)
        return ir.DotQuads(left=weights, right=ones, addend=total)

    def _operand(self, words: ir.Expression, half: int) -> ir.Expression:
        if not self.config.fma:
            return ir.Halves(value=words, odd=bool(half))
        return (words & LOW_BITS) ^ MIDDLE_BITS if self._in_seven_bits else words

    def _added(
        self, total: ir.Expression, a: ir.Expression, weights: ir.Expression
    ) -> ir.Expression:
        match self.config.dot:
            case Dot.PAIRS:
                return total + ir.DotPairs(left=weights, right=a)
            case Dot.QUADS_OF_U8:
                return ir.DotQuads(left=weights, right=a, addend=total, bytes=ir.RightBytes.U8)
            case Dot.QUADS_OF_I8:
                return ir.DotQuads(left=a, right=weights, addend=total, bytes=ir.RightBytes.I8)
        in_two = self.config.dot is Dot.QUADS_IN_TWO
        return ir.DotQuads(left=a, right=weights, addend=total, in_two=in_two)

    def _stored(
        self, panel: ir.Affine, columns: int, first: ir.Affine, rows: int, sums: ir.Tile
    ) -> ir.Block:
        product, config = self.product, self.config
        if product.step:
            return self._stored_bytes(panel, columns, first, rows, sums)
        output, _ = list(self.held.values())[-1]
        vectors = -(-columns // ir.LANES)
        body: list[ir.Statement] = []
        for row in range(rows):
            for vector in range(vectors):

                def stored(lane: ir.Affine, row: int = row, vector: int = vector) -> ir.Store:
                    column = panel * config.tile_n + ir.LANES * vector + lane
                    here = self._first + first + row
                    scaled = self._scaled(sums.lane((row, vector), lane), first + row, column)
                    places = {product.axes[0].name: here, product.axes[1].name: column}
                    made = {product.scaled: scaled}
                    value = entry_value(product.value, places, self.held, made)
                    return output.store(here * product.n + column, value)

                lanes = min(ir.LANES, columns - ir.LANES * vector)
                if lanes == ir.LANES:
                    body.append(ir.vector("lane", stored(ir.variable("lane"))))
                else:
                    body.extend(stored(ir.constant(lane)) for lane in range(lanes))
        return tuple(body)

    def _stored_bytes(
        self, panel: ir.Affine, columns: int, first: ir.Affine, rows: int, sums: ir.Tile
    ) -> ir.Block:
        """Columns of four make a word, and four words a vector, of one row or of several."""
        product, config = self.product, self.config
        held = {name: buffer for name, (buffer, _) in self.held.items()}
        output, _ = list(self.held.values())[-1]
        vectors, line = columns // ir.LANES, product.n // PER_WORD
        zero, scale, step = (
            ir.splat(held[name][0]) for name in (product.a_zero, product.a_scale, product.step)
        )
        start = ir.splat(held[product.start][0].cast(DType.F32))
        places = [(row, vector) for row in range(rows) for vector in range(vectors)]
        steps = ir.tile("steps", ir.LANES, dtype=DType.I32)
        made = ir.tile("made", 1, dtype=DType.I32)

        def steps_of(row: int, vector: int) -> ir.Expression:
            column = panel * config.tile_n + ir.LANES * vector
            total = sums[row, vector] - zero * held[product.b_sum].vector(column)
            real = total.cast(DType.F32) * (scale * held[product.b_scale].vector(column))
            real = real + held["bias"].vector(column)
            nearest = ir.call(ir.MathFunction.NEAREST, real / step)
            return (nearest + start).cast(DType.I32)

        body: list[ir.Statement] = []
        for begin in range(0, len(places), ir.LANES):
            some = places[begin : begin + ir.LANES]
            for place, (row, vector) in enumerate(some):
                body.append(steps.store(place, steps_of(row, vector)))
            # Bytes are made of four vectors: where fewer are left, the last fills up.
            whole = [steps[min(n, len(some) - 1)] for n in range(ir.LANES)]
            body.append(made.store(0, ir.Bytes(values=tuple(whole))))
            targets = [
                (self._first + first + row) * line + panel * (config.tile_n // PER_WORD) + vector
                for row, vector in some
            ]
            if len({row for row, _ in some}) == 1 and len(some) == ir.LANES:
                body.append(output.store(targets[0], made[0]))
            else:
                lanes = (made.lane(0, ir.constant(n)) for n in range(len(targets)))
                body += map(output.store, targets, lanes)
        return ir.allocated((steps, made), tuple(body))

    def _scaled(self, total: ir.Expression, row: ir.Affine, column: ir.Affine) -> ir.Expression:
        """The sum less what its zero point adds, times its scales."""
        product = self.product
        held = {name: buffer for name, (buffer, _) in self.held.items()}
        zero: ir.Expression = held[product.a_zero][0]
        if self._in_seven_bits:
            total = total - self._row_sums[row] * MIDDLE
        total = total - zero * held[product.b_sum][column]
        if product.b_zero:
            # Sums of rows are those of bytes less 128 where these are the operands.
            begun = ir.whole(product.k * ZERO_POINT if self._is_moved else 0)
            sums = self._row_sums[row] + begun - zero * product.k
            total = total - held[product.b_zero][column] * sums
        real = total.cast(DType.F32)
        return real * (held[product.a_scale][0] * held[product.b_scale][column])

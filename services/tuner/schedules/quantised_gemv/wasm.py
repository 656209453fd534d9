"""Products of few rows with quantised weights for wasm: c[m, n] = f(Σ_k a[m, k] · weights[n, k]).

Shapes, named by the settings of `WasmQuantisedGemvConfig`; a stretch is 32 weights of a row, which
are one vector of words of 4 bits a weight, two of 8 bits:

    range       n / block_n slices
    ordered     [m][stretches][8 slots] vectors of a, of the whole rows
    sums        [tile_n][m] vectors
    loop body   one stretch of tile_n rows: for each slot and row (and, convert, multiply-add)

Word j of a vector has weights from j · W on, W of them. So bits e of all four words are the weights
e, W + e, 2W + e and 3W + e, and slot e has the activations of these. Weights are converted where
their bits are, as q · 2^p, and their activations are kept times 2^-p, which rounds nothing. Zero
points are taken away as zero · Σ a of the stretch. What it makes of matmul_q4:f32:m1k64n8 with
tile_n=2:

    for slice < 1 range:
      for unit < 2:                                                  1. activations in order
        ordered[32·unit + 4·slot + lane] = a[32·unit + 8·lane + slot] · 2^-p
        offsets[4·unit +4] = −8 · Σ ordered[…] · 2^p
      for tile < 4:
        for unit < 2:                                                2. a stretch of each row
          words[0 +4] = b[16·tile + 4·unit +4], words[4 +4] = …
          dots[0 +4] = offsets[4·unit +4], …
          dots[0 +4] += real(words[0 +4] & 15) · ordered[32·unit +4], …        × 8 slots
          sums[0 +4] += block_scales[4·tile + unit] · dots[0 +4], …
        found[2·tile] = the sum of the lanes of sums[0 +4], …        3.
      c[…] = found[…]                                                4.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import ROW_STEP
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    all_lanes,
    binary,
    constant,
    f32_buffer,
    loop,
    number,
    numbers,
    plus,
    serial,
    splat,
    store_vector,
    times,
    total,
    vector,
    vector_at,
    whole,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    BinaryOp,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    Expression,
    IndexValue,
    Load,
    Loop,
    LoopKind,
    MathFunction,
    Program,
    Scope,
    Store,
)
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import Held, held_by, parameters_of
from services.tuner.schedules.base.quantised import (
    QuantisedProduct,
    Weights,
    quantised_product_of,
)
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantised_gemv.config import WasmQuantisedGemvConfig
from services.tuner.schedules.quantised_gemv.slots import HALF_WORD, Slot, slots_of


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmQuantisedGemvConfig.of(candidate)
    workload = candidate.workload
    product = quantised_product_of(workload)
    nest = _Nest(config=config, product=product, held=held_by(workload))
    program = Program(parameters=parameters_of(workload), body=nest.body())
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    config: WasmQuantisedGemvConfig
    product: QuantisedProduct
    held: Held

    def body(self) -> Loop:
        product, config = self.product, self.config
        body: Block = (
            *(each for m in range(product.m) for each in self._ordered_row(m)),
            *self._tiles(),
            *self._finished(),
        )
        for buffer in (self._ordered, self._offsets, self._found):
            body = (Allocate(buffer=buffer, body=body),)
        return loop("slice", product.n // config.block_n, LoopKind.RANGE, body)

    @property
    def _slots(self) -> tuple[Slot, ...]:
        return slots_of(self.product.form.width)

    @property
    def _units(self) -> int:
        return self.product.k // ROW_STEP

    @property
    def _ordered(self) -> Buffer:
        return f32_buffer("ordered", self.product.m * self.product.k, Scope.GLOBAL)

    @property
    def _offsets(self) -> Buffer:
        """What zero points take away of a stretch, or what they are multiplied by."""
        return f32_buffer("offsets", self.product.m * self._units * LANES, Scope.GLOBAL)

    @property
    def _found(self) -> Buffer:
        size = len(self.product.weights) * self.product.m * self.config.block_n
        return f32_buffer("found", size, Scope.GLOBAL)

    # Step 1: a row of activations in the order in which words have their weights.

    def _ordered_row(self, m: int) -> Block:
        product = self.product
        unit = Affine.variable("unit")
        row = constant(m * product.k)
        first = unit.times(ROW_STEP)
        factor = f32_buffer("factor", 1, Scope.LOCAL)
        stores = [
            Store(
                buffer=self._ordered,
                index=total(row, first, constant(LANES * slot.number + lane)),
                value=times(
                    self._entry(row, first.plus(constant(slot.weight(lane))), factor),
                    number(2.0**-slot.power),
                ),
            )
            for slot in self._slots
            for lane in range(LANES)
        ]
        summed: Expression = numbers(0.0)
        for slot in self._slots:
            index = total(row, first, constant(LANES * slot.number))
            held = Load(buffer=self._ordered, index=index, lanes=LANES)
            summed = plus(summed, times(held, numbers(2.0**slot.power)))
        sign = -1.0 if product.form.zeros else -float(product.form.middle)
        offset = Store(
            buffer=self._offsets,
            index=total(constant(m * self._units * LANES), unit.times(LANES)),
            value=times(summed, numbers(sign)),
        )
        body = serial("unit", self._units, (*stores, offset))
        if product.norm is None:
            return body
        return (Allocate(buffer=factor, body=(*self._factor(row, factor), *body)),)

    def _entry(self, row: Affine, column: Affine, factor: Buffer) -> Expression:
        product = self.product
        entry: Expression = self._load(product.a, row.plus(column))
        if product.norm is not None:
            entry = times(entry, Load(buffer=factor, index=ZERO))
            entry = times(entry, self._load(product.norm.gamma, column))
        return entry

    def _factor(self, row: Affine, factor: Buffer) -> Block:
        """1 / the root of the mean square of a row."""
        k, norm = self.product.k, self.product.norm
        assert norm is not None
        squares = f32_buffer("squares", LANES, Scope.LOCAL)
        held = Load(buffer=squares, index=ZERO, lanes=LANES)
        place = row.plus(Affine.variable("step").times(LANES))
        entries = self._load(self.product.a, place, LANES)
        added = Store(buffer=squares, index=ZERO, value=plus(held, times(entries, entries)))
        mean = times(all_lanes(held), number(1.0 / k))
        root = Call(function=MathFunction.RSQRT, argument=plus(mean, number(norm.epsilon)))
        body: Block = (
            Store(buffer=squares, index=ZERO, value=numbers(0.0)),
            *serial("step", k // LANES, (added,)),
            Store(buffer=factor, index=ZERO, value=root),
        )
        return (Allocate(buffer=squares, body=body),)

    # Step 2: tiles of rows of the weights.

    def _tiles(self) -> Block:
        product, config = self.product, self.config
        vectors = config.tile_n * len(product.weights)
        words_each = self._words_each
        words = Buffer(
            name="stretch_words",
            scope=Scope.LOCAL,
            dtype=DType.I32,
            size=vectors * LANES * words_each,
        )
        dots = f32_buffer("dots", vectors * product.m * LANES, Scope.LOCAL)
        sums = f32_buffer("sums", vectors * product.m * LANES, Scope.LOCAL)
        inner, blocks = product.form.block // ROW_STEP, product.form.blocks(product.k)
        frame = Frame()
        block = frame.variable("block", blocks)
        unit = block.times(inner).plus(frame.variable("inner", inner))
        places = range(vectors * product.m)
        no_dots = tuple(store_vector(dots, place, numbers(0.0)) for place in places)
        steps: Block = (
            *self._zero_points(block, frame),
            *(no_dots if inner > 1 else ()),
            *serial("inner", inner, self._stretch(unit, words, dots, starts=inner == 1)),
            *self._scaled(block, dots, sums),
        )
        tile: Block = (
            *(store_vector(sums, place, numbers(0.0)) for place in places),
            *serial("block", blocks, frame.enclose(steps)),
            *self._told(sums),
        )
        for buffer in (words, dots, sums, self._zeros):
            tile = (Allocate(buffer=buffer, body=tile),)
        return serial("tile", config.block_n // config.tile_n, tile)

    @property
    def _zeros(self) -> Buffer:
        """The zero point of each row of a tile in a block."""
        return f32_buffer("points", self.config.tile_n * len(self.product.weights), Scope.LOCAL)

    def _zero_points(self, block: Affine, frame: Frame) -> Block:
        form, k = self.product.form, self.product.k
        if not form.zeros:
            return ()
        parts = (("word", form.zero_words(k)), ("among", form.per_word))
        word, among = frame.delinearize(block, parts)
        body = []
        for place, weights, row in self._rows():
            held = self._load(weights.zeros, row.times(form.zero_words(k)).plus(word))
            shifted = binary(BinaryOp.SHIFT_RIGHT, held, IndexValue(index=among.times(form.width)))
            bits = binary(BinaryOp.AND, shifted, whole((1 << form.width) - 1))
            value = Cast(value=bits, dtype=DType.F32)
            body.append(Store(buffer=self._zeros, index=constant(place), value=value))
        return tuple(body)

    @property
    def _words_each(self) -> int:
        """Vectors of words to a stretch."""
        return ROW_STEP // (LANES * self.product.form.per_word)

    def _rows(self) -> Iterator[tuple[int, Weights, Affine]]:
        """Each row of a tile: its number, its weights, and its place among their rows."""
        config = self.config
        first = Affine.of(0, {"slice": config.block_n, "tile": config.tile_n})
        for number_, weights in enumerate(self.product.weights):
            for t in range(config.tile_n):
                row = first.plus(constant(weights.first_row + t))
                yield number_ * config.tile_n + t, weights, row

    def _stretch(self, unit: Affine, words: Buffer, dots: Buffer, *, starts: bool) -> Block:
        """32 weights of each row: slots outside of rows, so that activations are read once."""
        product, words_each = self.product, self._words_each
        row_words = product.k // product.form.per_word
        body: list[Store] = []
        for place, weights, row in self._rows():
            for vector_ in range(words_each):
                index = total(
                    row.times(row_words),
                    unit.times(LANES * words_each),
                    constant(LANES * vector_),
                )
                value = self._load(weights.words, index, LANES)
                body.append(store_vector(words, place * words_each + vector_, value))
        for place, _, _ in self._rows():
            body += [
                self._start(unit, dots, place * product.m + m, m, starts=starts)
                for m in range(product.m)
            ]
        for slot in self._slots:
            if slot.bit * slot.width == HALF_WORD:
                for place, _, _ in self._rows():
                    at = place * words_each + slot.vector
                    shifted = binary(BinaryOp.SHIFT_RIGHT, vector_at(words, at), whole(HALF_WORD))
                    body.append(store_vector(words, at, shifted))
            for m in range(product.m):
                index = total(constant(m * product.k + LANES * slot.number), unit.times(ROW_STEP))
                entries = Load(buffer=self._ordered, index=index, lanes=LANES)
                for place, _, _ in self._rows():
                    bits = binary(
                        BinaryOp.AND,
                        vector_at(words, place * words_each + slot.vector),
                        Const(value=slot.mask, dtype=DType.I32, lanes=LANES),
                    )
                    at = place * product.m + m
                    made = times(Cast(value=bits, dtype=DType.F32), entries)
                    body.append(store_vector(dots, at, plus(vector_at(dots, at), made)))
        return tuple(body)

    def _start(self, unit: Affine, dots: Buffer, place: int, m: int, *, starts: bool) -> Store:
        index = total(constant(m * self._units * LANES), unit.times(LANES))
        offset: Expression = Load(buffer=self._offsets, index=index, lanes=LANES)
        if self.product.form.zeros:
            row = constant(place // self.product.m)
            offset = times(offset, splat(Load(buffer=self._zeros, index=row)))
        return store_vector(dots, place, offset if starts else plus(vector_at(dots, place), offset))

    def _scaled(self, block: Affine, dots: Buffer, sums: Buffer) -> Block:
        product = self.product
        blocks = product.form.blocks(product.k)
        body = []
        for place, weights, row in self._rows():
            index = row.times(blocks).plus(block)
            scale = splat(self._load(weights.scales, index))
            for m in range(product.m):
                at = place * product.m + m
                body.append(
                    store_vector(
                        sums, at, plus(vector_at(sums, at), times(scale, vector_at(dots, at)))
                    )
                )
        return tuple(body)

    # Steps 3 and 4: one number of each row, and the entries of the output.

    def _told(self, sums: Buffer) -> Block:
        product, config = self.product, self.config
        body = []
        for place, _, _ in self._rows():
            number_, t = divmod(place, config.tile_n)
            for m in range(product.m):
                index = self._found_at(number_, m, Affine.of(t, {"tile": config.tile_n}))
                value = all_lanes(vector_at(sums, place * product.m + m))
                body.append(Store(buffer=self._found, index=index, value=value))
        return tuple(body)

    def _found_at(self, number_: int, m: int, column: Affine) -> Affine:
        first = (number_ * self.product.m + m) * self.config.block_n
        return constant(first).plus(column)

    def _finished(self) -> Block:
        product, config = self.product, self.config
        i, j = product.axes
        column = Affine.of(0, {"quad": LANES, "lane": 1})
        place = Affine.of(0, {"slice": config.block_n}).plus(column)
        output, _ = list(self.held.values())[-1]
        stores = []
        for m in range(product.m):
            made: dict[str, Expression] = {
                name: Load(buffer=self._found, index=self._found_at(number_, m, column))
                for number_, name in enumerate(product.products)
            }
            places = {i.name: constant(m), j.name: place}
            value = entry_value(product.value, places, self.held, made)
            index = constant(m * product.n).plus(place)
            stores.append(Store(buffer=output, index=index, value=value))
        return serial("quad", config.block_n // LANES, (vector("lane", *stores),))

    def _load(self, name: str, index: Affine, lanes: int = 1) -> Load:
        return Load(buffer=self.held[name][0], index=index, lanes=lanes)

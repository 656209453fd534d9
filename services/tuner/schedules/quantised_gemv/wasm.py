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
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import Held, held_by, parameters_of
from services.tuner.schedules.base.quantised import QuantisedProduct, Weights, quantised_product_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantised_gemv.config import WasmQuantisedGemvConfig
from services.tuner.schedules.quantised_gemv.slots import HALF_WORD, Slot, slots_of


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmQuantisedGemvConfig.of(candidate)
    workload = candidate.workload
    product = quantised_product_of(workload)
    nest = _Nest(config=config, product=product, held=held_by(workload))
    program = ir.Program(parameters=parameters_of(workload), body=nest.body())
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    config: WasmQuantisedGemvConfig
    product: QuantisedProduct
    held: Held

    def body(self) -> ir.Loop:
        product, config = self.product, self.config
        body: ir.Block = (
            *(each for m in range(product.m) for each in self._ordered_row(m)),
            *self._tiles(),
            *self._finished(),
        )
        body = ir.allocated((self._ordered, self._offsets, self._found), body)
        return ir.loop("slice", product.n // config.block_n, body, ir.LoopKind.RANGE)

    @property
    def _slots(self) -> tuple[Slot, ...]:
        return slots_of(self.product.form.width)

    @property
    def _units(self) -> int:
        return self.product.k // ROW_STEP

    @property
    def _ordered(self) -> ir.Buffer:
        return ir.scratch("ordered", self.product.m * self.product.k)

    @property
    def _offsets(self) -> ir.Buffer:
        """Holds what zero points take away of a stretch, or what they are multiplied by."""
        return ir.scratch("offsets", self.product.m * self._units * ir.LANES)

    @property
    def _found(self) -> ir.Buffer:
        size = len(self.product.weights) * self.product.m * self.config.block_n
        return ir.scratch("found", size)

    # Step 1: a row of activations in the order in which words have their weights.

    def _ordered_row(self, m: int) -> ir.Block:
        product = self.product
        unit = ir.variable("unit")
        row = ir.constant(m * product.k)
        first = unit * ROW_STEP
        factor = ir.local("factor", 1)
        stores = [
            self._ordered.store(
                row + first + ir.LANES * slot.number + lane,
                self._entry(row, first + slot.weight(lane), factor) * 2.0**-slot.power,
            )
            for slot in self._slots
            for lane in range(ir.LANES)
        ]
        summed: ir.Expression = ir.numbers(0.0)
        for slot in self._slots:
            index = row + first + ir.LANES * slot.number
            held = self._ordered.vector(index)
            summed = summed + held * 2.0**slot.power
        sign = -1.0 if product.form.zeros else -float(product.form.middle)
        offset = self._offsets.store(
            m * self._units * ir.LANES + unit * ir.LANES, summed * ir.numbers(sign)
        )
        body = ir.serial("unit", self._units, (*stores, offset))
        if product.norm is None:
            return body
        return (ir.Allocate(buffer=factor, body=(*self._factor(row, factor), *body)),)

    def _entry(self, row: ir.Affine, column: ir.Affine, factor: ir.Buffer) -> ir.Expression:
        product = self.product
        entry: ir.Expression = self._load(product.a, row + column)
        if product.norm is not None:
            entry = entry * factor[0]
            entry = entry * self._load(product.norm.gamma, column)
        return entry

    def _factor(self, row: ir.Affine, factor: ir.Buffer) -> ir.Block:
        """1 / the root of the mean square of a row."""
        k, norm = self.product.k, self.product.norm
        assert norm is not None
        squares = ir.local("squares", ir.LANES)
        held = squares.vector(0)
        place = row + ir.variable("step") * ir.LANES
        entries = self._load(self.product.a, place, ir.LANES)
        added = squares.store(0, held + entries * entries)
        mean = ir.all_lanes(held) * (1.0 / k)
        root = ir.call(ir.MathFunction.RSQRT, mean + ir.number(norm.epsilon))
        body: ir.Block = (
            squares.store(0, ir.numbers(0.0)),
            *ir.serial("step", k // ir.LANES, (added,)),
            factor.store(0, root),
        )
        return (ir.Allocate(buffer=squares, body=body),)

    # Step 2: tiles of rows of the weights.

    def _tiles(self) -> ir.Block:
        product, config = self.product, self.config
        vectors = config.tile_n * len(product.weights)
        words_each = self._words_each
        words = ir.local("stretch_words", vectors * ir.LANES * words_each, DType.I32)
        dots = ir.local("dots", vectors * product.m * ir.LANES)
        sums = ir.local("sums", vectors * product.m * ir.LANES)
        inner, blocks = product.form.block // ROW_STEP, product.form.blocks(product.k)
        frame = ir.Frame()
        block = frame.variable("block", blocks)
        unit = block * inner + frame.variable("inner", inner)
        places = range(vectors * product.m)
        no_dots = tuple(dots.store(ir.LANES * place, ir.numbers(0.0)) for place in places)
        steps: ir.Block = (
            *self._zero_points(block, frame),
            *(no_dots if inner > 1 else ()),
            *ir.serial("inner", inner, self._stretch(unit, words, dots, starts=inner == 1)),
            *self._scaled(block, dots, sums),
        )
        tile: ir.Block = (
            *(sums.store(ir.LANES * place, ir.numbers(0.0)) for place in places),
            *ir.serial("block", blocks, frame.enclose(steps)),
            *self._told(sums),
        )
        tile = ir.allocated((words, dots, sums, self._zeros), tile)
        return ir.serial("tile", config.block_n // config.tile_n, tile)

    @property
    def _zeros(self) -> ir.Buffer:
        """The zero point of each row of a tile in a block."""
        return ir.local("points", self.config.tile_n * len(self.product.weights))

    def _zero_points(self, block: ir.Affine, frame: ir.Frame) -> ir.Block:
        form, k = self.product.form, self.product.k
        if not form.zeros:
            return ()
        parts = (("word", form.zero_words(k)), ("among", form.per_word))
        word, among = frame.delinearize(block, parts)
        body = []
        for place, weights, row in self._rows():
            held = self._load(weights.zeros, row * form.zero_words(k) + word)
            shifted = held >> among * form.width
            bits = shifted & (1 << form.width) - 1
            value = bits.cast(DType.F32)
            body.append(self._zeros.store(place, value))
        return tuple(body)

    @property
    def _words_each(self) -> int:
        """Vectors of words to a stretch."""
        return ROW_STEP // (ir.LANES * self.product.form.per_word)

    def _rows(self) -> Iterator[tuple[int, Weights, ir.Affine]]:
        """Each row of a tile: its number, its weights, and its place among their rows."""
        config = self.config
        first = ir.affine(slice=config.block_n, tile=config.tile_n)
        for number_, weights in enumerate(self.product.weights):
            for t in range(config.tile_n):
                row = first + weights.first_row + t
                yield number_ * config.tile_n + t, weights, row

    def _stretch(
        self, unit: ir.Affine, words: ir.Buffer, dots: ir.Buffer, *, starts: bool
    ) -> ir.Block:
        """32 weights of each row: slots outside of rows, so that activations are read once."""
        product, words_each = self.product, self._words_each
        row_words = product.k // product.form.per_word
        body: list[ir.Store] = []
        for place, weights, row in self._rows():
            for vector_ in range(words_each):
                index = row * row_words + unit * (ir.LANES * words_each) + ir.LANES * vector_
                value = self._load(weights.words, index, ir.LANES)
                body.append(words.store(ir.LANES * (place * words_each + vector_), value))
        for place, _, _ in self._rows():
            body += [
                self._start(unit, dots, place * product.m + m, m, starts=starts)
                for m in range(product.m)
            ]
        for slot in self._slots:
            if slot.bit * slot.width == HALF_WORD:
                for place, _, _ in self._rows():
                    at = place * words_each + slot.vector
                    shifted = words.vector(ir.LANES * at) >> HALF_WORD
                    body.append(words.store(ir.LANES * at, shifted))
            for m in range(product.m):
                index = m * product.k + ir.LANES * slot.number + unit * ROW_STEP
                entries = self._ordered.vector(index)
                for place, _, _ in self._rows():
                    bits = words.vector(ir.LANES * (place * words_each + slot.vector)) & ir.Const(
                        value=slot.mask, dtype=DType.I32, lanes=ir.LANES
                    )
                    at = place * product.m + m
                    made = bits.cast(DType.F32) * entries
                    body.append(dots.store(ir.LANES * at, dots.vector(ir.LANES * at) + made))
        return tuple(body)

    def _start(
        self, unit: ir.Affine, dots: ir.Buffer, place: int, m: int, *, starts: bool
    ) -> ir.Store:
        index = m * self._units * ir.LANES + unit * ir.LANES
        offset: ir.Expression = self._offsets.vector(index)
        if self.product.form.zeros:
            row = ir.constant(place // self.product.m)
            offset = offset * ir.splat(self._zeros[row])
        return dots.store(
            ir.LANES * place, offset if starts else dots.vector(ir.LANES * place) + offset
        )

    def _scaled(self, block: ir.Affine, dots: ir.Buffer, sums: ir.Buffer) -> ir.Block:
        product = self.product
        blocks = product.form.blocks(product.k)
        body = []
        for place, weights, row in self._rows():
            index = row * blocks + block
            scale = ir.splat(self._load(weights.scales, index))
            for m in range(product.m):
                at = place * product.m + m
                body.append(
                    sums.store(
                        ir.LANES * at,
                        sums.vector(ir.LANES * at) + scale * dots.vector(ir.LANES * at),
                    )
                )
        return tuple(body)

    # Steps 3 and 4: one number of each row, and the entries of the output.

    def _told(self, sums: ir.Buffer) -> ir.Block:
        product, config = self.product, self.config
        body = []
        for place, _, _ in self._rows():
            number_, t = divmod(place, config.tile_n)
            for m in range(product.m):
                index = self._found_at(number_, m, ir.affine(t, tile=config.tile_n))
                value = ir.all_lanes(sums.vector(ir.LANES * (place * product.m + m)))
                body.append(self._found.store(index, value))
        return tuple(body)

    def _found_at(self, number_: int, m: int, column: ir.Affine) -> ir.Affine:
        first = (number_ * self.product.m + m) * self.config.block_n
        return first + column

    def _finished(self) -> ir.Block:
        product, config = self.product, self.config
        i, j = product.axes
        column = ir.affine(quad=ir.LANES, lane=1)
        place = ir.affine(slice=config.block_n) + column
        output, _ = list(self.held.values())[-1]
        stores = []
        for m in range(product.m):
            made: dict[str, ir.Expression] = {
                name: self._found[self._found_at(number_, m, column)]
                for number_, name in enumerate(product.products)
            }
            places = {i.name: ir.constant(m), j.name: place}
            value = entry_value(product.value, places, self.held, made)
            index = m * product.n + place
            stores.append(output.store(index, value))
        return ir.serial("quad", config.block_n // ir.LANES, (ir.vector("lane", *stores),))

    def _load(self, name: str, index: ir.Affine, lanes: int = 1) -> ir.Load:
        return ir.Load(buffer=self.held[name][0], index=index, lanes=lanes)

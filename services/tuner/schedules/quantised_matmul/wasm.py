"""Products of many rows with quantised weights for wasm: weights become f32 first, then the product
is one of matrices. c[m, n] = f(Σ_k a[m, k] · weights[n, k])

Shapes, named by the settings of `WasmQuantisedMatmulConfig`:

    range         n / block_n slices
    panels        [products][block_n / tile_n][k][tile_n]    the slice's weights as f32
    loop body     sums[tile_m, products · tile_n] += a[tile_m, unroll_k] · panels[unroll_k, tile_n]

What it makes of matmul_q4:f32:m8k64n16 with tiles of 4x8 and block_n=8:

    for slice < 2 range:
      for panel < 1:                                                  1. for each four columns:
        for block < 2:
          scale[0 +4] = (block_scales[…], … of four rows)
          for word < 4:
            word[0 +4] = (b[…], … of four rows)
            panels[… +4] = (real((word[0 +4] >> 4·e) & 15) - 8) · scale[0 +4]      × 8
      for panel < 1:
        for m < 2:
          sums[32] += a[…] x4 · panels[… +4]                          2. for k1 < 32, k0 < 2
          c[…] = sums[…]                                              3.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import Held, held_by, parameters_of
from services.tuner.schedules.base.quantised import QuantisedProduct, Weights, quantised_product_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantised_matmul.config import WasmQuantisedMatmulConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmQuantisedMatmulConfig.of(candidate)
    workload = candidate.workload
    nest = _Nest(config=config, product=quantised_product_of(workload), held=held_by(workload))
    program = ir.Program(parameters=parameters_of(workload), body=nest.body())
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    config: WasmQuantisedMatmulConfig
    product: QuantisedProduct
    held: Held

    def body(self) -> ir.Loop:
        product, config = self.product, self.config
        panels = config.block_n // config.tile_n
        columns = tuple(
            statement
            for number_, weights in enumerate(product.weights)
            for first in range(0, config.tile_n, ir.LANES)
            for statement in self._columns(number_, weights, first)
        )
        body: ir.Block = (
            *ir.serial("panel", panels, columns),
            *ir.serial("panel", panels, self._rows()),
        )
        body = (ir.Allocate(buffer=self._panels, body=body),)
        return ir.loop("slice", product.n // config.block_n, body, ir.LoopKind.RANGE)

    @property
    def _panels(self) -> ir.Buffer:
        size = len(self.product.weights) * self.config.block_n * self.product.k
        return ir.scratch("panels", size)

    def _panel_at(self, number_: int, k: ir.Affine, column: ir.Affine) -> ir.Affine:
        config, entries = self.config, self.product.k * self.config.tile_n
        return (
            number_ * self.config.block_n * self.product.k
            + ir.variable("panel") * entries
            + k * config.tile_n
            + column
        )

    # Step 1: four columns of a panel, which are four rows of the weights.

    def _columns(self, number_: int, weights: Weights, first: int) -> ir.Block:
        product, form, config = self.product, self.product.form, self.config
        blocks, words = form.blocks(product.k), form.block // form.per_word
        frame = ir.Frame()
        block = frame.variable("block", blocks)
        place = block * words + frame.variable("word", words)
        scale = ir.local("scale", ir.LANES)
        zero = ir.local("zero", ir.LANES)
        word = ir.local("word_of_each", ir.LANES, DType.I32)

        def of_each(name: str, columns: int, column: ir.Affine) -> tuple[ir.Expression, ...]:
            rows = ir.affine(weights.first_row + first, slice=config.block_n, panel=config.tile_n)
            places = ((rows + lane) * columns for lane in range(ir.LANES))
            return tuple(self.held[name][0][row + column] for row in places)

        points: ir.Expression = ir.numbers(float(form.middle))
        before: list[ir.Store] = [
            scale.store(0, ir.Lanes(values=of_each(weights.scales, blocks, block)))
        ]
        if form.zeros:
            count = form.zero_words(product.k)
            parts = (("zero_word", count), ("among", form.per_word))
            held, among = frame.delinearize(block, parts)
            shift = ir.value(among * form.width)
            values = ir.Lanes(
                values=tuple(
                    _bits(each, shift, form.width).cast(DType.F32)
                    for each in of_each(weights.zeros, count, held)
                )
            )
            before.append(zero.store(0, values))
            points = zero.vector(0)
        row_words = product.k // form.per_word
        unpacked: list[ir.Store] = [
            word.store(0, ir.Lanes(values=of_each(weights.words, row_words, place)))
        ]
        for bit in range(form.per_word):
            bits = _wide_bits(word.vector(0), bit * form.width, form.width)
            entry = bits.cast(DType.F32) - points
            k = place * form.per_word + bit
            index = self._panel_at(number_, k, ir.constant(first))
            unpacked.append(self._panels.store(index, entry * scale.vector(0)))
        steps: ir.Block = (*before, *ir.serial("word", words, tuple(unpacked)))
        body = ir.serial("block", blocks, frame.enclose(steps))
        return ir.allocated((scale, zero, word), body)

    # Steps 2 and 3: all rows of a pass by a panel.

    def _rows(self) -> ir.Block:
        tile_m = self.config.tile_m
        tiles, rest = divmod(self.product.m, tile_m)
        body = ir.serial("m", tiles, self._tile(ir.affine(m=tile_m), tile_m))
        return (*body, *self._tile(ir.constant(tiles * tile_m), rest)) if rest else body

    def _tile(self, first: ir.Affine, rows: int) -> ir.Block:
        product, config = self.product, self.config
        vectors = config.tile_n // ir.LANES
        wide = len(product.weights) * vectors
        sums = ir.local("sums", rows * wide * ir.LANES)
        entry = ir.local("entry", ir.LANES)

        def at(row: int, number_: int, column: int) -> ir.Affine:
            return ir.constant(ir.LANES * (row * wide + number_ * vectors + column))

        def each(make: Callable[[int, int, int], ir.Store]) -> ir.Block:
            return tuple(
                make(row, number_, column)
                for row in range(rows)
                for number_ in range(len(product.weights))
                for column in range(vectors)
            )

        def cleared(row: int, number_: int, column: int) -> ir.Store:
            zero = ir.numbers(0.0)
            return sums.store(at(row, number_, column), zero)

        terms: list[ir.Store] = []
        for k0 in range(config.unroll_k):
            k = ir.affine(k0, k1=config.unroll_k)
            for row in range(rows):
                place = (first + row) * product.k + k
                a = ir.splat(self.held[product.a][0][place])
                terms.append(entry.store(0, a))
                for number_ in range(len(product.weights)):
                    for column in range(vectors):
                        index = self._panel_at(number_, k, ir.constant(ir.LANES * column))
                        right = self._panels.vector(index)
                        here = at(row, number_, column)
                        held = sums.vector(here)
                        added = held + entry.vector(0) * right
                        terms.append(sums.store(here, added))

        body: ir.Block = (
            *each(cleared),
            *ir.serial("k1", product.k // config.unroll_k, tuple(terms)),
            *self._stored(first, rows, sums, at),
        )
        return ir.allocated((sums, entry), body)

    def _stored(
        self, first: ir.Affine, rows: int, sums: ir.Buffer, at: Callable[[int, int, int], ir.Affine]
    ) -> ir.Block:
        product, config = self.product, self.config
        i, j = product.axes
        output, _ = list(self.held.values())[-1]
        body = []
        for row in range(rows):
            for column in range(config.tile_n // ir.LANES):
                lane = ir.variable("lane")
                made: dict[str, ir.Expression] = {
                    name: sums[at(row, number_, column) + lane]
                    for number_, name in enumerate(product.products)
                }
                own = ir.affine(ir.LANES * column, slice=config.block_n, panel=config.tile_n) + lane
                here = first + row
                value = entry_value(product.value, {i.name: here, j.name: own}, self.held, made)
                index = here * product.n + own
                body.append(ir.vector("lane", output.store(index, value)))
        return tuple(body)


def _bits(word: ir.Expression, shift: ir.Expression, width: int) -> ir.Expression:
    shifted = word >> shift
    return shifted & (1 << width) - 1


def _wide_bits(words: ir.Expression, shift: int, width: int) -> ir.Expression:
    shifted = words >> shift if shift else words
    mask = ir.Const(value=(1 << width) - 1, dtype=DType.I32, lanes=ir.LANES)
    return shifted & mask

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
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    Frame,
    binary,
    constant,
    f32_buffer,
    loop,
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
    Cast,
    Const,
    Expression,
    IndexValue,
    Lanes,
    Load,
    Loop,
    LoopKind,
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
from services.tuner.schedules.quantised_matmul.config import WasmQuantisedMatmulConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmQuantisedMatmulConfig.of(candidate)
    workload = candidate.workload
    nest = _Nest(config=config, product=quantised_product_of(workload), held=held_by(workload))
    program = Program(parameters=parameters_of(workload), body=nest.body())
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    config: WasmQuantisedMatmulConfig
    product: QuantisedProduct
    held: Held

    def body(self) -> Loop:
        product, config = self.product, self.config
        panels = config.block_n // config.tile_n
        columns = tuple(
            statement
            for number_, weights in enumerate(product.weights)
            for first in range(0, config.tile_n, LANES)
            for statement in self._columns(number_, weights, first)
        )
        body: Block = (
            *serial("panel", panels, columns),
            *serial("panel", panels, self._rows()),
        )
        body = (Allocate(buffer=self._panels, body=body),)
        return loop("slice", product.n // config.block_n, LoopKind.RANGE, body)

    @property
    def _panels(self) -> Buffer:
        size = len(self.product.weights) * self.config.block_n * self.product.k
        return f32_buffer("panels", size, Scope.GLOBAL)

    def _panel_at(self, number_: int, k: Affine, column: Affine) -> Affine:
        config, entries = self.config, self.product.k * self.config.tile_n
        return total(
            constant(number_ * self.config.block_n * self.product.k),
            Affine.variable("panel").times(entries),
            k.times(config.tile_n),
            column,
        )

    # Step 1: four columns of a panel, which are four rows of the weights.

    def _columns(self, number_: int, weights: Weights, first: int) -> Block:
        product, form, config = self.product, self.product.form, self.config
        blocks, words = form.blocks(product.k), form.block // form.per_word
        frame = Frame()
        block = frame.variable("block", blocks)
        place = block.times(words).plus(frame.variable("word", words))
        scale = f32_buffer("scale", LANES, Scope.LOCAL)
        zero = f32_buffer("zero", LANES, Scope.LOCAL)
        word = Buffer(name="word_of_each", scope=Scope.LOCAL, dtype=DType.I32, size=LANES)

        def of_each(name: str, columns: int, column: Affine) -> tuple[Expression, ...]:
            rows = Affine.of(
                weights.first_row + first, {"slice": config.block_n, "panel": config.tile_n}
            )
            places = (rows.plus(constant(lane)).times(columns) for lane in range(LANES))
            return tuple(Load(buffer=self.held[name][0], index=row.plus(column)) for row in places)

        points: Expression = numbers(float(form.middle))
        before: list[Store] = [
            store_vector(scale, 0, Lanes(values=of_each(weights.scales, blocks, block)))
        ]
        if form.zeros:
            count = form.zero_words(product.k)
            parts = (("zero_word", count), ("among", form.per_word))
            held, among = frame.delinearize(block, parts)
            shift = IndexValue(index=among.times(form.width))
            values = Lanes(
                values=tuple(
                    Cast(value=_bits(each, shift, form.width), dtype=DType.F32)
                    for each in of_each(weights.zeros, count, held)
                )
            )
            before.append(store_vector(zero, 0, values))
            points = vector_at(zero, 0)
        row_words = product.k // form.per_word
        unpacked: list[Store] = [
            store_vector(word, 0, Lanes(values=of_each(weights.words, row_words, place)))
        ]
        for bit in range(form.per_word):
            bits = _wide_bits(vector_at(word, 0), bit * form.width, form.width)
            entry = binary(BinaryOp.SUB, Cast(value=bits, dtype=DType.F32), points)
            k = place.times(form.per_word).plus(constant(bit))
            index = self._panel_at(number_, k, constant(first))
            unpacked.append(
                Store(buffer=self._panels, index=index, value=times(entry, vector_at(scale, 0)))
            )
        steps: Block = (*before, *serial("word", words, tuple(unpacked)))
        body = serial("block", blocks, frame.enclose(steps))
        for buffer in (scale, zero, word):
            body = (Allocate(buffer=buffer, body=body),)
        return body

    # Steps 2 and 3: all rows of a pass by a panel.

    def _rows(self) -> Block:
        tile_m = self.config.tile_m
        tiles, rest = divmod(self.product.m, tile_m)
        body = serial("m", tiles, self._tile(Affine.of(0, {"m": tile_m}), tile_m))
        return (*body, *self._tile(constant(tiles * tile_m), rest)) if rest else body

    def _tile(self, first: Affine, rows: int) -> Block:
        product, config = self.product, self.config
        vectors = config.tile_n // LANES
        wide = len(product.weights) * vectors
        sums = f32_buffer("sums", rows * wide * LANES, Scope.LOCAL)
        entry = f32_buffer("entry", LANES, Scope.LOCAL)

        def at(row: int, number_: int, column: int) -> Affine:
            return constant(LANES * (row * wide + number_ * vectors + column))

        def each(make: Callable[[int, int, int], Store]) -> Block:
            return tuple(
                make(row, number_, column)
                for row in range(rows)
                for number_ in range(len(product.weights))
                for column in range(vectors)
            )

        def cleared(row: int, number_: int, column: int) -> Store:
            zero = numbers(0.0)
            return Store(buffer=sums, index=at(row, number_, column), value=zero)

        terms: list[Store] = []
        for k0 in range(config.unroll_k):
            k = Affine.of(k0, {"k1": config.unroll_k})
            for row in range(rows):
                place = first.plus(constant(row)).times(product.k).plus(k)
                a = splat(Load(buffer=self.held[product.a][0], index=place))
                terms.append(store_vector(entry, 0, a))
                for number_ in range(len(product.weights)):
                    for column in range(vectors):
                        index = self._panel_at(number_, k, constant(LANES * column))
                        right = Load(buffer=self._panels, index=index, lanes=LANES)
                        here = at(row, number_, column)
                        held = Load(buffer=sums, index=here, lanes=LANES)
                        added = plus(held, times(vector_at(entry, 0), right))
                        terms.append(Store(buffer=sums, index=here, value=added))

        body: Block = (
            *each(cleared),
            *serial("k1", product.k // config.unroll_k, tuple(terms)),
            *self._stored(first, rows, sums, at),
        )
        for buffer in (sums, entry):
            body = (Allocate(buffer=buffer, body=body),)
        return body

    def _stored(
        self, first: Affine, rows: int, sums: Buffer, at: Callable[[int, int, int], Affine]
    ) -> Block:
        product, config = self.product, self.config
        i, j = product.axes
        output, _ = list(self.held.values())[-1]
        body = []
        for row in range(rows):
            for column in range(config.tile_n // LANES):
                lane = Affine.variable("lane")
                made: dict[str, Expression] = {
                    name: Load(buffer=sums, index=at(row, number_, column).plus(lane))
                    for number_, name in enumerate(product.products)
                }
                own = total(
                    Affine.of(LANES * column, {"slice": config.block_n, "panel": config.tile_n}),
                    lane,
                )
                here = first.plus(constant(row))
                value = entry_value(product.value, {i.name: here, j.name: own}, self.held, made)
                index = here.times(product.n).plus(own)
                body.append(vector("lane", Store(buffer=output, index=index, value=value)))
        return tuple(body)


def _bits(word: Expression, shift: Expression, width: int) -> Expression:
    shifted = binary(BinaryOp.SHIFT_RIGHT, word, shift)
    return binary(BinaryOp.AND, shifted, whole((1 << width) - 1))


def _wide_bits(words: Expression, shift: int, width: int) -> Expression:
    shifted = binary(BinaryOp.SHIFT_RIGHT, words, whole(shift)) if shift else words
    mask = Const(value=(1 << width) - 1, dtype=DType.I32, lanes=LANES)
    return binary(BinaryOp.AND, shifted, mask)

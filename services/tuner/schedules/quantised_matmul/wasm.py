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

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import held_by, parameters_of
from services.tuner.schedules.base.quantised import Weights, quantised_product_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantised_matmul.config import WasmQuantisedMatmulConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmQuantisedMatmulConfig.of(candidate)
    program = _QuantisedMatmulNest(candidate.workload, config).program()
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma))


class _QuantisedMatmulNest:
    def __init__(self, workload: Workload, config: WasmQuantisedMatmulConfig) -> None:
        product = quantised_product_of(workload)
        self.config, self.product, self.count = config, product, len(product.weights)
        self.parameters, self.held = parameters_of(workload), held_by(workload)
        self.tensors = {buffer.name: buffer for buffer in self.parameters}
        self.panels = ir.scratch("panels", self.count * config.block_n * product.k)

    def program(self) -> ir.Program:
        product, config = self.product, self.config
        panels = config.block_n // config.tile_n
        columns = tuple(
            statement
            for number_, weights in enumerate(product.weights)
            for first in range(0, config.tile_n, ir.LANES)
            for statement in self.columns(number_, weights, first)
        )
        body = (*ir.serial("panel", panels, columns), *ir.serial("panel", panels, self.rows()))
        slices = product.n // config.block_n
        return ir.program(self.parameters, "slice", slices, ir.allocated((self.panels,), body))

    def panel_at(self, number_: int, k: ir.Affine, column: int) -> ir.Affine:
        config, k_ = self.config, self.product.k
        first = number_ * config.block_n * k_ + column
        return k * config.tile_n + ir.affine(first, panel=k_ * config.tile_n)

    # Step 1: four columns of a panel, which are four rows of the weights.

    def columns(self, number_: int, weights: Weights, first: int) -> ir.Block:
        product, form, config, frame = self.product, self.product.form, self.config, ir.Frame()
        blocks, words = form.blocks(product.k), form.block // form.per_word
        block = frame.variable("block", blocks)
        place = block * words + frame.variable("word", words)
        scale, zero = ir.tile("scale", 1), ir.tile("zero", 1)
        word = ir.tile("word_of_each", 1, dtype=DType.I32)
        rows = ir.affine(weights.first_row + first, slice=config.block_n, panel=config.tile_n)

        def of_each(name: str, columns: int, column: ir.Affine) -> list[ir.Load]:
            places = ((rows + lane) * columns + column for lane in range(ir.LANES))
            return [self.tensors[name][at] for at in places]

        mask, points = (1 << form.width) - 1, ir.numbers(float(form.middle))
        before = [scale.store(0, ir.Lanes(values=(*of_each(weights.scales, blocks, block),)))]
        if form.zeros:
            count = form.zero_words(product.k)
            parts = (("zero_word", count), ("among", form.per_word))
            held, among = frame.delinearize(block, parts)
            bits = (
                each >> among * form.width & mask for each in of_each(weights.zeros, count, held)
            )
            values = ir.Lanes(values=tuple(each.cast(DType.F32) for each in bits))
            before.append(zero.store(0, values))
        row_words = product.k // form.per_word
        unpacked = [word.store(0, ir.Lanes(values=(*of_each(weights.words, row_words, place),)))]
        for bit in range(form.per_word):
            shifted = word[0] >> bit * form.width if bit else word[0]
            entry = (shifted & mask).cast(DType.F32) - (zero[0] if form.zeros else points)
            index = self.panel_at(number_, place * form.per_word + bit, first)
            unpacked.append(self.panels.store(index, entry * scale[0]))
        steps: ir.Block = (*before, *ir.serial("word", words, tuple(unpacked)))
        body = ir.serial("block", blocks, frame.enclose(steps))
        return ir.allocated((scale, zero, word), body)

    # Steps 2 and 3: all rows of a pass by a panel.

    def rows(self) -> ir.Block:
        return ir.tiled("m", self.product.m, self.config.tile_m, self.tile)

    def tile(self, first: ir.Affine, rows: int) -> ir.Block:
        product, unroll_k = self.product, self.config.unroll_k
        vectors = self.config.tile_n // ir.LANES
        sums, entry = ir.tile("sums", rows, self.count, vectors), ir.tile("entry", 1)
        a = self.tensors[product.a]
        terms: list[ir.Statement] = []
        for k0 in range(unroll_k):
            k = ir.affine(k0, k1=unroll_k)
            for row in range(rows):
                terms.append(entry.store(0, ir.splat(a[(first + row) * product.k + k])))
                for number_ in range(self.count):
                    for column in range(vectors):
                        index = self.panel_at(number_, k, ir.LANES * column)
                        added = entry[0] * self.panels.vector(index)
                        terms.append(sums.add((row, number_, column), added))
        body: ir.Block = (
            *sums.fill(0.0),
            *ir.serial("k1", product.k // unroll_k, tuple(terms)),
            *(
                self.stored(first + row, sums, row, column)
                for row in range(rows)
                for column in range(vectors)
            ),
        )
        return ir.allocated((sums, entry), body)

    def stored(self, place: ir.Affine, sums: ir.Tile, row: int, column: int) -> ir.Statement:
        product, config = self.product, self.config
        (i, j), lane = product.axes, ir.variable("lane")
        made: dict[str, ir.Expression] = {
            name: sums.lane((row, number_, column), lane)
            for number_, name in enumerate(product.products)
        }
        own = ir.affine(ir.LANES * column, slice=config.block_n, panel=config.tile_n, lane=1)
        value = entry_value(product.value, {i.name: place, j.name: own}, self.held, made)
        return ir.vector("lane", self.parameters[-1].store(place * product.n + own, value))

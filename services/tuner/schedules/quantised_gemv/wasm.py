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

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import ROW_STEP
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import held_by, parameters_of
from services.tuner.schedules.base.quantised import RowNorm, Weights, quantised_product_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantised_gemv.config import WasmQuantisedGemvConfig
from services.tuner.schedules.quantised_gemv.slots import HALF_WORD, slots_of


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmQuantisedGemvConfig.of(candidate)
    program = _QuantisedGemvNest(candidate.workload, config).program()
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma))


class _QuantisedGemvNest:
    """`ordered` has the activations in the order of words, `offsets` what zero points take away of
    a stretch, or what they are multiplied by, and `found` the sums of a slice. Of a tile, `points`
    has the zero point of each row in a block."""

    def __init__(self, workload: Workload, config: WasmQuantisedGemvConfig) -> None:
        product = quantised_product_of(workload)
        self.config, self.product, self.form = config, product, product.form
        self.parameters, self.held = parameters_of(workload), held_by(workload)
        self.tensors = {buffer.name: buffer for buffer in self.parameters}
        self.units, self.slots = product.k // ROW_STEP, slots_of(product.form.width)
        self.words_each = ROW_STEP // (ir.LANES * product.form.per_word)
        rows = config.tile_n * len(product.weights)
        self.ordered = ir.scratch("ordered", product.m * product.k)
        self.offsets = ir.scratch("offsets", product.m * self.units * ir.LANES)
        self.found = ir.scratch("found", len(product.weights) * product.m * config.block_n)
        self.words = ir.tile("stretch_words", rows, self.words_each, dtype=DType.I32)
        self.dots, self.sums = ir.tile("dots", rows, product.m), ir.tile("sums", rows, product.m)
        self.points = ir.tile("points", rows, lanes=1)

    def program(self) -> ir.Program:
        product, config = self.product, self.config
        body: ir.Block = (
            *(each for m in range(product.m) for each in self.ordered_row(m)),
            *ir.serial("tile", config.block_n // config.tile_n, self.tile()),
            *ir.serial("quad", config.block_n // ir.LANES, self.finished()),
        )
        body = ir.allocated((self.ordered, self.offsets, self.found), body)
        return ir.program(self.parameters, "slice", product.n // config.block_n, body)

    # Step 1: a row of activations in the order in which words have their weights.

    def ordered_row(self, m: int) -> ir.Block:
        product, row = self.product, m * self.product.k
        first, factor = ir.affine(unit=ROW_STEP), ir.local("factor", 1)
        a = self.tensors[product.a]

        def entry(column: ir.Affine) -> ir.Expression:
            if product.norm is None:
                return a[row + column]
            return a[row + column] * factor[0] * self.tensors[product.norm.gamma][column]

        stores: list[ir.Statement] = []
        summed: ir.Expression = ir.numbers(0.0)
        for slot in self.slots:
            index = row + first + ir.LANES * slot.number
            for lane in range(ir.LANES):
                value = entry(first + slot.weight(lane)) * 2.0**-slot.power
                stores.append(self.ordered.store(index + lane, value))
            summed = summed + self.ordered.vector(index) * 2.0**slot.power
        sign = -1.0 if self.form.zeros else -float(self.form.middle)
        offset = self.offsets.store(
            ir.affine(m * self.units * ir.LANES, unit=ir.LANES), summed * sign
        )
        body = ir.serial("unit", self.units, (*stores, offset))
        if product.norm is None:
            return body
        return ir.allocated((factor,), (*self.norm_factor(product.norm, a, row, factor), *body))

    def norm_factor(self, norm: RowNorm, a: ir.Buffer, row: int, factor: ir.Buffer) -> ir.Block:
        """1 / the root of the mean square of a row."""
        k, squares = self.product.k, ir.local("squares", ir.LANES)
        entries = a.vector(ir.affine(row, step=ir.LANES))
        mean = ir.all_lanes(squares.vector(0)) * (1.0 / k)
        body: ir.Block = (
            squares.store(0, ir.numbers(0.0)),
            *ir.serial("step", k // ir.LANES, (squares.add(0, entries * entries),)),
            factor.store(0, ir.call(ir.MathFunction.RSQRT, mean + norm.epsilon)),
        )
        return ir.allocated((squares,), body)

    # Step 2: tiles of rows of the weights.

    def tile(self) -> ir.Block:
        product, form, frame = self.product, self.form, ir.Frame()
        inner, blocks = form.block // ROW_STEP, form.blocks(product.k)
        block = frame.variable("block", blocks)
        unit = block * inner + frame.variable("inner", inner)
        steps: ir.Block = (
            *self.zero_points(block, frame),
            *(self.dots.fill(0.0) if inner > 1 else ()),
            *ir.serial("inner", inner, self.stretch(unit, starts=inner == 1)),
            *self.scaled(block, blocks),
        )
        tile: ir.Block = (
            *self.sums.fill(0.0),
            *ir.serial("block", blocks, frame.enclose(steps)),
            *self.kept(),
        )
        tiles = (self.words, self.dots, self.sums, self.points)
        return ir.allocated(tiles, tile)

    def rows(self) -> Iterator[tuple[int, Weights, ir.Affine]]:
        """Each row of a tile: its number, its weights, and its place among their rows."""
        config = self.config
        for number_, weights in enumerate(self.product.weights):
            for t in range(config.tile_n):
                first = weights.first_row + t
                row = ir.affine(first, slice=config.block_n, tile=config.tile_n)
                yield number_ * config.tile_n + t, weights, row

    def zero_points(self, block: ir.Affine, frame: ir.Frame) -> ir.Block:
        form, words = self.form, self.form.zero_words(self.product.k)
        if not form.zeros:
            return ()
        word, among = frame.delinearize(block, (("word", words), ("among", form.per_word)))
        body = []
        for place, weights, row in self.rows():
            shifted = self.tensors[weights.zeros][row * words + word] >> among * form.width
            bits = shifted & (1 << form.width) - 1
            body.append(self.points.store(place, bits.cast(DType.F32)))
        return tuple(body)

    def stretch(self, unit: ir.Affine, *, starts: bool) -> ir.Block:
        """32 weights of each row: slots outside of rows, so that activations are read once."""
        product, words_each, every_m = self.product, self.words_each, range(self.product.m)
        row_words = product.k // self.form.per_word
        body: list[ir.Statement] = []
        for place, weights, row in self.rows():
            first = row * row_words + unit * (ir.LANES * words_each)
            for vector in range(words_each):
                words = self.tensors[weights.words].vector(first + ir.LANES * vector)
                body.append(self.words.store((place, vector), words))
        for place, _, _ in self.rows():
            for m in every_m:
                index = m * self.units * ir.LANES + unit * ir.LANES
                offset: ir.Expression = self.offsets.vector(index)
                if self.form.zeros:
                    offset = offset * ir.splat(self.points[place])
                dots = self.dots
                body.append((dots.store if starts else dots.add)((place, m), offset))
        for slot in self.slots:
            if slot.bit * slot.width == HALF_WORD:
                for place, _, _ in self.rows():
                    shifted = self.words[place, slot.vector] >> HALF_WORD
                    body.append(self.words.store((place, slot.vector), shifted))
            for m in every_m:
                index = m * product.k + ir.LANES * slot.number + unit * ROW_STEP
                entries = self.ordered.vector(index)
                for place, _, _ in self.rows():
                    bits = self.words[place, slot.vector] & slot.mask
                    body.append(self.dots.add((place, m), bits.cast(DType.F32) * entries))
        return tuple(body)

    def scaled(self, block: ir.Affine, blocks: int) -> ir.Block:
        return tuple(
            self.sums.add((place, m), ir.splat(scale) * self.dots[place, m])
            for place, weights, row in self.rows()
            for scale in (self.tensors[weights.scales][row * blocks + block],)
            for m in range(self.product.m)
        )

    # Steps 3 and 4: one number of each row, and the entries of the output.

    def kept(self) -> ir.Block:
        body = []
        for place, _, _ in self.rows():
            number_, t = divmod(place, self.config.tile_n)
            for m in range(self.product.m):
                index = self.found_at(number_, m, ir.affine(t, tile=self.config.tile_n))
                body.append(self.found.store(index, ir.all_lanes(self.sums[place, m])))
        return tuple(body)

    def found_at(self, number_: int, m: int, column: ir.Affine) -> ir.Affine:
        return (number_ * self.product.m + m) * self.config.block_n + column

    def finished(self) -> ir.Block:
        product, (i, j) = self.product, self.product.axes
        column = ir.affine(quad=ir.LANES, lane=1)
        place = ir.affine(slice=self.config.block_n) + column
        stores = []
        for m in range(product.m):
            made: dict[str, ir.Expression] = {
                name: self.found[self.found_at(number_, m, column)]
                for number_, name in enumerate(product.products)
            }
            places = {i.name: ir.constant(m), j.name: place}
            value = entry_value(product.value, places, self.held, made)
            stores.append(self.parameters[-1].store(m * product.n + place, value))
        return (ir.vector("lane", *stores),)

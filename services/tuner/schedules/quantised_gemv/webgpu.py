"""Products of few rows with quantised weights for WebGPU: c[m, n] = f(Σ_k a[m, k] · weights[n, k]).

Shapes, named by the settings of `WebgpuQuantisedGemvConfig`; a stretch is 32 weights of a row:
a block with one scale, a part of a larger block, or two smaller ones:

    dispatch    ⌈n / (row_tiles · tile_n)⌉ workgroups
    workgroup   row_tiles × threads_per_row threads; a row tile has tile_n rows of the weights
    thread      stretches lane, lane + threads_per_row, … of its tile's rows, for all m rows of a
    loop body   one stretch of each row: one vec4 of words of 4 bits a weight, two of 8 bits

    workgroup memory
      staged    [m][8 slots][stretches of block_k, padded] vec4 of a; none where block_k is 0
      shared    sums of threads that share a row (base/row_threads.py)

Word j of a vec4 has weights of the stretch from j · W on, W of them. So bits e of all four words
are the weights e, W + e, 2W + e and 3W + e, and slot e has the activations of these: a stretch is
eight (mask, subtract, multiply-add) of vec4. Weights are not converted, which many GPUs do at an
eighth of the speed: a weight q stands in the mantissa of 2²³ where its bits are, as 2²³ + q · 2^p,
and 2²³ + zero · 2^p is taken away. Nothing is rounded by that. Its activations are kept times 2^-p.
What it makes of matmul_q4:f32:m1k64n4:

    for (var load …) staged[…] = vec4<f32>(a[i], a[i + 8u], a[i + 16u], a[i + 24u]) * …;   // 2
    workgroupBarrier();
    for (var step = 0u; step < 1u; step++) {                                            // 3
      weight = bitcast<vec4<f32>>((b[at] & vec4<i32>(240i)) | vec4<i32>(1258291200i)) - …;
      dot = fma(weight, staged[…], dot);                                                //   × 8
      sums_0 = fma(vec4<f32>(block_scales[…]), dot, sums_0);
    }
    let whole = over_sums_shared0(vec4<f32>(sums_0.x + …, …), invocation, subgroup_lanes);  // 4
    if (lane < 1u) { c[row] = whole.x; }                                                // 5

With block_k = 0 a thread reads the activations of its stretches where they lie, and the squares of
a norm are added up by the threads of each row: nothing waits at a barrier before its weights are on
their way.
"""

from dataclasses import replace

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import ROW_STEP, Form, per_word
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import held_by, parameters_of
from services.tuner.schedules.base.quantised import Weights, quantised_product_of
from services.tuner.schedules.base.row_threads import Reduced, RowThreads, reduced
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantised_gemv.slots import HALF_WORD, SLOTS, Slot, slots_of
from services.tuner.schedules.quantised_gemv.webgpu_config import WebgpuQuantisedGemvConfig

MANTISSA = 23
"""Bits of a number of f32 behind its first one."""
_EXPONENT_BIAS = 127


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuQuantisedGemvConfig.of(candidate)
    return ScheduledProgram(nests=(_QuantisedGemvKernel(candidate.workload, config).program(),))


class _QuantisedGemvKernel:
    """One dispatch; its parameters are those of the workload, flat. `rows` are those of the
    thread's tile, the last one again where there are no more; `exist` bounds those that are."""

    def __init__(self, workload: Workload, config: WebgpuQuantisedGemvConfig) -> None:
        product, frame = quantised_product_of(workload), ir.Frame()
        self.config, self.product, self.frame = config, product, frame
        self.parameters, self.held = parameters_of(workload), held_by(workload)
        self.tensors = {buffer.name: buffer for buffer in self.parameters}
        self.count, self.groups = len(product.weights), -(-product.n // config.block_n)
        # 1. Which rows of the weights are the thread's.
        group = frame.variable("group", self.groups)
        self.thread = frame.variable("thread", config.threads)
        own, self.lane = frame.delinearize(
            self.thread, (("own", config.row_tiles), ("lane", config.threads_per_row))
        )
        self.sharing = RowThreads(
            threads=config.threads_per_row,
            rows=config.row_tiles,
            own=own,
            lane=self.lane,
            subgroups=config.subgroups,
        )
        first = group * config.block_n + own * config.tile_n
        rows = [first + row for row in range(config.tile_n)]
        self.exist = [frame.undecided((row.below(product.n),)) for row in rows]
        self.rows = [frame.clamped(f"row{n}", row, product.n, 1) for n, row in enumerate(rows)]
        self.staged = ir.shared("staged", ir.LANES * SLOTS * config.pitch * product.m)
        self.own = ir.tile("own", product.m, SLOTS)
        self.sums = ir.tile("sums", self.count, config.tile_n, product.m)
        self.dot, self.weight = ir.tile("dot", product.m), ir.tile("weight", 1)
        self.squares = ir.tile("squares", product.m, lanes=1)

    def program(self) -> ir.Program:
        config, product = self.config, self.product
        # 2 and 3. Part by part of k: activations into workgroup memory, then their products.
        if config.block_k:
            parts = product.k // config.block_k
            part = self.frame.variable("part", parts)
            after = (ir.Barrier(),) if parts > 1 else ()
            steps = (*self.staging(part), ir.Barrier(), *self.products(part), *after)
            steps = ir.serial("part", parts, steps)
        else:
            steps = self.products(ir.ZERO)
        no_squares = self.squares.fill(0.0) if product.norm else ()
        squares = (self.squares,) if product.norm else ()
        staged = (self.staged,) if config.block_k else ()
        # 4. Sums over the threads of a row, and over the whole workgroup for the norm.
        totals, norms = self.totals()
        # 5. The first thread of each row tile stores its entries.
        stores = self.stores(totals, norms)
        return self.frame.dispatch(
            self.parameters,
            (self.groups, config.threads),
            (*self.sums.fill(0.0), *no_squares, *steps, *totals.body, *norms.body, *stores),
            local=(self.sums, *totals.local, *norms.local, *squares),
            shared=(*staged, *totals.shared, *norms.shared),
        )

    # Step 2: activations into workgroup memory, in the order in which words have their weights.

    def staging(self, part: ir.Affine) -> ir.Block:
        config, product = self.config, self.product
        count, width = per_word(product.form.width), product.form.width
        blocks, vectors = config.block_k // ROW_STEP, ROW_STEP // (count * ir.LANES)

        def staged(inside: ir.Frame, item: ir.Affine) -> ir.Block:
            block, vector, bit = inside.delinearize(
                item, (("block", blocks), ("vector", vectors), ("bit", count))
            )
            first = part * config.block_k + block * ROW_STEP + vector * (ir.LANES * count) + bit
            slot = (vector * count + bit) * config.pitch + block
            held = HALF_WORD // width
            among = inside.let("among", ir.value(bit) % held, held - 1)
            # 2^-p has the exponent 127 - p.
            exponent = among * (-width << MANTISSA) + (_EXPONENT_BIAS << MANTISSA)
            power = ir.value(exponent).bitcast(DType.F32)
            body: list[ir.Statement] = []
            for m in range(product.m):
                entries = self.every(product.a, m * product.k + first, count)
                if product.norm:
                    body.append(self.squares.add(m, ir.all_lanes(entries * entries)))
                    entries = entries * self.every(product.norm.gamma, first, count)
                body.append(self.staged.store(self.slot(m, slot), entries * ir.splat(power)))
            return tuple(body)

        return self.frame.strided("load", "place", blocks * SLOTS, config.threads, staged)

    def every(self, name: str, first: ir.Affine, step: int) -> ir.Expression:
        """Four entries of a tensor, so many apart."""
        tensor = self.tensors[name]
        return ir.Lanes(values=tuple(tensor[first + lane * step] for lane in range(ir.LANES)))

    def slot(self, m: int, slot: ir.Affine) -> ir.Affine:
        return (m * SLOTS * self.config.pitch + slot) * ir.LANES

    # Step 3: the products of one stretch of each row with the activations.

    def products(self, part: ir.Affine) -> ir.Block:
        config, product = self.config, self.product
        blocks = (config.block_k or product.k) // ROW_STEP
        steps = -(-blocks // config.threads_per_row)
        inside = self.frame.nested()
        block = inside.variable("step", steps) * config.threads_per_row + self.lane
        exists = inside.undecided((block.below(blocks),))
        place = part * blocks + block
        body: list[ir.Statement] = [] if config.block_k else [*self.own_activations(block)]
        for number_, weights in enumerate(product.weights):
            for row, at in enumerate(self.rows):
                stretch = _Stretch(self, weights, at + weights.first_row, place, inside)
                for slots in _scaled_together(weights.form):
                    body += stretch.dots(slots, block)
                    # The part of each sum that these slots have: scale · Σ (q - zero) · a.
                    scale = stretch.scale(slots)
                    for m in range(product.m):
                        body.append(self.sums.add((number_, row, m), scale * self.dot[m]))
        local = [self.dot, self.weight]
        local += [] if config.block_k else [self.own]
        nest = ir.under(exists, ir.allocated(local, tuple(body)))
        return ir.serial("step", steps, inside.enclose(nest))

    def own_activations(self, block: ir.Affine) -> ir.Block:
        """The slots of the thread's own stretch, of activations that are read where they lie."""
        product = self.product
        body: list[ir.Statement] = []
        for m in range(product.m):
            places = [block * ROW_STEP + at for at in range(0, ROW_STEP, ir.LANES)]
            row = m * product.k
            entries: list[ir.Expression] = [
                self.tensors[product.a].vector(row + at) for at in places
            ]
            if product.norm is not None:
                squared = ir.all_lanes(ir.pairwise([each * each for each in entries]))
                body.append(self.squares.add(m, squared))
                gamma = self.tensors[product.norm.gamma]
                entries = [
                    each * gamma.vector(at) for each, at in zip(entries, places, strict=True)
                ]
            for slot in slots_of(product.form.width):
                weights = [slot.weight(lane) for lane in range(ir.LANES)]
                parts = [entries[at // ir.LANES].extract(at % ir.LANES) for at in weights]
                value: ir.Expression = ir.Lanes(values=tuple(parts))
                if slot.power:
                    value = value * 2.0**-slot.power
                body.append(self.own.store((m, slot.number), value))
        return tuple(body)

    def activations(self, m: int, slot: int, block: ir.Affine) -> ir.Load:
        if not self.config.block_k:
            return self.own[m, slot]
        return self.staged.vector(self.slot(m, slot * self.config.pitch + block))

    # Steps 4 and 5: sums over threads, the norm's factor, and the entries of the output.

    def totals(self) -> tuple[Reduced, Reduced]:
        """The sums of all rows, and the sums of squares of the rows of a."""
        config, nothing = self.config, Reduced(values=(), body=(), local=(), shared=())
        places = range(0, self.sums.buffer.size, ir.LANES)
        sums = [ir.all_lanes(self.sums.buffer.vector(place)) for place in places]
        squares = [self.squares[m] for m in range(self.product.m)]
        if self.product.norm is None:
            return reduced(self.sharing, sums, "sums"), nothing
        if not config.block_k:
            # The threads of each row have read all of a.
            both = reduced(self.sharing, [*sums, *squares], "sums")
            rows, norms = both.values[: len(sums)], both.values[len(sums) :]
            return replace(both, values=rows), replace(nothing, values=norms)
        # Every thread of the workgroup has read a part of them.
        workgroup = replace(
            self.sharing, threads=config.threads, rows=1, own=ir.ZERO, lane=self.thread
        )
        return reduced(self.sharing, sums, "sums"), reduced(workgroup, squares, "squares")

    def stores(self, totals: Reduced, norms: Reduced) -> ir.Block:
        product, output = self.product, self.parameters[-1]
        first = self.frame.undecided((self.lane.below(1),))
        i, j = product.axes
        sums = iter(totals.values)
        value = {
            (n, row, m): next(sums)
            for n in range(self.count)
            for row in range(len(self.rows))
            for m in range(product.m)
        }
        body: list[ir.Statement] = []
        for row, (column, bounds) in enumerate(zip(self.rows, self.exist, strict=True)):
            stores = []
            for m in range(product.m):
                made = {
                    name: self.normed(value[n, row, m], norms, m)
                    for n, name in enumerate(product.products)
                }
                places = {i.name: ir.constant(m), j.name: column}
                entry = entry_value(product.value, places, self.held, made)
                stores.append(output.store(m * product.n + column, entry))
            body += ir.under((*first, *bounds), tuple(stores))
        return tuple(body)

    def normed(self, value: ir.Expression, norms: Reduced, m: int) -> ir.Expression:
        """The sum of a row of a, divided by the root of the row's mean square."""
        if self.product.norm is None:
            return value
        mean = norms.values[m] * (1 / self.product.k)
        return value * ir.call(ir.MathFunction.RSQRT, mean + self.product.norm.epsilon)


def _scaled_together(form: Form) -> tuple[range, ...]:
    """Slots whose words are of the same blocks."""
    each = form.per_word
    if form.block < ROW_STEP and each < SLOTS:
        return tuple(range(first, first + each) for first in range(0, SLOTS, each))
    return (range(SLOTS),)


class _Stretch:
    """The stretch at `place` of a `row` of weights; what is bound for it goes to the frame."""

    def __init__(
        self,
        kernel: _QuantisedGemvKernel,
        weights: Weights,
        row: ir.Affine,
        place: ir.Affine,
        inside: ir.Frame,
    ) -> None:
        self.kernel, self.weights, self.form = kernel, weights, weights.form
        self.row, self.place, self.inside = row, place, inside
        self.k = kernel.product.k

    def dots(self, slots: range, block: ir.Affine) -> list[ir.Statement]:
        """Σ (q - zero) · a of some slots of a stretch, lane by lane, for all rows of a."""
        kernel, form = self.kernel, self.form
        words, dot, weight = kernel.tensors[self.weights.words], kernel.dot, kernel.weight
        first = (self.row * (self.k // ROW_STEP) + self.place) * (ROW_STEP // form.per_word)
        zeros = self.zero_points(slots)
        body: list[ir.Statement] = []
        for number_ in slots:
            slot = Slot(number=number_, width=form.width)
            bits: ir.Expression = words.vector(first + slot.vector * ir.LANES)
            if slot.shift:
                bits = bits >> slot.shift
            mantissa = bits & slot.mask | (_EXPONENT_BIAS + MANTISSA) << MANTISSA
            body.append(weight.store(0, mantissa.bitcast(DType.F32) - self.centre(slot, zeros)))
            for m in range(kernel.product.m):
                product = weight[0] * kernel.activations(m, number_, block)
                body.append(dot.add(m, product) if number_ > slots.start else dot.store(m, product))
        return body

    def centre(self, slot: Slot, zeros: list[ir.Expression]) -> ir.Expression:
        """Returns what the mantissa has where a weight is its zero point; `zeros` has one a
        word."""
        one, power = float(1 << MANTISSA), float(1 << slot.power)
        if not zeros:
            return ir.numbers(one + power * self.form.middle)
        return _lanes([zero * power + one for zero in zeros])

    def scale(self, slots: range) -> ir.Expression:
        scales = self.kernel.tensors[self.weights.scales]
        first = self.row * self.form.blocks(self.k)
        return _lanes([scales[first + block] for block in self.blocks(slots)])

    def blocks(self, slots: range) -> tuple[ir.Affine, ...]:
        """For each word of the vector that the slots are in, the block of its row."""
        form = self.form
        if form.block < ROW_STEP:
            vector = Slot(number=slots.start, width=form.width).vector
            first = self.place * (ROW_STEP // form.block)
            words = (vector * ir.LANES + lane for lane in range(ir.LANES))
            return tuple(first + word * form.per_word // form.block for word in words)
        if form.block == ROW_STEP:
            return (self.place,) * ir.LANES
        whole = ir.value(self.place) // (form.block // ROW_STEP)
        return (self.bound("whole_block", whole, form.blocks(self.k) - 1),) * ir.LANES

    def zero_points(self, slots: range) -> list[ir.Expression]:
        """The zero point of each word of a vector; none where weights have none."""
        if not self.weights.zeros:
            return []
        form, zeros = self.form, self.kernel.tensors[self.weights.zeros]
        words, count = form.zero_words(self.k), form.per_word
        found: list[ir.Expression] = []
        for block in self.blocks(slots):
            # Two blocks of a stretch may have their zero points in different words.
            name, value = f"{block.constant or ''}", ir.value(block)
            word = self.bound(f"zero_word{name}", value // count, words - 1)
            digit = self.bound(f"zero_digit{name}", value % count, count - 1)
            bits = zeros[self.row * words + word] >> digit * form.width
            found.append((bits & (1 << form.width) - 1).cast(DType.F32))
        return found

    def bound(self, name: str, value: ir.Expression, most: int) -> ir.Affine:
        """A variable of this value, which is bound once for all rows."""
        if name in self.inside.ranges:
            return ir.variable(name)
        return self.inside.let(name, value, most)


def _lanes(values: list[ir.Expression]) -> ir.Expression:
    if len(set(values)) == 1:
        return ir.splat(values[0])
    return ir.Lanes(values=tuple(values))

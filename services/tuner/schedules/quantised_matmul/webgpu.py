"""Products of many rows with quantised weights for WebGPU, as for the tokens of a prompt.

    dispatch    split_k × ⌈m / block_m⌉ × ⌈n / block_n⌉ workgroups
    workgroup   c[block_m, block_n], from its share of the stretches of 32 of k
    thread      c[tile_m, tile_n] in registers, y · tile_m rows down and x · tile_n columns along

    workgroup memory
      rows      [32][pitch_m] of a
      columns   [32][pitch_n] of each product's weights, as numbers

Each stretch of k: threads read a, four rows to a vector, and take the weights of four rows out of
their words, times their scales; then each adds the products of its rows and columns. Where
registers suffice, the next stretch is read into them before that, so that nothing waits for it.

    rows[k * pitch_m / 4 + place] = vec4<f32>(a[…], a[… + K], a[… + 2K], a[… + 3K]);      // 2
    columns[…] = (vec4<f32>((words >> 4 * bit) & 15) - 8) * scales;                       // 3
    for (var k …) { sums_0 = fma(vec4<f32>(rows[…].x), columns[…], sums_0); … }           // 4

With split_k > 1 workgroups leave their sums in scratch memory, and a second dispatch adds them up:
a product of the few rows of a prompt has too few blocks for all cores of a large GPU.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import add

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import ROW_STEP, Form
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import held_by, parameters_of
from services.tuner.schedules.base.quantised import Weights, quantised_product_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.split_k import added_up
from services.tuner.schedules.quantised_matmul.webgpu_config import WebgpuQuantisedMatmulConfig

MOST_REGISTERS = 160
"""A thread may hold so many besides its indices, where it reads ahead."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuQuantisedMatmulConfig.of(candidate)
    return ScheduledProgram(nests=_QuantisedMatmulKernel(candidate.workload, config).programs())


class _QuantisedMatmulKernel:
    """All steps know where the tile of the workgroup begins, at row `first_m` and column `first_n`,
    and where that of the thread in it, at `own_m` and `own_n`."""

    def __init__(self, workload: Workload, config: WebgpuQuantisedMatmulConfig) -> None:
        product, frame = quantised_product_of(workload), ir.Frame()
        self.config, self.product, self.frame = config, product, frame
        self.parameters, self.held = parameters_of(workload), held_by(workload)
        self.tensors = {buffer.name: buffer for buffer in self.parameters}
        self.count, self.quads = len(product.weights), config.tile_n // ir.LANES
        self.pitch_m, self.pitch_n = config.pitches(workload)
        # 1. Which tile is the workgroup's, and which the thread's.
        down, along = -(-product.m // config.block_m), -(-product.n // config.block_n)
        self.workgroups = config.split_k * down * along
        group = frame.variable("group", self.workgroups)
        thread = frame.variable("thread", config.threads)
        self.part, block_m, block_n = frame.delinearize(
            group, (("part", config.split_k), ("own_m", down), ("own_n", along))
        )
        y, x = frame.delinearize(
            thread, (("y", config.block_m // config.tile_m), ("x", config.block_n // config.tile_n))
        )
        self.first_m, self.first_n = block_m * config.block_m, block_n * config.block_n
        self.own_m, self.own_n = y * config.tile_m, x * config.tile_n
        self.rows = ir.shared("rows", ROW_STEP * self.pitch_m)
        self.columns = [
            ir.shared(f"columns{n}", ROW_STEP * self.pitch_n) for n in range(self.count)
        ]
        self.sums = ir.tile("sums", self.count, config.tile_m, self.quads)
        self.partial = ir.scratch("partial", config.split_k * self.count * product.m * product.n)

    def programs(self) -> tuple[ir.Program, ...]:
        """One dispatch, and with split_k > 1 a second one that adds the partial sums; their
        parameters are those of the workload, flat."""
        config, frame = self.config, self.frame
        # 2 to 4. Block by block of k.
        blocks = self.product.k // ROW_STEP // config.split_k
        block, first = frame.variable("block", blocks), self.part * blocks
        ahead = blocks > 1 and self.fit_registers()
        readings = [self.activations(ahead), *(self.weights(n, ahead) for n in range(self.count))]
        before: ir.Block = ()
        if ahead:
            # While products are computed the next block is on its way; behind the last it comes
            # again.
            later = frame.nested()
            following = later.clamped("following", block + 1, blocks, 1) + first
            before = tuple(s for each in readings for s in each.read_all(first))
            steps = (
                *(s for each in readings for s in each.keep_all()),
                ir.Barrier(),
                *later.enclose(tuple(s for each in readings for s in each.read_all(following))),
                *self.products(),
                ir.Barrier(),
            )
        else:
            brought = (s for each in readings for s in each.brought(first + block))
            steps = (*brought, ir.Barrier(), *self.products(), ir.Barrier())
        registers = [buffer for each in readings for buffer in each.registers]
        summed = (*self.sums.fill(0), *before, *ir.serial("block", blocks, steps))
        # 5. Each thread stores its entries, or its sums.
        split = config.split_k > 1
        stores = self.partial_stores() if split else self.stores()
        parameters = (*self.parameters, self.partial) if split else self.parameters
        main = frame.dispatch(
            parameters,
            (self.workgroups, config.threads),
            (*ir.allocated(registers, summed), *stores),
            local=(self.sums,),
            shared=(self.rows, *self.columns),
        )
        return (main, self.added(parameters)) if split else (main,)

    def fit_registers(self) -> bool:
        """Returns whether a thread has room for what it reads of the next block."""
        config, words = self.config, ROW_STEP // self.product.form.per_word
        turns = self.turns(config.block_m // ir.LANES * ROW_STEP)
        turns += 3 * self.count * self.turns(config.block_n // ir.LANES * words)
        return self.sums.buffer.size + ir.LANES * turns <= MOST_REGISTERS

    def turns(self, items: int) -> int:
        return -(-items // self.config.threads)

    # Step 2: four rows of a to a vector; threads side by side read neighbours of one row.

    def activations(self, ahead: bool) -> "_Reading":
        product, quads = self.product, self.config.block_m // ir.LANES
        held = self.registers("held_a", quads * ROW_STEP, ahead)

        def read(block: ir.Affine) -> Turn:
            def turn(inside: ir.Frame, places: Sequence[ir.Affine], at: ir.Affine) -> ir.Block:
                quad, k = places
                rows = [
                    inside.clamped(f"a_row{lane}", row, product.m, 1)
                    for lane, row in enumerate(_four(self.first_m, quad))
                ]
                entries = (
                    self.tensors[product.a][row * product.k + block * ROW_STEP + k] for row in rows
                )
                return (held.store(at, ir.Lanes(values=tuple(entries))),)

            return turn

        def keep(_: ir.Frame, places: Sequence[ir.Affine], at: ir.Affine) -> ir.Block:
            quad, k = places
            return (self.rows.store(k * self.pitch_m + quad * ir.LANES, held.vector(at)),)

        axes = (("a_quad", quads), ("a_k", ROW_STEP))
        return _Reading(
            var="read_a", kernel=self, axes=axes, registers=(held,), read=read, keep=keep
        )

    # Step 3: the weights of four rows to a vector, word by word.

    def weights(self, number_: int, ahead: bool) -> "_Reading":
        weights, product, tensors = self.product.weights[number_], self.product, self.tensors
        form = weights.form
        words, quads = ROW_STEP // form.per_word, self.config.block_n // ir.LANES
        packed, scale, zero = (
            self.registers(f"{name}{number_}", quads * words, ahead, dtype)
            for name, dtype in (("packed", DType.I32), ("scale", DType.F32), ("zero", DType.F32))
        )

        def read(block: ir.Affine) -> Turn:
            def turn(inside: ir.Frame, places: Sequence[ir.Affine], at: ir.Affine) -> ir.Block:
                quad, word = places
                four: list[tuple[ir.Expression, ...]] = []
                own = _own_block(form, product.k, block, word, inside, number_)
                for lane, column in enumerate(_four(self.first_n, quad)):
                    row = inside.clamped(f"b_row{number_}.{lane}", column, product.n, 1)
                    row = row + weights.first_row
                    stretch = row * (product.k // ROW_STEP) + block
                    four.append(
                        (
                            tensors[weights.words][stretch * words + word],
                            tensors[weights.scales][row * form.blocks(product.k) + own],
                            self.zero(weights, row, own, inside, number_),
                        )
                    )
                lanes = (ir.Lanes(values=values) for values in zip(*four, strict=True))
                kept = zip((packed, scale, zero), lanes, strict=True)
                return tuple(into.store(at, values) for into, values in kept)

            return turn

        def keep(_: ir.Frame, places: Sequence[ir.Affine], at: ir.Affine) -> ir.Block:
            quad, word = places
            body: list[ir.Statement] = []
            for bit in range(form.per_word):
                shifted = packed.vector(at) >> bit * form.width if bit else packed.vector(at)
                value = (shifted & (1 << form.width) - 1).cast(DType.F32)
                k = word * form.per_word + bit
                body.append(
                    self.columns[number_].store(
                        k * self.pitch_n + quad * ir.LANES,
                        (value - zero.vector(at)) * scale.vector(at),
                    )
                )
            return tuple(body)

        return _Reading(
            var=f"read_b{number_}",
            kernel=self,
            axes=((f"b_quad{number_}", quads), (f"b_word{number_}", words)),
            registers=(packed, scale, zero),
            read=read,
            keep=keep,
        )

    def registers(self, name: str, items: int, ahead: bool, dtype: DType = DType.F32) -> ir.Buffer:
        return ir.local(name, ir.LANES * (self.turns(items) if ahead else 1), dtype)

    def zero(
        self, weights: Weights, row: ir.Affine, block: ir.Affine, inside: ir.Frame, number_: int
    ) -> ir.Expression:
        """The zero point of a block; where it lies is bound once for all rows."""
        form = weights.form
        if not form.zeros:
            return ir.number(float(form.middle))
        words, count = form.zero_words(self.product.k), form.per_word
        word, digit = f"zero_word{number_}", f"zero_digit{number_}"
        if word not in inside.ranges:
            inside.let(word, ir.value(block) // count, words - 1)
            inside.let(digit, ir.value(block) % count, count - 1)
        held = self.tensors[weights.zeros][row * words + ir.variable(word)]
        bits = held >> ir.variable(digit) * form.width & (1 << form.width) - 1
        return bits.cast(DType.F32)

    # Step 4: products of the thread's rows and columns.

    def products(self) -> ir.Block:
        config, k = self.config, ir.variable("k")
        body: list[ir.Statement] = []
        for number_, columns in enumerate(self.columns):
            for quad in range(self.quads):
                right = columns.vector(k * self.pitch_n + self.own_n + quad * ir.LANES)
                for row in range(config.tile_m):
                    four, lane = divmod(row, ir.LANES)
                    left = self.rows.vector(k * self.pitch_m + self.own_m + four * ir.LANES)
                    product = ir.splat(left.extract(lane)) * right
                    body.append(self.sums.add((number_, row, quad), product))
        return ir.serial("k", ROW_STEP, tuple(body))

    # Step 5: the entries of the output.

    def entry(
        self, row: ir.Affine, column: ir.Affine, made: Mapping[str, ir.Expression]
    ) -> ir.Store:
        """Stores an entry, given its sums."""
        i, j = self.product.axes
        value = entry_value(self.product.value, {i.name: row, j.name: column}, self.held, made)
        return self.parameters[-1].store(row * self.product.n + column, value)

    def stores(self) -> ir.Block:
        body: list[ir.Statement] = []
        for m in range(self.config.tile_m):
            for n in range(self.config.tile_n):
                quad, lane = divmod(n, ir.LANES)
                made = {
                    name: self.sums[number_, m, quad].extract(lane)
                    for number_, name in enumerate(self.product.products)
                }
                row, column = self.first_m + self.own_m + m, self.first_n + self.own_n + n
                body += self.inside(row, column, self.entry(row, column, made))
        return tuple(body)

    def inside(self, row: ir.Affine, column: ir.Affine, store: ir.Store) -> ir.Block:
        product = self.product
        return self.frame.where((row.below(product.m), column.below(product.n)), (store,))

    # split_k > 1: partial[split_k][products][m][n] in scratch memory, four columns at a time.

    def partial_stores(self) -> ir.Block:
        product = self.product
        body: list[ir.Statement] = []
        for number_ in range(self.count):
            plane = (self.part * self.count + number_) * product.m
            for m in range(self.config.tile_m):
                for quad in range(self.quads):
                    row = self.first_m + self.own_m + m
                    column = self.first_n + self.own_n + quad * ir.LANES
                    index = (plane + row) * product.n + column
                    store = self.partial.store(index, self.sums[number_, m, quad])
                    body += self.inside(row, column, store)
        return tuple(body)

    def added(self, parameters: tuple[ir.Buffer, ...]) -> ir.Program:
        """The second dispatch: each entry from the partial sums of all workgroups."""
        product, row, column = self.product, ir.variable("m"), ir.variable("n")

        def total(number_: int) -> ir.Expression:
            places = (part * self.count + number_ for part in range(self.config.split_k))
            planes = (row + place * product.m for place in places)
            parts = [self.partial[plane * product.n + column] for plane in planes]
            return reduce(add, parts[1:], parts[0])

        made = {name: total(n) for n, name in enumerate(product.products)}
        axes = {"m": product.m, "n": product.n}
        return added_up(parameters, axes, self.entry(row, column, made))


def _four(first: ir.Affine, quad: ir.Affine) -> list[ir.Affine]:
    return [first + quad * ir.LANES + lane for lane in range(ir.LANES)]


Turn = Callable[[ir.Frame, Sequence[ir.Affine], ir.Affine], ir.Block]
"""Makes what is done for an item, given its place in its `axes`, then its place in registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Items of a block of k that threads take in turns: `read` leaves one in registers, `keep`
    takes it from there to workgroup memory."""

    var: str
    kernel: _QuantisedMatmulKernel
    axes: tuple[tuple[str, int], ...]
    registers: tuple[ir.Buffer, ...]
    read: Callable[[ir.Affine], Turn]
    keep: Turn

    def read_all(self, block: ir.Affine) -> ir.Block:
        return self._unrolled(self.read(block))

    def keep_all(self) -> ir.Block:
        return self._unrolled(self.keep)

    def brought(self, block: ir.Affine) -> ir.Block:
        """Read and kept item by item."""
        read = self.read(block)

        def both(inside: ir.Frame, places: Sequence[ir.Affine], at: ir.Affine) -> ir.Block:
            return (*read(inside, places, at), *self.keep(inside, places, at))

        return self._turns(both, ir.ZERO)

    def _unrolled(self, body: Turn) -> ir.Block:
        match self._turns(body, ir.variable(self.var) * ir.LANES):
            case (ir.Loop(var=self.var, extent=extent, body=turn),):
                places = map(ir.constant, range(extent))
                return tuple(s for at in places for s in ir.substitute(turn, self.var, at))
            case once:
                return once

    def _turns(self, body: Turn, at: ir.Affine) -> ir.Block:
        def turn(inside: ir.Frame, item: ir.Affine) -> ir.Block:
            return body(inside, inside.delinearize(item, self.axes), at)

        items = prod(size for _, size in self.axes)
        kernel = self.kernel
        return kernel.frame.strided(
            self.var, f"{self.var}.place", items, kernel.config.threads, turn
        )


def _own_block(
    form: Form, k: int, stretch: ir.Affine, word: ir.Affine, inside: ir.Frame, number_: int
) -> ir.Affine:
    """The block of a row that a word of a stretch of it is in."""
    if form.block > ROW_STEP:
        value = ir.value(stretch) // (form.block // ROW_STEP)
        return inside.let(f"whole_block{number_}", value, form.blocks(k) - 1)
    if form.block < ROW_STEP:
        words, parts = form.block // form.per_word, ROW_STEP // form.block
        return stretch * parts + inside.let(f"part{number_}", ir.value(word) // words, parts - 1)
    return stretch

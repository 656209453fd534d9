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

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import ROW_STEP, Form
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.thread_binding import ThreadBinding, bind_threads
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import Held, held_by, parameters_of
from services.tuner.schedules.base.quantised import QuantisedProduct, Weights, quantised_product_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantised_matmul.webgpu_config import WebgpuQuantisedMatmulConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuQuantisedMatmulConfig.of(candidate)
    return ScheduledProgram(nests=quantised_matmul_programs(candidate.workload, config))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """All steps know these: where the tile of the workgroup begins, and which is the thread's."""

    config: WebgpuQuantisedMatmulConfig
    product: QuantisedProduct
    held: Held
    frame: ir.Frame
    thread: ir.Affine
    first_m: ir.Affine
    first_n: ir.Affine
    part: ir.Affine
    x: ir.Affine
    y: ir.Affine
    pitch_m: int
    pitch_n: int
    rows: ir.Buffer
    columns: tuple[ir.Buffer, ...]
    sums: ir.Buffer
    partial: ir.Buffer

    def load(self, name: str, index: ir.Affine) -> ir.Load:
        return self.held[name][0][index]

    def sum_at(self, product: int, row: int, quad: int) -> ir.Affine:
        quads = self.config.tile_n // ir.LANES
        return ir.constant(((product * self.config.tile_m + row) * quads + quad) * ir.LANES)


def quantised_matmul_programs(
    workload: Workload, config: WebgpuQuantisedMatmulConfig
) -> tuple[ir.Program, ...]:
    """One dispatch, and with split_k > 1 a second one that adds the partial sums; their parameters
    are those of the workload, flat."""
    product, frame = quantised_product_of(workload), ir.Frame()
    parameters = parameters_of(workload)
    # 1. Which tile is the workgroup's, and which the thread's.
    down, along = -(-product.m // config.block_m), -(-product.n // config.block_n)
    workgroups = config.split_k * down * along
    group = frame.variable("group", workgroups)
    thread = frame.variable("thread", config.threads)
    part, own_m, own_n = frame.delinearize(
        group, (("part", config.split_k), ("own_m", down), ("own_n", along))
    )
    y, x = frame.delinearize(
        thread, (("y", config.block_m // config.tile_m), ("x", config.block_n // config.tile_n))
    )
    products = range(len(product.weights))
    pitch_m, pitch_n = config.pitches(workload)
    kernel = _Kernel(
        config=config,
        product=product,
        held=held_by(workload),
        frame=frame,
        thread=thread,
        first_m=own_m * config.block_m,
        first_n=own_n * config.block_n,
        part=part,
        x=x,
        y=y,
        pitch_m=pitch_m,
        pitch_n=pitch_n,
        rows=ir.shared("rows", ROW_STEP * pitch_m),
        columns=tuple(ir.shared(f"columns{n}", ROW_STEP * pitch_n) for n in products),
        sums=ir.local("sums", len(products) * config.tile_m * config.tile_n),
        partial=ir.scratch("partial", config.split_k * len(products) * product.m * product.n),
    )
    zero = ir.numbers(0)
    zeros = tuple(kernel.sums.store(n, zero) for n in range(0, kernel.sums.size, ir.LANES))
    # 2 to 4. Block by block of k.
    blocks = product.k // ROW_STEP // config.split_k
    block, first = frame.variable("block", blocks), part * blocks
    ahead = blocks > 1 and _fit_registers(kernel)
    readings = (_activations(kernel, ahead), *(_weights(kernel, n, ahead) for n in products))
    if ahead:
        # While products are computed the next block is on its way; behind the last it comes again.
        later = frame.nested()
        following = later.clamped("following", block + 1, blocks, 1)
        following = following + first
        before = tuple(s for each in readings for s in each.read_all(first))
        inner = (
            *(s for each in readings for s in each.keep_all()),
            ir.Barrier(),
            *later.enclose(tuple(s for each in readings for s in each.read_all(following))),
            *_products(kernel),
            ir.Barrier(),
        )
    else:
        before = ()
        brought = tuple(s for each in readings for s in each.brought(first + block))
        inner = (*brought, ir.Barrier(), *_products(kernel), ir.Barrier())
    body: ir.Block = (*zeros, *before, *ir.serial("block", blocks, inner))
    body = ir.allocated((buffer for each in readings for buffer in each.registers), body)
    # 5. Each thread stores its entries, or its sums.
    body = (*body, *(_stores(kernel) if config.split_k == 1 else _partial_stores(kernel)))
    body = (ir.Allocate(buffer=kernel.sums, body=body),)
    nest: ir.Block = (ir.threads(config.threads, frame.enclose(body)),)
    nest = ir.allocated((kernel.rows, *kernel.columns), nest)
    parameters = parameters if config.split_k == 1 else (*parameters, kernel.partial)
    main = ir.program(parameters, "group", workgroups, nest)
    return (main,) if config.split_k == 1 else (main, _added(kernel, parameters))


MOST_REGISTERS = 160
"""A thread may hold so many besides its indices, where it reads ahead."""


def _turns(kernel: _Kernel, items: int) -> int:
    return -(-items // kernel.config.threads)


def _fit_registers(kernel: _Kernel) -> bool:
    """Returns whether a thread has room for what it reads of the next block."""
    config, product = kernel.config, kernel.product
    words = ROW_STEP // product.form.per_word
    turns = _turns(kernel, config.block_m // ir.LANES * ROW_STEP)
    turns += 3 * len(product.weights) * _turns(kernel, config.block_n // ir.LANES * words)
    return kernel.sums.size + ir.LANES * turns <= MOST_REGISTERS


Turn = Callable[[ir.Frame, Sequence[ir.Affine], ir.Affine], ir.Block]
"""Makes what is done for an item, given its place in its `axes`, then its place in registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Items of a block of k that threads take in turns: `read` leaves one in registers, `keep`
    takes it from there to workgroup memory."""

    var: str
    kernel: _Kernel
    axes: tuple[tuple[str, int], ...]
    registers: tuple[ir.Buffer, ...]
    read: Callable[[ir.Affine], Turn]
    keep: Turn

    @property
    def items(self) -> int:
        return prod(size for _, size in self.axes)

    def read_all(self, block: ir.Affine) -> ir.Block:
        return self._unrolled(self.read(block))

    def keep_all(self) -> ir.Block:
        return self._unrolled(self.keep)

    def brought(self, block: ir.Affine) -> ir.Block:
        """Read and kept item by item."""
        read = self.read(block)

        def both(inside: ir.Frame, places: Sequence[ir.Affine], at: ir.Affine) -> ir.Block:
            return (*read(inside, places, at), *self.keep(inside, places, at))

        return ir.serial(self.var, _turns(self.kernel, self.items), self._turn(both, ir.ZERO))

    def _unrolled(self, body: Turn) -> ir.Block:
        turn = self._turn(body, ir.variable(self.var) * ir.LANES)
        turns = range(_turns(self.kernel, self.items))
        return tuple(s for at in turns for s in ir.substitute(turn, self.var, ir.constant(at)))

    def _turn(self, body: Turn, at: ir.Affine) -> ir.Block:
        inside = self.kernel.frame.nested()
        inside.ranges[self.var] = (0, _turns(self.kernel, self.items) - 1)
        threads = self.kernel.config.threads
        place = ir.variable(self.var) * threads + self.kernel.thread
        exists = inside.undecided((place.below(self.items),))
        place = inside.clamped(f"{self.var}.place", place, self.items, 1)
        places = inside.delinearize(place, self.axes)
        return inside.enclose(ir.under(exists, body(inside, places, at)))


def _registers(kernel: _Kernel, name: str, items: int, ahead: bool, dtype: DType) -> ir.Buffer:
    size = ir.LANES * (_turns(kernel, items) if ahead else 1)
    return ir.local(name, size, dtype)


# Step 2: four rows of a to a vector; threads side by side read neighbours of one row.


def _activations(kernel: _Kernel, ahead: bool) -> _Reading:
    product, quads = kernel.product, kernel.config.block_m // ir.LANES
    items = quads * ROW_STEP
    held = _registers(kernel, "held_a", items, ahead, DType.F32)

    def read(block: ir.Affine) -> Turn:
        def turn(inside: ir.Frame, places: Sequence[ir.Affine], at: ir.Affine) -> ir.Block:
            quad, k = places
            entries = []
            for lane in range(ir.LANES):
                row = kernel.first_m + quad * ir.LANES + lane
                row = inside.clamped(f"a_row{lane}", row, product.m, 1)
                index = row * product.k + block * ROW_STEP + k
                entries.append(kernel.load(product.a, index))
            return (held.store(at, ir.Lanes(values=tuple(entries))),)

        return turn

    def keep(_: ir.Frame, places: Sequence[ir.Affine], at: ir.Affine) -> ir.Block:
        quad, k = places
        index = k * kernel.pitch_m + quad * ir.LANES
        value = held.vector(at)
        return (kernel.rows.store(index, value),)

    return _Reading(
        var="read_a",
        kernel=kernel,
        axes=(("a_quad", quads), ("a_k", ROW_STEP)),
        registers=(held,),
        read=read,
        keep=keep,
    )


# Step 3: the weights of four rows to a vector, word by word.


def _weights(kernel: _Kernel, number_: int, ahead: bool) -> _Reading:
    operand, product = kernel.product.weights[number_], kernel.product
    form, count = operand.form, operand.form.per_word
    words, quads = ROW_STEP // count, kernel.config.block_n // ir.LANES
    items, blocks = quads * words, product.k // ROW_STEP
    packed = _registers(kernel, f"packed{number_}", items, ahead, DType.I32)
    scale = _registers(kernel, f"scale{number_}", items, ahead, DType.F32)
    zero = _registers(kernel, f"zero{number_}", items, ahead, DType.F32)

    def read(block: ir.Affine) -> Turn:
        def turn(inside: ir.Frame, places: Sequence[ir.Affine], at: ir.Affine) -> ir.Block:
            quad, word = places
            held, scales, zeros = [], [], []
            own = _own_block(form, product.k, block, word, inside, number_)
            for lane in range(ir.LANES):
                row = kernel.first_n + quad * ir.LANES + lane
                row = inside.clamped(f"b_row{number_}.{lane}", row, product.n, 1)
                row = row + operand.first_row
                place = row * blocks + block
                held.append(kernel.load(operand.words, place * words + word))
                scales.append(kernel.load(operand.scales, row * form.blocks(product.k) + own))
                zeros.append(_zero(kernel, operand, row, own, inside, number_))
            return tuple(
                into.store(at, ir.Lanes(values=tuple(values)))
                for into, values in ((packed, held), (scale, scales), (zero, zeros))
            )

        return turn

    def keep(_: ir.Frame, places: Sequence[ir.Affine], at: ir.Affine) -> ir.Block:
        quad, word = places
        mask = ir.Const(value=(1 << form.width) - 1, dtype=DType.I32, lanes=ir.LANES)
        body: list[ir.Statement] = []
        for bit in range(count):
            value: ir.Expression = packed.vector(at)
            if bit:
                value = value >> bit * form.width
            value = (value & mask).cast(DType.F32)
            value = value - zero.vector(at)
            value = value * scale.vector(at)
            k = word * count + bit
            index = k * kernel.pitch_n + quad * ir.LANES
            body.append(kernel.columns[number_].store(index, value))
        return tuple(body)

    return _Reading(
        var=f"read_b{number_}",
        kernel=kernel,
        axes=((f"b_quad{number_}", quads), (f"b_word{number_}", words)),
        registers=(packed, scale, zero),
        read=read,
        keep=keep,
    )


def _own_block(
    form: Form, k: int, stretch: ir.Affine, word: ir.Affine, inside: ir.Frame, number_: int
) -> ir.Affine:
    """The block of a row that a word of a stretch of it is in."""
    if form.block > ROW_STEP:
        stretches = form.block // ROW_STEP
        value = ir.value(stretch) // stretches
        return inside.let(f"whole_block{number_}", value, form.blocks(k) - 1)
    if form.block < ROW_STEP:
        words, parts = form.block // form.per_word, ROW_STEP // form.block
        value = ir.value(word) // words
        return stretch * parts + inside.let(f"part{number_}", value, parts - 1)
    return stretch


def _zero(
    kernel: _Kernel,
    operand: Weights,
    row: ir.Affine,
    block: ir.Affine,
    inside: ir.Frame,
    number_: int,
) -> ir.Expression:
    form = operand.form
    if not form.zeros:
        return ir.number(float(form.middle))
    words, count = form.zero_words(kernel.product.k), form.per_word
    names = f"zero_word{number_}", f"zero_digit{number_}"
    if names[0] not in inside.ranges:
        for name, op, most in zip(
            names,
            (ir.BinaryOp.FLOOR_DIV, ir.BinaryOp.FLOOR_MOD),
            (words - 1, count - 1),
            strict=True,
        ):
            inside.let(name, ir.Binary(op=op, left=ir.value(block), right=ir.whole(count)), most)
    held = kernel.load(operand.zeros, row * words + ir.variable(names[0]))
    shift = ir.value(ir.variable(names[1]) * form.width)
    mask = ir.whole((1 << form.width) - 1)
    bits = held >> shift & mask
    return bits.cast(DType.F32)


# Step 4: products of the thread's rows and columns.


def _products(kernel: _Kernel) -> ir.Block:
    config, k = kernel.config, ir.variable("k")
    body: list[ir.Statement] = []
    for number_, columns in enumerate(kernel.columns):
        for quad in range(config.tile_n // ir.LANES):
            column = kernel.x * config.tile_n + quad * ir.LANES
            index = k * kernel.pitch_n + column
            right = columns.vector(index)
            for row in range(config.tile_m):
                quad_m, lane = divmod(row, ir.LANES)
                place = kernel.y * config.tile_m + quad_m * ir.LANES
                index = k * kernel.pitch_m + place
                left = kernel.rows.vector(index)
                one = ir.splat(left.extract(lane))
                at = kernel.sum_at(number_, row, quad)
                so_far = kernel.sums.vector(at)
                value = so_far + one * right
                body.append(kernel.sums.store(at, value))
    return ir.serial("k", ROW_STEP, tuple(body))


# Step 5: the entries of the output.


def _entry(
    kernel: _Kernel, at_m: ir.Affine, at_n: ir.Affine, made: Mapping[str, ir.Expression]
) -> ir.Store:
    """Stores an entry, given its sums."""
    output, shape = kernel.held[list(kernel.held)[-1]]
    i, j = kernel.product.axes
    value = entry_value(kernel.product.value, {i.name: at_m, j.name: at_n}, kernel.held, made)
    return output.store(at_m * shape[-1] + at_n, value)


def _stores(kernel: _Kernel) -> ir.Block:
    config, product = kernel.config, kernel.product
    body: ir.Block = ()
    for row in range(config.tile_m):
        at_m = kernel.first_m + kernel.y * config.tile_m + row
        for column in range(config.tile_n):
            at_n = kernel.first_n + kernel.x * config.tile_n + column
            quad, lane = divmod(column, ir.LANES)
            made = {
                name: kernel.sums.vector(kernel.sum_at(n, row, quad)).extract(lane)
                for n, name in enumerate(product.products)
            }
            store = _entry(kernel, at_m, at_n, made)
            bounds = (at_m.below(product.m), at_n.below(product.n))
            body = (*body, *ir.under(kernel.frame.undecided(bounds), (store,)))
    return body


# split_k > 1: partial[split_k][products][m][n] in scratch memory, four columns at a time.


def _partial_stores(kernel: _Kernel) -> ir.Block:
    config, product = kernel.config, kernel.product
    count = len(product.products)
    body: ir.Block = ()
    for number_ in range(count):
        plane = (kernel.part * count + number_) * product.m
        for row in range(config.tile_m):
            at_m = kernel.first_m + kernel.y * config.tile_m + row
            for quad in range(config.tile_n // ir.LANES):
                column = kernel.x * config.tile_n + quad * ir.LANES
                at_n = kernel.first_n + column
                index = kernel.sum_at(number_, row, quad)
                value = kernel.sums.vector(index)
                index = (plane + at_m) * product.n + at_n
                store = kernel.partial.store(index, value)
                bounds = (at_m.below(product.m), at_n.below(product.n))
                body = (*body, *ir.under(kernel.frame.undecided(bounds), (store,)))
    return body


SPLIT_K_THREADS = 64


def _added(kernel: _Kernel, parameters: tuple[ir.Buffer, ...]) -> ir.Program:
    """The second dispatch: each entry from the partial sums of all workgroups."""
    product = kernel.product
    at_m, at_n = ir.variable("m"), ir.variable("n")
    entries, count = product.m * product.n, len(product.products)
    place = at_m * product.n + at_n

    def total(number_: int) -> ir.Expression:
        parts: list[ir.Expression] = [
            kernel.partial[place + (part * count + number_) * entries]
            for part in range(kernel.config.split_k)
        ]
        return reduce(lambda left, right: left + right, parts)

    made = {name: total(n) for n, name in enumerate(product.products)}
    store = _entry(kernel, at_m, at_n, made)
    block: ir.Block = (ir.loop("n", product.n, (store,)),)
    block = (ir.loop("m", product.m, block),)
    whole = ir.program(parameters, "whole", 1, block)
    return bind_threads(whole, ThreadBinding(count=SPLIT_K_THREADS, vectors=1, vec4=True))

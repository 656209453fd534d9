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
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    f32_buffer,
    loop,
    number,
    numbers,
    serial,
    under,
    whole,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Broadcast,
    Buffer,
    Cast,
    Const,
    Expression,
    ExtractLane,
    IndexValue,
    Lanes,
    Load,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import substitute
from services.tuner.passes.thread_binding import ThreadBinding, bind_threads
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import Held, held_by, parameters_of
from services.tuner.schedules.base.quantised import (
    QuantisedProduct,
    Weights,
    quantised_product_of,
)
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantised_matmul.webgpu_config import WebgpuQuantisedMatmulConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuQuantisedMatmulConfig.of(candidate)
    return ScheduledProgram(nests=quantised_matmul_programs(candidate.workload, config))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What all steps know: where the tile of the workgroup begins, and which is the thread's."""

    config: WebgpuQuantisedMatmulConfig
    product: QuantisedProduct
    held: Held
    frame: Frame
    thread: Affine
    first_m: Affine
    first_n: Affine
    part: Affine
    x: Affine
    y: Affine
    pitch_m: int
    pitch_n: int
    rows: Buffer
    columns: tuple[Buffer, ...]
    sums: Buffer
    partial: Buffer

    def load(self, name: str, index: Affine) -> Load:
        return Load(buffer=self.held[name][0], index=index)

    def sum_at(self, product: int, row: int, quad: int) -> Affine:
        quads = self.config.tile_n // LANES
        return _at(((product * self.config.tile_m + row) * quads + quad) * LANES)


def _at(constant: int) -> Affine:
    return Affine(constant=constant)


def quantised_matmul_programs(
    workload: Workload, config: WebgpuQuantisedMatmulConfig
) -> tuple[Program, ...]:
    """One dispatch, and with split_k > 1 a second one that adds the partial sums; their parameters
    are those of the workload, flat."""
    product, frame = quantised_product_of(workload), Frame()
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
        thread,
        (("y", config.block_m // config.tile_m), ("x", config.block_n // config.tile_n)),
    )
    products = range(len(product.weights))
    pitch_m, pitch_n = config.pitches(workload)
    kernel = _Kernel(
        config=config,
        product=product,
        held=held_by(workload),
        frame=frame,
        thread=thread,
        first_m=own_m.times(config.block_m),
        first_n=own_n.times(config.block_n),
        part=part,
        x=x,
        y=y,
        pitch_m=pitch_m,
        pitch_n=pitch_n,
        rows=f32_buffer("rows", ROW_STEP * pitch_m, Scope.WORKGROUP),
        columns=tuple(
            f32_buffer(f"columns{n}", ROW_STEP * pitch_n, Scope.WORKGROUP) for n in products
        ),
        sums=f32_buffer("sums", len(products) * config.tile_m * config.tile_n, Scope.LOCAL),
        partial=f32_buffer(
            "partial", config.split_k * len(products) * product.m * product.n, Scope.GLOBAL
        ),
    )
    zero = numbers(0)
    zeros = tuple(
        Store(buffer=kernel.sums, index=_at(n), value=zero)
        for n in range(0, kernel.sums.size, LANES)
    )
    # 2 to 4. Block by block of k.
    blocks = product.k // ROW_STEP // config.split_k
    block, first = frame.variable("block", blocks), part.times(blocks)
    ahead = blocks > 1 and _fit_registers(kernel)
    readings = (_activations(kernel, ahead), *(_weights(kernel, n, ahead) for n in products))
    if ahead:
        # While products are computed the next block is on its way; behind the last it comes again.
        later = frame.nested()
        following = later.clamped("following", block.plus(_at(1)), blocks, 1)
        following = following.plus(first)
        before = tuple(s for each in readings for s in each.read_all(first))
        inner = (
            *(s for each in readings for s in each.keep_all()),
            Barrier(),
            *later.enclose(tuple(s for each in readings for s in each.read_all(following))),
            *_products(kernel),
            Barrier(),
        )
    else:
        before = ()
        brought = tuple(s for each in readings for s in each.brought(first.plus(block)))
        inner = (*brought, Barrier(), *_products(kernel), Barrier())
    body: Block = (*zeros, *before, *serial("block", blocks, inner))
    for buffer in (buffer for each in readings for buffer in each.registers):
        body = (Allocate(buffer=buffer, body=body),)
    # 5. Each thread stores its entries, or its sums.
    body = (*body, *(_stores(kernel) if config.split_k == 1 else _partial_stores(kernel)))
    body = (Allocate(buffer=kernel.sums, body=body),)
    nest: Block = (loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.enclose(body)),)
    for buffer in (kernel.rows, *kernel.columns):
        nest = (Allocate(buffer=buffer, body=nest),)
    parameters = parameters if config.split_k == 1 else (*parameters, kernel.partial)
    main = Program(parameters=parameters, body=loop("group", workgroups, LoopKind.RANGE, nest))
    return (main,) if config.split_k == 1 else (main, _added(kernel, parameters))


MOST_REGISTERS = 160
"""What a thread may hold besides its indices, where it reads ahead."""


def _turns(kernel: _Kernel, items: int) -> int:
    return -(-items // kernel.config.threads)


def _fit_registers(kernel: _Kernel) -> bool:
    """Whether a thread has room for what it reads of the next block."""
    config, product = kernel.config, kernel.product
    words = ROW_STEP // product.form.per_word
    turns = _turns(kernel, config.block_m // LANES * ROW_STEP)
    turns += 3 * len(product.weights) * _turns(kernel, config.block_n // LANES * words)
    return kernel.sums.size + LANES * turns <= MOST_REGISTERS


Turn = Callable[[Frame, Sequence[Affine], Affine], Block]
"""What is done for an item, whose place is told in its `axes`; then where it lies in registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Items of a block of k that threads take in turns: `read` leaves one in registers, `keep`
    takes it from there to workgroup memory."""

    var: str
    kernel: _Kernel
    axes: tuple[tuple[str, int], ...]
    registers: tuple[Buffer, ...]
    read: Callable[[Affine], Turn]
    keep: Turn

    @property
    def items(self) -> int:
        return prod(size for _, size in self.axes)

    def read_all(self, block: Affine) -> Block:
        return self._unrolled(self.read(block))

    def keep_all(self) -> Block:
        return self._unrolled(self.keep)

    def brought(self, block: Affine) -> Block:
        """Read and kept item by item."""
        read = self.read(block)

        def both(inside: Frame, places: Sequence[Affine], at: Affine) -> Block:
            return (*read(inside, places, at), *self.keep(inside, places, at))

        return serial(self.var, _turns(self.kernel, self.items), self._turn(both, ZERO))

    def _unrolled(self, body: Turn) -> Block:
        turn = self._turn(body, Affine.variable(self.var).times(LANES))
        turns = range(_turns(self.kernel, self.items))
        return tuple(s for at in turns for s in substitute(turn, self.var, _at(at)))

    def _turn(self, body: Turn, at: Affine) -> Block:
        inside = self.kernel.frame.nested()
        inside.ranges[self.var] = (0, _turns(self.kernel, self.items) - 1)
        threads = self.kernel.config.threads
        place = Affine.variable(self.var).times(threads).plus(self.kernel.thread)
        exists = inside.undecided((Bound(index=place, limit=self.items),))
        place = inside.clamped(f"{self.var}.place", place, self.items, 1)
        places = inside.delinearize(place, self.axes)
        return inside.enclose(under(exists, body(inside, places, at)))


def _registers(kernel: _Kernel, name: str, items: int, ahead: bool, dtype: DType) -> Buffer:
    size = LANES * (_turns(kernel, items) if ahead else 1)
    return Buffer(name=name, scope=Scope.LOCAL, dtype=dtype, size=size)


# Step 2: four rows of a to a vector; threads side by side read neighbours of one row.


def _activations(kernel: _Kernel, ahead: bool) -> _Reading:
    product, quads = kernel.product, kernel.config.block_m // LANES
    items = quads * ROW_STEP
    held = _registers(kernel, "held_a", items, ahead, DType.F32)

    def read(block: Affine) -> Turn:
        def turn(inside: Frame, places: Sequence[Affine], at: Affine) -> Block:
            quad, k = places
            entries = []
            for lane in range(LANES):
                row = kernel.first_m.plus(quad.times(LANES)).plus(_at(lane))
                row = inside.clamped(f"a_row{lane}", row, product.m, 1)
                index = row.times(product.k).plus(block.times(ROW_STEP)).plus(k)
                entries.append(kernel.load(product.a, index))
            return (Store(buffer=held, index=at, value=Lanes(values=tuple(entries))),)

        return turn

    def keep(_: Frame, places: Sequence[Affine], at: Affine) -> Block:
        quad, k = places
        index = k.times(kernel.pitch_m).plus(quad.times(LANES))
        value = Load(buffer=held, index=at, lanes=LANES)
        return (Store(buffer=kernel.rows, index=index, value=value),)

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
    words, quads = ROW_STEP // count, kernel.config.block_n // LANES
    items, blocks = quads * words, product.k // ROW_STEP
    packed = _registers(kernel, f"packed{number_}", items, ahead, DType.I32)
    scale = _registers(kernel, f"scale{number_}", items, ahead, DType.F32)
    zero = _registers(kernel, f"zero{number_}", items, ahead, DType.F32)

    def read(block: Affine) -> Turn:
        def turn(inside: Frame, places: Sequence[Affine], at: Affine) -> Block:
            quad, word = places
            held, scales, zeros = [], [], []
            own = _own_block(form, product.k, block, word, inside, number_)
            for lane in range(LANES):
                row = kernel.first_n.plus(quad.times(LANES)).plus(_at(lane))
                row = inside.clamped(f"b_row{number_}.{lane}", row, product.n, 1)
                row = row.plus(_at(operand.first_row))
                place = row.times(blocks).plus(block)
                held.append(kernel.load(operand.words, place.times(words).plus(word)))
                scales.append(
                    kernel.load(operand.scales, row.times(form.blocks(product.k)).plus(own))
                )
                zeros.append(_zero(kernel, operand, row, own, inside, number_))
            return tuple(
                Store(buffer=into, index=at, value=Lanes(values=tuple(values)))
                for into, values in ((packed, held), (scale, scales), (zero, zeros))
            )

        return turn

    def keep(_: Frame, places: Sequence[Affine], at: Affine) -> Block:
        quad, word = places
        mask = Const(value=(1 << form.width) - 1, dtype=DType.I32, lanes=LANES)
        body: list[Statement] = []
        for bit in range(count):
            value: Expression = Load(buffer=packed, index=at, lanes=LANES)
            if bit:
                value = binary(BinaryOp.SHIFT_RIGHT, value, whole(bit * form.width))
            value = Cast(value=binary(BinaryOp.AND, value, mask), dtype=DType.F32)
            value = binary(BinaryOp.SUB, value, Load(buffer=zero, index=at, lanes=LANES))
            value = binary(BinaryOp.MUL, value, Load(buffer=scale, index=at, lanes=LANES))
            k = word.times(count).plus(_at(bit))
            index = k.times(kernel.pitch_n).plus(quad.times(LANES))
            body.append(Store(buffer=kernel.columns[number_], index=index, value=value))
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
    form: Form, k: int, stretch: Affine, word: Affine, inside: Frame, number_: int
) -> Affine:
    """The block of a row that a word of a stretch of it is in."""
    if form.block > ROW_STEP:
        stretches = form.block // ROW_STEP
        value = binary(BinaryOp.FLOOR_DIV, IndexValue(index=stretch), whole(stretches))
        return inside.let(f"whole_block{number_}", value, form.blocks(k) - 1)
    if form.block < ROW_STEP:
        words, parts = form.block // form.per_word, ROW_STEP // form.block
        value = binary(BinaryOp.FLOOR_DIV, IndexValue(index=word), whole(words))
        return stretch.times(parts).plus(inside.let(f"part{number_}", value, parts - 1))
    return stretch


def _zero(
    kernel: _Kernel, operand: Weights, row: Affine, block: Affine, inside: Frame, number_: int
) -> Expression:
    form = operand.form
    if not form.zeros:
        return number(float(form.middle))
    words, count = form.zero_words(kernel.product.k), form.per_word
    names = f"zero_word{number_}", f"zero_digit{number_}"
    if names[0] not in inside.ranges:
        for name, op, most in zip(
            names,
            (BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD),
            (words - 1, count - 1),
            strict=True,
        ):
            inside.let(name, binary(op, IndexValue(index=block), whole(count)), most)
    held = kernel.load(operand.zeros, row.times(words).plus(Affine.variable(names[0])))
    shift = IndexValue(index=Affine.variable(names[1]).times(form.width))
    mask = whole((1 << form.width) - 1)
    bits = binary(BinaryOp.AND, binary(BinaryOp.SHIFT_RIGHT, held, shift), mask)
    return Cast(value=bits, dtype=DType.F32)


# Step 4: products of the thread's rows and columns.


def _products(kernel: _Kernel) -> Block:
    config, k = kernel.config, Affine.variable("k")
    body: list[Statement] = []
    for number_, columns in enumerate(kernel.columns):
        for quad in range(config.tile_n // LANES):
            column = kernel.x.times(config.tile_n).plus(_at(quad * LANES))
            index = k.times(kernel.pitch_n).plus(column)
            right = Load(buffer=columns, index=index, lanes=LANES)
            for row in range(config.tile_m):
                quad_m, lane = divmod(row, LANES)
                place = kernel.y.times(config.tile_m).plus(_at(quad_m * LANES))
                index = k.times(kernel.pitch_m).plus(place)
                left = Load(buffer=kernel.rows, index=index, lanes=LANES)
                one = Broadcast(value=ExtractLane(value=left, lane=lane), lanes=LANES)
                at = kernel.sum_at(number_, row, quad)
                so_far = Load(buffer=kernel.sums, index=at, lanes=LANES)
                value = binary(BinaryOp.ADD, so_far, binary(BinaryOp.MUL, one, right))
                body.append(Store(buffer=kernel.sums, index=at, value=value))
    return serial("k", ROW_STEP, tuple(body))


# Step 5: the entries of the output.


def _entry(kernel: _Kernel, at_m: Affine, at_n: Affine, made: Mapping[str, Expression]) -> Store:
    """What stores an entry, given its sums."""
    output, shape = kernel.held[list(kernel.held)[-1]]
    i, j = kernel.product.axes
    value = entry_value(kernel.product.value, {i.name: at_m, j.name: at_n}, kernel.held, made)
    return Store(buffer=output, index=at_m.times(shape[-1]).plus(at_n), value=value)


def _stores(kernel: _Kernel) -> Block:
    config, product = kernel.config, kernel.product
    body: Block = ()
    for row in range(config.tile_m):
        at_m = kernel.first_m.plus(kernel.y.times(config.tile_m)).plus(_at(row))
        for column in range(config.tile_n):
            at_n = kernel.first_n.plus(kernel.x.times(config.tile_n)).plus(_at(column))
            quad, lane = divmod(column, LANES)
            made = {
                name: ExtractLane(
                    value=Load(buffer=kernel.sums, index=kernel.sum_at(n, row, quad), lanes=LANES),
                    lane=lane,
                )
                for n, name in enumerate(product.products)
            }
            store = _entry(kernel, at_m, at_n, made)
            bounds = (Bound(index=at_m, limit=product.m), Bound(index=at_n, limit=product.n))
            body = (*body, *under(kernel.frame.undecided(bounds), (store,)))
    return body


# split_k > 1: partial[split_k][products][m][n] in scratch memory, four columns at a time.


def _partial_stores(kernel: _Kernel) -> Block:
    config, product = kernel.config, kernel.product
    count = len(product.products)
    body: Block = ()
    for number_ in range(count):
        plane = kernel.part.times(count).plus(_at(number_)).times(product.m)
        for row in range(config.tile_m):
            at_m = kernel.first_m.plus(kernel.y.times(config.tile_m)).plus(_at(row))
            for quad in range(config.tile_n // LANES):
                column = kernel.x.times(config.tile_n).plus(_at(quad * LANES))
                at_n = kernel.first_n.plus(column)
                index = kernel.sum_at(number_, row, quad)
                value = Load(buffer=kernel.sums, index=index, lanes=LANES)
                index = plane.plus(at_m).times(product.n).plus(at_n)
                store = Store(buffer=kernel.partial, index=index, value=value)
                bounds = (Bound(index=at_m, limit=product.m), Bound(index=at_n, limit=product.n))
                body = (*body, *under(kernel.frame.undecided(bounds), (store,)))
    return body


SPLIT_K_THREADS = 64


def _added(kernel: _Kernel, parameters: tuple[Buffer, ...]) -> Program:
    """The second dispatch: each entry from the partial sums of all workgroups."""
    product = kernel.product
    at_m, at_n = Affine.variable("m"), Affine.variable("n")
    entries, count = product.m * product.n, len(product.products)
    place = at_m.times(product.n).plus(at_n)

    def total(number_: int) -> Expression:
        parts: list[Expression] = [
            Load(
                buffer=kernel.partial,
                index=place.plus(_at((part * count + number_) * entries)),
            )
            for part in range(kernel.config.split_k)
        ]
        return reduce(lambda left, right: binary(BinaryOp.ADD, left, right), parts)

    made = {name: total(n) for n, name in enumerate(product.products)}
    store = _entry(kernel, at_m, at_n, made)
    block: Block = (loop("n", product.n, LoopKind.SERIAL, (store,)),)
    block = (loop("m", product.m, LoopKind.SERIAL, block),)
    whole = Program(parameters=parameters, body=loop("whole", 1, LoopKind.RANGE, block))
    return bind_threads(whole, ThreadBinding(count=SPLIT_K_THREADS, vectors=1, vec4=True))

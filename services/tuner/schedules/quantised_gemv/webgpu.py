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

from dataclasses import dataclass, replace

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import ROW_STEP, Form, per_word
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    all_lanes,
    binary,
    f32_buffer,
    loop,
    number,
    numbers,
    plus,
    serial,
    splat,
    times,
    total,
    under,
    whole,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Barrier,
    BinaryOp,
    Bitcast,
    Block,
    Bound,
    Buffer,
    Call,
    Cast,
    Const,
    Expression,
    ExtractLane,
    IndexValue,
    Lanes,
    Load,
    LoopKind,
    MathFunction,
    Program,
    Scope,
    Statement,
    Store,
)
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import Held, held_by, parameters_of
from services.tuner.schedules.base.quantised import (
    QuantisedProduct,
    RowNorm,
    Weights,
    quantised_product_of,
)
from services.tuner.schedules.base.row_threads import Reduced, RowThreads, reduced
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantised_gemv.slots import HALF_WORD, SLOTS, Slot, slots_of
from services.tuner.schedules.quantised_gemv.webgpu_config import WebgpuQuantisedGemvConfig

WORDS_AT_ONCE = LANES
MANTISSA = 23
"""Bits of a number of f32 behind its first one."""
_EXPONENT_BIAS = 127


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuQuantisedGemvConfig.of(candidate)
    return ScheduledProgram(nests=(quantised_gemv_program(candidate.workload, config),))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What all steps know. `rows` are those of the thread's tile, the last one again where there
    are no more."""

    config: WebgpuQuantisedGemvConfig
    product: QuantisedProduct
    held: Held
    frame: Frame
    thread: Affine
    sharing: RowThreads
    rows: tuple[Affine, ...]
    staged: Buffer
    own: Buffer
    sums: Buffer
    squares: Buffer

    def sum_at(self, place: int) -> Affine:
        return Affine(constant=LANES * place)

    def sum_of(self, product: int, row: int, m: int) -> int:
        return (product * len(self.rows) + row) * self.product.m + m

    def load(self, name: str, index: Affine, lanes: int = 1) -> Load:
        return Load(buffer=self.held[name][0], index=index, lanes=lanes)


def quantised_gemv_program(workload: Workload, config: WebgpuQuantisedGemvConfig) -> Program:
    """One dispatch; its parameters are those of the workload, flat."""
    product, frame = quantised_product_of(workload), Frame()
    parameters = parameters_of(workload)

    # 1. Which rows of the weights are the thread's.
    groups = -(-product.n // config.block_n)
    group = frame.variable("group", groups)
    thread = frame.variable("thread", config.threads)
    own, lane = frame.delinearize(
        thread, (("own", config.row_tiles), ("lane", config.threads_per_row))
    )
    first = group.times(config.block_n).plus(own.times(config.tile_n))
    unclamped = [first.plus(Affine(constant=row)) for row in range(config.tile_n)]
    exist = [frame.undecided((Bound(index=row, limit=product.n),)) for row in unclamped]
    kernel = _Kernel(
        config=config,
        product=product,
        held=held_by(workload),
        frame=frame,
        thread=thread,
        sharing=RowThreads(
            threads=config.threads_per_row,
            rows=config.row_tiles,
            own=own,
            lane=lane,
            subgroups=config.subgroups,
        ),
        rows=tuple(frame.clamped(f"row{n}", row, product.n, 1) for n, row in enumerate(unclamped)),
        staged=f32_buffer("staged", LANES * SLOTS * config.pitch * product.m, Scope.WORKGROUP),
        own=f32_buffer("own", ROW_STEP * product.m, Scope.LOCAL),
        sums=f32_buffer(
            "sums", LANES * len(product.weights) * config.tile_n * product.m, Scope.LOCAL
        ),
        squares=f32_buffer("squares", product.m, Scope.LOCAL),
    )
    zeros = tuple(
        Store(buffer=kernel.sums, index=Affine(constant=n), value=numbers(0.0))
        for n in range(0, kernel.sums.size, LANES)
    )

    # 2 and 3. Part by part of k: activations into workgroup memory, then their products.
    if config.block_k:
        parts = product.k // config.block_k
        part = frame.variable("part", parts)
        after = (Barrier(),) if parts > 1 else ()
        body: Block = (*_staging(kernel, part), Barrier(), *_products(kernel, part), *after)
        body = serial("part", parts, body)
    else:
        body = _products(kernel, ZERO)
    body = (*zeros, *_no_squares(kernel), *body)
    # 4. Sums over the threads of a row, and over the whole workgroup for the norm.
    totals, factors = _totals(kernel)
    # 5. The first thread of each row tile stores its entries.
    body = (*body, *totals.body, *factors.body, *_stores(kernel, totals, factors, exist))

    local = (kernel.sums, *totals.local, *factors.local)
    for buffer in (*local, *((kernel.squares,) if product.norm else ())):
        body = (Allocate(buffer=buffer, body=body),)
    block: Block = (loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.enclose(body)),)
    staged = (kernel.staged,) if config.block_k else ()
    for buffer in (*staged, *totals.shared, *factors.shared):
        block = (Allocate(buffer=buffer, body=block),)
    return Program(parameters=parameters, body=loop("group", groups, LoopKind.RANGE, block))


# Step 2: activations into workgroup memory, in the order in which words have their weights.


def _staging(kernel: _Kernel, part: Affine) -> Block:
    """Threads take vectors in turn, so that neighbours read neighbours."""
    config, width = kernel.config, kernel.product.form.width
    count = per_word(width)
    blocks, vectors = config.block_k // ROW_STEP, ROW_STEP // (count * LANES)
    items = blocks * SLOTS
    inside = kernel.frame.nested()
    load = inside.variable("load", -(-items // config.threads))
    place = load.times(config.threads).plus(kernel.thread)
    exists = inside.undecided((Bound(index=place, limit=items),))
    block, vector, bit = inside.delinearize(
        inside.clamped("place", place, items, 1),
        (("block", blocks), ("vector", vectors), ("bit", count)),
    )
    first = total(
        part.times(config.block_k),
        block.times(ROW_STEP),
        vector.times(LANES * count),
        bit,
    )
    slot = vector.times(count).plus(bit).times(config.pitch).plus(block)
    held = HALF_WORD // width
    among = inside.let(
        "among", binary(BinaryOp.FLOOR_MOD, IndexValue(index=bit), whole(held)), held - 1
    )
    # 2^-p has the exponent 127 - p.
    exponent = among.times(-width << MANTISSA).plus(Affine(constant=_EXPONENT_BIAS << MANTISSA))
    power = Bitcast(value=IndexValue(index=exponent), dtype=DType.F32)
    body: Block = ()
    for m in range(kernel.product.m):
        body = (*body, *_staged_row(kernel, m, first, slot, power))
    return serial("load", -(-items // config.threads), inside.enclose(under(exists, body)))


def _staged_row(kernel: _Kernel, m: int, first: Affine, slot: Affine, power: Expression) -> Block:
    product = kernel.product
    row = Affine(constant=m * product.k).plus(first)
    count = per_word(product.form.width)
    places = [Affine(constant=lane * count) for lane in range(LANES)]
    entries: Expression = Lanes(
        values=tuple(kernel.load(product.a, row.plus(place)) for place in places)
    )
    squares: Block = ()
    if product.norm is not None:
        gamma = (kernel.load(product.norm.gamma, first.plus(place)) for place in places)
        held = Load(buffer=kernel.squares, index=Affine(constant=m))
        squared = plus(held, all_lanes(times(entries, entries)))
        squares = (Store(buffer=kernel.squares, index=held.index, value=squared),)
        entries = times(entries, Lanes(values=tuple(gamma)))
    scaled = times(entries, splat(power))
    return (*squares, Store(buffer=kernel.staged, index=_slot(kernel, m, slot), value=scaled))


def _slot(kernel: _Kernel, m: int, slot: Affine) -> Affine:
    return Affine(constant=m * SLOTS * kernel.config.pitch).plus(slot).times(LANES)


def _no_squares(kernel: _Kernel) -> Block:
    if kernel.product.norm is None:
        return ()
    return tuple(
        Store(buffer=kernel.squares, index=Affine(constant=m), value=number(0))
        for m in range(kernel.product.m)
    )


# Step 3: the products of one stretch of each row with the activations.


def _products(kernel: _Kernel, part: Affine) -> Block:
    config, product = kernel.config, kernel.product
    blocks = (config.block_k or product.k) // ROW_STEP
    steps = -(-blocks // config.threads_per_row)
    inside = kernel.frame.nested()
    step = inside.variable("step", steps)
    block = step.times(config.threads_per_row).plus(kernel.sharing.lane)
    exists = inside.undecided((Bound(index=block, limit=blocks),))
    block = inside.clamped("own_block", block, blocks, 1) if not exists else block
    place = part.times(blocks).plus(block)
    dot = f32_buffer("dot", LANES * product.m, Scope.LOCAL)
    weight = f32_buffer("weight", LANES, Scope.LOCAL)
    body: Block = () if config.block_k else _own_activations(kernel, block)
    for number_, operand in enumerate(product.weights):
        for row, at in enumerate(kernel.rows):
            index = at.plus(Affine(constant=operand.first_row))
            for slots in _scaled_together(operand.form):
                body = (
                    *body,
                    *_dots(kernel, operand, slots, index, place, block, inside, dot, weight),
                    *_added(kernel, operand, slots, (number_, row), index, place, inside, dot),
                )
    local = (dot, weight) if config.block_k else (dot, weight, kernel.own)
    for buffer in local:
        body = (Allocate(buffer=buffer, body=body),)
    return serial("step", steps, inside.enclose(under(exists, body)))


def _own_activations(kernel: _Kernel, block: Affine) -> Block:
    """The slots of the thread's own stretch, of activations that are read where they lie."""
    product = kernel.product
    slots = slots_of(product.form.width)
    body: list[Statement] = []
    for m in range(product.m):
        row = Affine(constant=m * product.k).plus(block.times(ROW_STEP))
        vectors = [Affine(constant=LANES * n) for n in range(ROW_STEP // LANES)]
        entries: list[Expression] = [kernel.load(product.a, row.plus(at), LANES) for at in vectors]
        if product.norm is not None:
            held = Load(buffer=kernel.squares, index=Affine(constant=m))
            squared = all_lanes(_pairwise([times(each, each) for each in entries]))
            body.append(Store(buffer=kernel.squares, index=held.index, value=plus(held, squared)))
            gamma = [block.times(ROW_STEP).plus(at) for at in vectors]
            entries = [
                times(each, kernel.load(product.norm.gamma, at, LANES))
                for each, at in zip(entries, gamma, strict=True)
            ]
        for slot in slots:
            lanes = [slot.weight(lane) for lane in range(LANES)]
            parts = [ExtractLane(value=entries[at // LANES], lane=at % LANES) for at in lanes]
            value: Expression = Lanes(values=tuple(parts))
            if slot.power:
                value = times(value, numbers(2.0**-slot.power))
            body.append(Store(buffer=kernel.own, index=_own_slot(m, slot.number), value=value))
    return tuple(body)


def _own_slot(m: int, slot: int) -> Affine:
    return Affine(constant=(m * SLOTS + slot) * LANES)


def _pairwise(values: list[Expression]) -> Expression:
    while len(values) > 1:
        values = [plus(*pair) for pair in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def _activations(kernel: _Kernel, m: int, slot: int, block: Affine) -> Load:
    if not kernel.config.block_k:
        return Load(buffer=kernel.own, index=_own_slot(m, slot), lanes=LANES)
    place = Affine(constant=slot * kernel.config.pitch).plus(block)
    return Load(buffer=kernel.staged, index=_slot(kernel, m, place), lanes=LANES)


def _scaled_together(form: Form) -> tuple[range, ...]:
    """Slots whose words are of the same blocks."""
    each = form.per_word
    if form.block < ROW_STEP and each < SLOTS:
        return tuple(range(first, first + each) for first in range(0, SLOTS, each))
    return (range(SLOTS),)


def _own_blocks(
    form: Form, k: int, vector: int, place: Affine, inside: Frame
) -> tuple[Affine, ...]:
    """For each word of a vector of a stretch, which is at `place`, the block of its row."""
    if form.block < ROW_STEP:
        first = place.times(ROW_STEP // form.block)
        words = (vector * LANES + lane for lane in range(LANES))
        return tuple(
            first.plus(Affine(constant=word * form.per_word // form.block)) for word in words
        )
    if form.block > ROW_STEP:
        stretches = form.block // ROW_STEP
        value = binary(BinaryOp.FLOOR_DIV, IndexValue(index=place), whole(stretches))
        place = _bound_once(inside, "whole_block", value, form.blocks(k) - 1)
    return (place,) * LANES


def _bound_once(inside: Frame, name: str, value: Expression, most: int) -> Affine:
    return Affine.variable(name) if name in inside.ranges else inside.let(name, value, most)


def _dots(
    kernel: _Kernel,
    operand: Weights,
    slots: range,
    row: Affine,
    place: Affine,
    block: Affine,
    inside: Frame,
    into: Buffer,
    weight: Buffer,
) -> Block:
    """Σ (q - zero) · a of some slots of a stretch, lane by lane, for all rows of a."""
    product, form = kernel.product, operand.form
    words = ROW_STEP // form.per_word
    at = row.times(product.k // ROW_STEP).plus(place).times(words)
    zeros = _zero_points(kernel, operand, slots, row, place, inside)
    body: list[Statement] = []
    for number_ in slots:
        slot = Slot(number=number_, width=form.width)
        held: Expression = kernel.load(
            operand.words, at.plus(Affine(constant=slot.vector * WORDS_AT_ONCE)), LANES
        )
        if slot.shift:
            held = binary(BinaryOp.SHIFT_RIGHT, held, whole(slot.shift))
        held = binary(BinaryOp.AND, held, _words(slot.mask))
        held = binary(BinaryOp.OR, held, _words((_EXPONENT_BIAS + MANTISSA) << MANTISSA))
        value = binary(
            BinaryOp.SUB, Bitcast(value=held, dtype=DType.F32), _centre(form, slot, zeros)
        )
        body.append(Store(buffer=weight, index=ZERO, value=value))
        for m in range(product.m):
            index = kernel.sum_at(m)
            own = times(
                Load(buffer=weight, index=ZERO, lanes=LANES),
                _activations(kernel, m, number_, block),
            )
            so_far = Load(buffer=into, index=index, lanes=LANES)
            value = plus(so_far, own) if number_ > slots.start else own
            body.append(Store(buffer=into, index=index, value=value))
    return tuple(body)


def _words(value: int) -> Const:
    return Const(value=value, dtype=DType.I32, lanes=LANES)


def _centre(form: Form, slot: Slot, zeros: tuple[Expression, ...]) -> Expression:
    """What the mantissa has where a weight is its zero point, of which `zeros` has one a word."""
    one, power = float(1 << MANTISSA), float(1 << slot.power)
    if not zeros:
        return numbers(one + power * form.middle)
    return _lanes(tuple(plus(times(zero, number(power)), number(one)) for zero in zeros))


def _lanes(values: tuple[Expression, ...]) -> Expression:
    return splat(values[0]) if len(set(values)) == 1 else Lanes(values=values)


def _added(
    kernel: _Kernel,
    operand: Weights,
    slots: range,
    which: tuple[int, int],
    row: Affine,
    place: Affine,
    inside: Frame,
    dot: Buffer,
) -> Block:
    """The part of each sum that some slots of a stretch have: scale · Σ (q - zero) · a."""
    form, k = operand.form, kernel.product.k
    first = row.times(form.blocks(k))
    blocks = _own_blocks(form, k, _vector_of(form, slots), place, inside)
    scale = _lanes(tuple(kernel.load(operand.scales, first.plus(each)) for each in blocks))
    body = []
    for m in range(kernel.product.m):
        own = times(scale, Load(buffer=dot, index=kernel.sum_at(m), lanes=LANES))
        index = kernel.sum_at(kernel.sum_of(*which, m))
        so_far = Load(buffer=kernel.sums, index=index, lanes=LANES)
        body.append(Store(buffer=kernel.sums, index=index, value=plus(so_far, own)))
    return tuple(body)


def _vector_of(form: Form, slots: range) -> int:
    return Slot(number=slots.start, width=form.width).vector


def _zero_points(
    kernel: _Kernel, operand: Weights, slots: range, row: Affine, place: Affine, inside: Frame
) -> tuple[Expression, ...]:
    """The zero point of each word of a vector; () where weights have none."""
    if not operand.zeros:
        return ()
    form, k = operand.form, kernel.product.k
    first = row.times(form.zero_words(k))
    found = []
    for block in _own_blocks(form, k, _vector_of(form, slots), place, inside):
        value, count = IndexValue(index=block), form.per_word
        # Two blocks of a stretch may have their zero points in different words.
        name = f"{block.constant or ''}"
        word = _bound_once(
            inside,
            f"zero_word{name}",
            binary(BinaryOp.FLOOR_DIV, value, whole(count)),
            form.zero_words(k) - 1,
        )
        digit = _bound_once(
            inside, f"zero_digit{name}", binary(BinaryOp.FLOOR_MOD, value, whole(count)), count - 1
        )
        held = kernel.load(operand.zeros, first.plus(word))
        shifted = binary(BinaryOp.SHIFT_RIGHT, held, IndexValue(index=digit.times(form.width)))
        most = (1 << form.width) - 1
        found.append(Cast(value=binary(BinaryOp.AND, shifted, whole(most)), dtype=DType.F32))
    return tuple(found)


# Steps 4 and 5: sums over threads, the norm's factor, and the entries of the output.


def _totals(kernel: _Kernel) -> tuple[Reduced, Reduced]:
    """The sums of all rows, and the sums of squares of the rows of a."""
    sums = [
        all_lanes(Load(buffer=kernel.sums, index=Affine(constant=n), lanes=LANES))
        for n in range(0, kernel.sums.size, LANES)
    ]
    squares = [
        Load(buffer=kernel.squares, index=Affine(constant=m)) for m in range(kernel.product.m)
    ]
    nothing = Reduced(values=(), body=(), local=(), shared=())
    if kernel.product.norm is None:
        return reduced(kernel.sharing, sums, "sums"), nothing
    if not kernel.config.block_k:
        # The threads of each row have read all of a.
        both = reduced(kernel.sharing, [*sums, *squares], "sums")
        rows, norms = both.values[: len(sums)], both.values[len(sums) :]
        return replace(both, values=rows), replace(nothing, values=norms)
    # Every thread of the workgroup has read a part of them.
    workgroup = RowThreads(
        threads=kernel.config.threads,
        rows=1,
        own=ZERO,
        lane=kernel.thread,
        subgroups=kernel.config.subgroups,
    )
    return reduced(kernel.sharing, sums, "sums"), reduced(workgroup, squares, "squares")


def _stores(
    kernel: _Kernel, totals: Reduced, factors: Reduced, exist: list[tuple[Bound, ...]]
) -> Block:
    product = kernel.product
    output, shape = kernel.held[list(kernel.held)[-1]]
    first = kernel.frame.undecided((Bound(index=kernel.sharing.lane, limit=1),))
    body: Block = ()
    for row, bounds in enumerate(exist):
        stores = []
        for m in range(product.m):
            made = {
                name: _finished(
                    product.norm, totals.values[kernel.sum_of(n, row, m)], factors, m, product.k
                )
                for n, name in enumerate(product.products)
            }
            i, j = product.axes
            places = {i.name: Affine(constant=m), j.name: kernel.rows[row]}
            value = entry_value(product.value, places, kernel.held, made)
            index = Affine(constant=m * shape[-1]).plus(kernel.rows[row])
            stores.append(Store(buffer=output, index=index, value=value))
        body = (*body, *under((*first, *bounds), tuple(stores)))
    return body


def _finished(
    norm: RowNorm | None, value: Expression, factors: Reduced, m: int, k: int
) -> Expression:
    if norm is None:
        return value
    mean = times(factors.values[m], number(1 / k))
    factor = Call(function=MathFunction.RSQRT, argument=plus(mean, number(norm.epsilon)))
    return times(value, factor)

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
from services.tuner import ir
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

WORDS_AT_ONCE = ir.LANES
MANTISSA = 23
"""Bits of a number of f32 behind its first one."""
_EXPONENT_BIAS = 127


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuQuantisedGemvConfig.of(candidate)
    return ScheduledProgram(nests=(quantised_gemv_program(candidate.workload, config),))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """All steps know these. `rows` are those of the thread's tile, the last one again where there
    are no more."""

    config: WebgpuQuantisedGemvConfig
    product: QuantisedProduct
    held: Held
    frame: ir.Frame
    thread: ir.Affine
    sharing: RowThreads
    rows: tuple[ir.Affine, ...]
    staged: ir.Buffer
    own: ir.Buffer
    sums: ir.Buffer
    squares: ir.Buffer

    def sum_at(self, place: int) -> ir.Affine:
        return ir.constant(ir.LANES * place)

    def sum_of(self, product: int, row: int, m: int) -> int:
        return (product * len(self.rows) + row) * self.product.m + m

    def load(self, name: str, index: ir.Affine, lanes: int = 1) -> ir.Load:
        return ir.Load(buffer=self.held[name][0], index=index, lanes=lanes)


def quantised_gemv_program(workload: Workload, config: WebgpuQuantisedGemvConfig) -> ir.Program:
    """One dispatch; its parameters are those of the workload, flat."""
    product, frame = quantised_product_of(workload), ir.Frame()
    parameters = parameters_of(workload)

    # 1. Which rows of the weights are the thread's.
    groups = -(-product.n // config.block_n)
    group = frame.variable("group", groups)
    thread = frame.variable("thread", config.threads)
    own, lane = frame.delinearize(
        thread, (("own", config.row_tiles), ("lane", config.threads_per_row))
    )
    first = group * config.block_n + own * config.tile_n
    unclamped = [first + row for row in range(config.tile_n)]
    exist = [frame.undecided((row.below(product.n),)) for row in unclamped]
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
        staged=ir.shared("staged", ir.LANES * SLOTS * config.pitch * product.m),
        own=ir.local("own", ROW_STEP * product.m),
        sums=ir.local("sums", ir.LANES * len(product.weights) * config.tile_n * product.m),
        squares=ir.local("squares", product.m),
    )
    zeros = tuple(
        kernel.sums.store(n, ir.numbers(0.0)) for n in range(0, kernel.sums.size, ir.LANES)
    )

    # 2 and 3. Part by part of k: activations into workgroup memory, then their products.
    if config.block_k:
        parts = product.k // config.block_k
        part = frame.variable("part", parts)
        after = (ir.Barrier(),) if parts > 1 else ()
        body: ir.Block = (*_staging(kernel, part), ir.Barrier(), *_products(kernel, part), *after)
        body = ir.serial("part", parts, body)
    else:
        body = _products(kernel, ir.ZERO)
    body = (*zeros, *_no_squares(kernel), *body)
    # 4. Sums over the threads of a row, and over the whole workgroup for the norm.
    totals, factors = _totals(kernel)
    # 5. The first thread of each row tile stores its entries.
    body = (*body, *totals.body, *factors.body, *_stores(kernel, totals, factors, exist))

    local = (kernel.sums, *totals.local, *factors.local)
    body = ir.allocated((*local, *((kernel.squares,) if product.norm else ())), body)
    block: ir.Block = (ir.threads(config.threads, frame.enclose(body)),)
    staged = (kernel.staged,) if config.block_k else ()
    block = ir.allocated((*staged, *totals.shared, *factors.shared), block)
    return ir.program(parameters, "group", groups, block)


# Step 2: activations into workgroup memory, in the order in which words have their weights.


def _staging(kernel: _Kernel, part: ir.Affine) -> ir.Block:
    """Threads take vectors in turn, so that neighbours read neighbours."""
    config, width = kernel.config, kernel.product.form.width
    count = per_word(width)
    blocks, vectors = config.block_k // ROW_STEP, ROW_STEP // (count * ir.LANES)
    items = blocks * SLOTS
    inside = kernel.frame.nested()
    load = inside.variable("load", -(-items // config.threads))
    place = load * config.threads + kernel.thread
    exists = inside.undecided((place.below(items),))
    block, vector, bit = inside.delinearize(
        inside.clamped("place", place, items, 1),
        (("block", blocks), ("vector", vectors), ("bit", count)),
    )
    first = part * config.block_k + block * ROW_STEP + vector * (ir.LANES * count) + bit
    slot = (vector * count + bit) * config.pitch + block
    held = HALF_WORD // width
    among = inside.let("among", ir.value(bit) % held, held - 1)
    # 2^-p has the exponent 127 - p.
    exponent = among * (-width << MANTISSA) + (_EXPONENT_BIAS << MANTISSA)
    power = ir.value(exponent).bitcast(DType.F32)
    body: ir.Block = ()
    for m in range(kernel.product.m):
        body = (*body, *_staged_row(kernel, m, first, slot, power))
    return ir.serial("load", -(-items // config.threads), inside.enclose(ir.under(exists, body)))


def _staged_row(
    kernel: _Kernel, m: int, first: ir.Affine, slot: ir.Affine, power: ir.Expression
) -> ir.Block:
    product = kernel.product
    row = m * product.k + first
    count = per_word(product.form.width)
    places = [ir.constant(lane * count) for lane in range(ir.LANES)]
    entries: ir.Expression = ir.Lanes(
        values=tuple(kernel.load(product.a, row + place) for place in places)
    )
    squares: ir.Block = ()
    if product.norm is not None:
        gamma = (kernel.load(product.norm.gamma, first + place) for place in places)
        held = kernel.squares[m]
        squared = held + ir.all_lanes(entries * entries)
        squares = (kernel.squares.store(held.index, squared),)
        entries = entries * ir.Lanes(values=tuple(gamma))
    scaled = entries * ir.splat(power)
    return (*squares, kernel.staged.store(_slot(kernel, m, slot), scaled))


def _slot(kernel: _Kernel, m: int, slot: ir.Affine) -> ir.Affine:
    return (m * SLOTS * kernel.config.pitch + slot) * ir.LANES


def _no_squares(kernel: _Kernel) -> ir.Block:
    if kernel.product.norm is None:
        return ()
    return tuple(kernel.squares.store(m, 0.0) for m in range(kernel.product.m))


# Step 3: the products of one stretch of each row with the activations.


def _products(kernel: _Kernel, part: ir.Affine) -> ir.Block:
    config, product = kernel.config, kernel.product
    blocks = (config.block_k or product.k) // ROW_STEP
    steps = -(-blocks // config.threads_per_row)
    inside = kernel.frame.nested()
    step = inside.variable("step", steps)
    block = step * config.threads_per_row + kernel.sharing.lane
    exists = inside.undecided((block.below(blocks),))
    block = inside.clamped("own_block", block, blocks, 1) if not exists else block
    place = part * blocks + block
    dot = ir.local("dot", ir.LANES * product.m)
    weight = ir.local("weight", ir.LANES)
    body: ir.Block = () if config.block_k else _own_activations(kernel, block)
    for number_, operand in enumerate(product.weights):
        for row, at in enumerate(kernel.rows):
            index = at + operand.first_row
            for slots in _scaled_together(operand.form):
                body = (
                    *body,
                    *_dots(kernel, operand, slots, index, place, block, inside, dot, weight),
                    *_added(kernel, operand, slots, (number_, row), index, place, inside, dot),
                )
    local = (dot, weight) if config.block_k else (dot, weight, kernel.own)
    body = ir.allocated(local, body)
    return ir.serial("step", steps, inside.enclose(ir.under(exists, body)))


def _own_activations(kernel: _Kernel, block: ir.Affine) -> ir.Block:
    """The slots of the thread's own stretch, of activations that are read where they lie."""
    product = kernel.product
    slots = slots_of(product.form.width)
    body: list[ir.Statement] = []
    for m in range(product.m):
        row = m * product.k + block * ROW_STEP
        vectors = [ir.constant(ir.LANES * n) for n in range(ROW_STEP // ir.LANES)]
        entries: list[ir.Expression] = [
            kernel.load(product.a, row + at, ir.LANES) for at in vectors
        ]
        if product.norm is not None:
            held = kernel.squares[m]
            squared = ir.all_lanes(ir.pairwise([each * each for each in entries]))
            body.append(kernel.squares.store(held.index, held + squared))
            gamma = [block * ROW_STEP + at for at in vectors]
            entries = [
                each * kernel.load(product.norm.gamma, at, ir.LANES)
                for each, at in zip(entries, gamma, strict=True)
            ]
        for slot in slots:
            lanes = [slot.weight(lane) for lane in range(ir.LANES)]
            parts = [entries[at // ir.LANES].extract(at % ir.LANES) for at in lanes]
            value: ir.Expression = ir.Lanes(values=tuple(parts))
            if slot.power:
                value = value * 2.0**-slot.power
            body.append(kernel.own.store(_own_slot(m, slot.number), value))
    return tuple(body)


def _own_slot(m: int, slot: int) -> ir.Affine:
    return ir.constant((m * SLOTS + slot) * ir.LANES)


def _activations(kernel: _Kernel, m: int, slot: int, block: ir.Affine) -> ir.Load:
    if not kernel.config.block_k:
        return kernel.own.vector(_own_slot(m, slot))
    place = slot * kernel.config.pitch + block
    return kernel.staged.vector(_slot(kernel, m, place))


def _scaled_together(form: Form) -> tuple[range, ...]:
    """Slots whose words are of the same blocks."""
    each = form.per_word
    if form.block < ROW_STEP and each < SLOTS:
        return tuple(range(first, first + each) for first in range(0, SLOTS, each))
    return (range(SLOTS),)


def _own_blocks(
    form: Form, k: int, vector: int, place: ir.Affine, inside: ir.Frame
) -> tuple[ir.Affine, ...]:
    """For each word of a vector of a stretch, which is at `place`, the block of its row."""
    if form.block < ROW_STEP:
        first = place * (ROW_STEP // form.block)
        words = (vector * ir.LANES + lane for lane in range(ir.LANES))
        return tuple(first + word * form.per_word // form.block for word in words)
    if form.block > ROW_STEP:
        stretches = form.block // ROW_STEP
        value = ir.value(place) // stretches
        place = _bound_once(inside, "whole_block", value, form.blocks(k) - 1)
    return (place,) * ir.LANES


def _bound_once(inside: ir.Frame, name: str, value: ir.Expression, most: int) -> ir.Affine:
    return ir.variable(name) if name in inside.ranges else inside.let(name, value, most)


def _dots(
    kernel: _Kernel,
    operand: Weights,
    slots: range,
    row: ir.Affine,
    place: ir.Affine,
    block: ir.Affine,
    inside: ir.Frame,
    into: ir.Buffer,
    weight: ir.Buffer,
) -> ir.Block:
    """Σ (q - zero) · a of some slots of a stretch, lane by lane, for all rows of a."""
    product, form = kernel.product, operand.form
    words = ROW_STEP // form.per_word
    at = (row * (product.k // ROW_STEP) + place) * words
    zeros = _zero_points(kernel, operand, slots, row, place, inside)
    body: list[ir.Statement] = []
    for number_ in slots:
        slot = Slot(number=number_, width=form.width)
        held: ir.Expression = kernel.load(operand.words, at + slot.vector * WORDS_AT_ONCE, ir.LANES)
        if slot.shift:
            held = held >> slot.shift
        held = held & _words(slot.mask)
        held = held | _words((_EXPONENT_BIAS + MANTISSA) << MANTISSA)
        value = held.bitcast(DType.F32) - _centre(form, slot, zeros)
        body.append(weight.store(0, value))
        for m in range(product.m):
            index = kernel.sum_at(m)
            own = weight.vector(0) * _activations(kernel, m, number_, block)
            so_far = into.vector(index)
            value = so_far + own if number_ > slots.start else own
            body.append(into.store(index, value))
    return tuple(body)


def _words(value: int) -> ir.Const:
    return ir.Const(value=value, dtype=DType.I32, lanes=ir.LANES)


def _centre(form: Form, slot: Slot, zeros: tuple[ir.Expression, ...]) -> ir.Expression:
    """Returns what the mantissa has where a weight is its zero point, of which `zeros` has one a
    word."""
    one, power = float(1 << MANTISSA), float(1 << slot.power)
    if not zeros:
        return ir.numbers(one + power * form.middle)
    return _lanes(tuple(zero * ir.number(power) + ir.number(one) for zero in zeros))


def _lanes(values: tuple[ir.Expression, ...]) -> ir.Expression:
    return ir.splat(values[0]) if len(set(values)) == 1 else ir.Lanes(values=values)


def _added(
    kernel: _Kernel,
    operand: Weights,
    slots: range,
    which: tuple[int, int],
    row: ir.Affine,
    place: ir.Affine,
    inside: ir.Frame,
    dot: ir.Buffer,
) -> ir.Block:
    """The part of each sum that some slots of a stretch have: scale · Σ (q - zero) · a."""
    form, k = operand.form, kernel.product.k
    first = row * form.blocks(k)
    blocks = _own_blocks(form, k, _vector_of(form, slots), place, inside)
    scale = _lanes(tuple(kernel.load(operand.scales, first + each) for each in blocks))
    body = []
    for m in range(kernel.product.m):
        own = scale * dot.vector(kernel.sum_at(m))
        index = kernel.sum_at(kernel.sum_of(*which, m))
        so_far = kernel.sums.vector(index)
        body.append(kernel.sums.store(index, so_far + own))
    return tuple(body)


def _vector_of(form: Form, slots: range) -> int:
    return Slot(number=slots.start, width=form.width).vector


def _zero_points(
    kernel: _Kernel,
    operand: Weights,
    slots: range,
    row: ir.Affine,
    place: ir.Affine,
    inside: ir.Frame,
) -> tuple[ir.Expression, ...]:
    """The zero point of each word of a vector; () where weights have none."""
    if not operand.zeros:
        return ()
    form, k = operand.form, kernel.product.k
    first = row * form.zero_words(k)
    found = []
    for block in _own_blocks(form, k, _vector_of(form, slots), place, inside):
        value, count = ir.value(block), form.per_word
        # Two blocks of a stretch may have their zero points in different words.
        name = f"{block.constant or ''}"
        word = _bound_once(inside, f"zero_word{name}", value // count, form.zero_words(k) - 1)
        digit = _bound_once(inside, f"zero_digit{name}", value % count, count - 1)
        held = kernel.load(operand.zeros, first + word)
        shifted = held >> digit * form.width
        most = (1 << form.width) - 1
        found.append((shifted & most).cast(DType.F32))
    return tuple(found)


# Steps 4 and 5: sums over threads, the norm's factor, and the entries of the output.


def _totals(kernel: _Kernel) -> tuple[Reduced, Reduced]:
    """The sums of all rows, and the sums of squares of the rows of a."""
    sums = [ir.all_lanes(kernel.sums.vector(n)) for n in range(0, kernel.sums.size, ir.LANES)]
    squares = [kernel.squares[m] for m in range(kernel.product.m)]
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
        own=ir.ZERO,
        lane=kernel.thread,
        subgroups=kernel.config.subgroups,
    )
    return reduced(kernel.sharing, sums, "sums"), reduced(workgroup, squares, "squares")


def _stores(
    kernel: _Kernel, totals: Reduced, factors: Reduced, exist: list[tuple[ir.Bound, ...]]
) -> ir.Block:
    product = kernel.product
    output, shape = kernel.held[list(kernel.held)[-1]]
    first = kernel.frame.undecided((kernel.sharing.lane.below(1),))
    body: ir.Block = ()
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
            places = {i.name: ir.constant(m), j.name: kernel.rows[row]}
            value = entry_value(product.value, places, kernel.held, made)
            index = m * shape[-1] + kernel.rows[row]
            stores.append(output.store(index, value))
        body = (*body, *ir.under((*first, *bounds), tuple(stores)))
    return body


def _finished(
    norm: RowNorm | None, value: ir.Expression, factors: Reduced, m: int, k: int
) -> ir.Expression:
    if norm is None:
        return value
    mean = factors.values[m] * (1 / k)
    factor = ir.call(ir.MathFunction.RSQRT, mean + ir.number(norm.epsilon))
    return value * factor

"""Products of few rows with quantised weights for WebGPU: c[m, n] = f(Σ_k a[m, k] · weights[n, k]).

Shapes, named by the settings of `WebgpuQuantisedGemvConfig`; a block is 32 weights with one scale:

    dispatch    ⌈n / (row_tiles · tile_n)⌉ workgroups
    workgroup   row_tiles × threads_per_row threads; a row tile has tile_n rows of the weights
    thread      blocks lane, lane + threads_per_row, … of its tile's rows, for all m rows of a
    loop body   one block of each row: one vec4 of words of 4 bits a weight, two of 8 bits

    workgroup memory
      staged    [m][8 slots][blocks of block_k, padded] vec4 of a
      shared    sums of threads that share a row (base/row_threads.py)

Word j of a vec4 has weights of the block from j · W on, W of them. So bits e of all four words are
the weights e, W + e, 2W + e and 3W + e, and slot e of `staged` has the activations of these: a
block is eight (shift, mask, convert, multiply-add) of vec4. The zero point is taken away once for a
block, with the sum of its activations. What it makes of matmul_q4:f32:m1k64n4:

    for (var load …) staged[…] = vec4<f32>(a[i], a[i + 8u], a[i + 16u], a[i + 24u]);   // 2
    workgroupBarrier();
    for (var step = 0u; step < 1u; step++) {                                          // 3
      dot = vec4<f32>(((b[at] >> vec4<u32>(4u)) & vec4<i32>(15i))) * staged[…] + dot;  //   × 8
      sums_0 = fma(vec4<f32>(block_scales[…]), fma(all, vec4<f32>(-8.0f), dot), sums_0);
    }
    let whole = over_sums_shared0(vec4<f32>(sums_0.x + …, …), invocation, subgroup_lanes);  // 4
    if (lane < 1u) { c[row] = whole.x; }                                              // 5
"""

from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import BLOCK, WORD_BITS
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    f32_buffer,
    loop,
    number,
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
from services.tuner.schedules.quantised_gemv.webgpu_config import SLOTS, WebgpuQuantisedGemvConfig

WORDS_AT_ONCE = LANES


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
        sums=f32_buffer(
            "sums", LANES * len(product.weights) * config.tile_n * product.m, Scope.LOCAL
        ),
        squares=f32_buffer("squares", product.m, Scope.LOCAL),
    )
    zeros = tuple(
        Store(buffer=kernel.sums, index=Affine(constant=n), value=_vector(0.0))
        for n in range(0, kernel.sums.size, LANES)
    )

    # 2 and 3. Part by part of k: activations into workgroup memory, then their products.
    parts = product.k // config.block_k
    part = frame.variable("part", parts)
    after = (Barrier(),) if parts > 1 else ()
    body: Block = (*_staging(kernel, part), Barrier(), *_products(kernel, part), *after)
    body = (*zeros, *_no_squares(kernel), *serial("part", parts, body))
    # 4. Sums over the threads of a row, and over the whole workgroup for the norm.
    totals = _totals(kernel)
    factors = _factors(kernel)
    # 5. The first thread of each row tile stores its entries.
    body = (*body, *totals.body, *factors.body, *_stores(kernel, totals, factors, exist))

    local = (kernel.sums, *totals.local, *factors.local)
    for buffer in (*local, *((kernel.squares,) if product.norm else ())):
        body = (Allocate(buffer=buffer, body=body),)
    block: Block = (loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.enclose(body)),)
    for buffer in (kernel.staged, *totals.shared, *factors.shared):
        block = (Allocate(buffer=buffer, body=block),)
    return Program(parameters=parameters, body=loop("group", groups, LoopKind.RANGE, block))


def _vector(value: float) -> Const:
    return Const(value=value, dtype=DType.F32, lanes=LANES)


def _all_lanes(value: Expression) -> Expression:
    """The sum of the lanes of a vector."""
    x, y, z, w = (ExtractLane(value=value, lane=lane) for lane in range(LANES))
    return plus(plus(x, y), plus(z, w))


# Step 2: activations into workgroup memory, in the order in which words have their weights.


def _staging(kernel: _Kernel, part: Affine) -> Block:
    """Threads take vectors in turn, so that neighbours read neighbours."""
    config, per_word = kernel.config, WORD_BITS // kernel.product.weights[0].width
    blocks, vectors = config.block_k // BLOCK, BLOCK // (per_word * LANES)
    items = blocks * SLOTS
    inside = kernel.frame.nested()
    load = inside.variable("load", -(-items // config.threads))
    place = load.times(config.threads).plus(kernel.thread)
    exists = inside.undecided((Bound(index=place, limit=items),))
    block, vector, bit = inside.delinearize(
        inside.clamped("place", place, items, 1),
        (("block", blocks), ("vector", vectors), ("bit", per_word)),
    )
    first = total(
        part.times(config.block_k),
        block.times(BLOCK),
        vector.times(LANES * per_word),
        bit,
    )
    slot = vector.times(per_word).plus(bit).times(config.pitch).plus(block)
    body: Block = ()
    for m in range(kernel.product.m):
        body = (*body, *_staged_row(kernel, m, first, slot, per_word))
    return serial("load", -(-items // config.threads), inside.enclose(under(exists, body)))


def _staged_row(kernel: _Kernel, m: int, first: Affine, slot: Affine, per_word: int) -> Block:
    product = kernel.product
    row = Affine(constant=m * product.k).plus(first)
    places = [Affine(constant=lane * per_word) for lane in range(LANES)]
    entries: Expression = Lanes(
        values=tuple(kernel.load(product.a, row.plus(place)) for place in places)
    )
    squares: Block = ()
    if product.norm is not None:
        gamma = (kernel.load(product.norm.gamma, first.plus(place)) for place in places)
        held = Load(buffer=kernel.squares, index=Affine(constant=m))
        squared = plus(held, _all_lanes(times(entries, entries)))
        squares = (Store(buffer=kernel.squares, index=held.index, value=squared),)
        entries = times(entries, Lanes(values=tuple(gamma)))
    return (*squares, Store(buffer=kernel.staged, index=_slot(kernel, m, slot), value=entries))


def _slot(kernel: _Kernel, m: int, slot: Affine) -> Affine:
    return Affine(constant=m * SLOTS * kernel.config.pitch).plus(slot).times(LANES)


def _no_squares(kernel: _Kernel) -> Block:
    if kernel.product.norm is None:
        return ()
    return tuple(
        Store(buffer=kernel.squares, index=Affine(constant=m), value=number(0))
        for m in range(kernel.product.m)
    )


# Step 3: the products of one block of each row with the activations.


def _products(kernel: _Kernel, part: Affine) -> Block:
    config, product = kernel.config, kernel.product
    blocks = config.block_k // BLOCK
    steps = -(-blocks // config.threads_per_row)
    inside = kernel.frame.nested()
    step = inside.variable("step", steps)
    block = step.times(config.threads_per_row).plus(kernel.sharing.lane)
    exists = inside.undecided((Bound(index=block, limit=blocks),))
    block = inside.clamped("own_block", block, blocks, 1) if not exists else block
    place = part.times(blocks).plus(block)
    ones, halves = (
        f32_buffer("dot", LANES * product.m, Scope.LOCAL),
        f32_buffer("all", LANES * product.m, Scope.LOCAL),
    )
    weight = f32_buffer("weight", LANES, Scope.LOCAL)
    body: Block = _sums_of_activations(kernel, halves, block)
    for number_, operand in enumerate(product.weights):
        for row, at in enumerate(kernel.rows):
            index = at.plus(Affine(constant=operand.first_row))
            body = (
                *body,
                *_dots(kernel, operand, index, place, block, ones, weight),
                *_added(kernel, operand, (number_, row), index, place, inside, ones, halves),
            )
    for buffer in (ones, halves, weight):
        body = (Allocate(buffer=buffer, body=body),)
    return serial("step", steps, inside.enclose(under(exists, body)))


def _activations(kernel: _Kernel, m: int, slot: int, block: Affine) -> Load:
    place = Affine(constant=slot * kernel.config.pitch).plus(block)
    return Load(buffer=kernel.staged, index=_slot(kernel, m, place), lanes=LANES)


def _sums_of_activations(kernel: _Kernel, into: Buffer, block: Affine) -> Block:
    found = []
    for m in range(kernel.product.m):
        slots: list[Expression] = [_activations(kernel, m, slot, block) for slot in range(SLOTS)]
        while len(slots) > 1:
            slots = [plus(*pair) for pair in zip(slots[::2], slots[1::2], strict=True)]
        found.append(Store(buffer=into, index=kernel.sum_at(m), value=slots[0]))
    return tuple(found)


def _dots(
    kernel: _Kernel,
    operand: Weights,
    row: Affine,
    place: Affine,
    block: Affine,
    into: Buffer,
    weight: Buffer,
) -> Block:
    """Σ q · a of one block, lane by lane, for all rows of a."""
    product, per_word = kernel.product, WORD_BITS // operand.width
    words = BLOCK // per_word
    at = row.times(product.k // BLOCK).plus(place).times(words)
    mask = Const(value=(1 << operand.width) - 1, dtype=DType.I32, lanes=LANES)
    body: list[Statement] = []
    for slot in range(SLOTS):
        vector, bit = divmod(slot, per_word)
        held: Expression = kernel.load(
            operand.words, at.plus(Affine(constant=vector * WORDS_AT_ONCE)), LANES
        )
        if bit:
            held = binary(BinaryOp.SHIFT_RIGHT, held, whole(bit * operand.width))
        value = Cast(value=binary(BinaryOp.AND, held, mask), dtype=DType.F32)
        body.append(Store(buffer=weight, index=ZERO, value=value))
        for m in range(product.m):
            index = kernel.sum_at(m)
            own = times(
                Load(buffer=weight, index=ZERO, lanes=LANES), _activations(kernel, m, slot, block)
            )
            so_far = Load(buffer=into, index=index, lanes=LANES)
            body.append(Store(buffer=into, index=index, value=plus(so_far, own) if slot else own))
    return tuple(body)


def _added(
    kernel: _Kernel,
    operand: Weights,
    which: tuple[int, int],
    row: Affine,
    place: Affine,
    inside: Frame,
    dot: Buffer,
    ones: Buffer,
) -> Block:
    """The block's part of each sum: scale · (Σ q · a - zero · Σ a)."""
    product = kernel.product
    blocks = product.k // BLOCK
    scale = splat(kernel.load(operand.scales, row.times(blocks).plus(place)))
    zero: Expression = _vector(-float(1 << (operand.width - 1)))
    if operand.zeros:
        zero = splat(times(number(-1.0), _zero_point(kernel, operand, row, place, inside)))
    body = []
    for m in range(product.m):
        at = kernel.sum_at(m)
        centred = plus(
            Load(buffer=dot, index=at, lanes=LANES),
            times(Load(buffer=ones, index=at, lanes=LANES), zero),
        )
        index = kernel.sum_at(kernel.sum_of(*which, m))
        so_far = Load(buffer=kernel.sums, index=index, lanes=LANES)
        body.append(
            Store(buffer=kernel.sums, index=index, value=plus(so_far, times(scale, centred)))
        )
    return tuple(body)


def _zero_point(
    kernel: _Kernel, operand: Weights, row: Affine, place: Affine, inside: Frame
) -> Expression:
    """The zero point of a block: 4 bits, of which a word has eight."""
    per_word = WORD_BITS // 4
    words = -(-(kernel.product.k // BLOCK) // per_word)
    if "zero_word" in inside.ranges:
        word, digit = Affine.variable("zero_word"), Affine.variable("zero_digit")
    else:
        word = inside.let(
            "zero_word",
            binary(BinaryOp.FLOOR_DIV, IndexValue(index=place), whole(per_word)),
            words - 1,
        )
        digit = inside.let(
            "zero_digit",
            binary(BinaryOp.FLOOR_MOD, IndexValue(index=place), whole(per_word)),
            per_word - 1,
        )
    held = kernel.load(operand.zeros, row.times(words).plus(word))
    shifted = binary(BinaryOp.SHIFT_RIGHT, held, IndexValue(index=digit.times(4)))
    return Cast(value=binary(BinaryOp.AND, shifted, whole(15)), dtype=DType.F32)


# Steps 4 and 5: sums over threads, the norm's factor, and the entries of the output.


def _totals(kernel: _Kernel) -> Reduced:
    sums = [
        _all_lanes(Load(buffer=kernel.sums, index=Affine(constant=n), lanes=LANES))
        for n in range(0, kernel.sums.size, LANES)
    ]
    return reduced(kernel.sharing, sums, "sums")


def _factors(kernel: _Kernel) -> Reduced:
    """Sums of squares of the rows of a, which every thread of the workgroup has read a part of."""
    if kernel.product.norm is None:
        return Reduced(values=(), body=(), local=(), shared=())
    workgroup = RowThreads(
        threads=kernel.config.threads,
        rows=1,
        own=ZERO,
        lane=kernel.thread,
        subgroups=kernel.config.subgroups,
    )
    squares = [
        Load(buffer=kernel.squares, index=Affine(constant=m)) for m in range(kernel.product.m)
    ]
    return reduced(workgroup, squares, "squares")


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

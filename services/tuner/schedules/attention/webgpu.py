"""Attention of many rows for WebGPU: both products and the softmax in one pass over the keys.

Shapes, named by the settings of `WebgpuAttentionConfig`:

    dispatch    heads × ⌈m / block_m⌉ workgroups
    workgroup   block_m queries of one head, block_n keys at a time
    slice       of block_n / sliced_n keys of each block, by itself until the last block is done
    thread      scores [tile_m, tile_n], outputs [tile_m, width / threads_per_row] in registers

    workgroup memory (cache=rows)
      queries [block_m][head_dim], keys [block_n][head_dim], values [block_n][width]
      powers  [block_n][block_m]                    e to the scores, those of a key side by side

No score leaves the workgroup. The largest score so far of a row may grow with each block: what was
summed before is then made smaller by the same factor as all powers are (online softmax). The steps
are numbered as they follow one another below:

    for (block; block < ⌈n / block_n⌉; …) {
      dot[i][j] += query[i] · key[j]                                     // 2  tile_m × tile_n
      score = dot * scale + mask[…]; larger = max(most, all scores of the row)   // 3
      share = exp(most - larger); power = exp(score - larger); sum = sum * share + power
      acc[i] = acc[i] * share[i] + Σ power[key][i] * value[key]          // 4
    }
    total = Σ sum over the row's threads                                 // 5
    acc *= exp(most - that of all slices); total and acc of all slices   // 6  sliced_n > 1
    c[…] = acc / total
"""

from collections.abc import Iterator
from math import gcd

from kernelzoo.domain.candidate import Candidate
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    constant,
    loop,
    number,
    numbers,
    plus,
    serial,
    splat,
    times,
    under,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Expression,
    ExtractLane,
    Load,
    LoopKind,
    Program,
    Select,
    Statement,
    Store,
)
from services.tuner.ir.nodes import Lanes as Joined
from services.tuner.schedules.attention.config import attends
from services.tuner.schedules.attention.scores import LOWEST
from services.tuner.schedules.attention.webgpu_config import WebgpuAttentionConfig
from services.tuner.schedules.attention.webgpu_kernel import BLOCK, AttentionKernel, OperandRows
from services.tuner.schedules.base.cache import exp_of_difference
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.row_threads import Reduced, RowThreads, reduced
from services.tuner.schedules.base.scheduled import ScheduledProgram

UNROLLED_QUADS = 4
"""Vectors of a query and a key that one iteration of a loop multiplies, at most."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuAttentionConfig.of(candidate), candidate.workload
    parameters = parameters_of(workload)
    kernel = AttentionKernel.of(attends(workload), config, parameters)
    return ScheduledProgram(nests=(attended(kernel, parameters),))


def attended(kernel: AttentionKernel, parameters: tuple[Buffer, ...]) -> Program:
    """One dispatch, with the parameters of its program."""
    given, config = kernel.given, kernel.config
    most = _shared_among_threads(kernel, BinaryOp.MAX)
    sums = _shared_among_threads(kernel, BinaryOp.ADD)
    copies, last = kernel.copies, kernel.blocks - 1
    keys, values = ((kernel.keys, kernel.next_keys), (kernel.values, kernel.next_values))
    steps: Block = (
        *((*_written(kernel, *keys), Barrier()) if copies else ()),
        *(_read(kernel, *values, kernel.block, last) if copies else ()),
        *_scores(kernel),
        *_powers(kernel, most),
        *(_written(kernel, *values) if copies else ()),
        *_barrier(copies or config.shares_rows),
        *(_next_keys(kernel) if copies else ()),
        *_mixed(kernel),
        # Powers are written anew in the next block.
        *_barrier(config.shares_rows and not copies),
    )
    body: Block = (
        *((*_queries(kernel), *_read(kernel, *keys, kernel.block_at(ZERO), 0)) if copies else ()),
        *_nothing_yet(kernel),
        *serial("block", kernel.blocks, under(kernel.last_block, steps)),
        *sums.body,
        *_outputs(kernel, sums),
    )
    for buffer in (*kernel.local, *most.local, *sums.local):
        body = (Allocate(buffer=buffer, body=body),)
    block: Block = (
        loop("thread", config.threads, LoopKind.THREAD_INDEX, kernel.frame.enclose(body)),
    )
    for buffer in (*kernel.shared, *most.shared, *sums.shared):
        block = (Allocate(buffer=buffer, body=block),)
    workgroups = given.heads * -(-given.m // config.block_m) * config.parts
    return Program(parameters=parameters, body=loop("group", workgroups, LoopKind.RANGE, block))


def _barrier(needed: bool) -> Block:
    return (Barrier(),) if needed else ()


def _held(buffer: Buffer, index: int = 0, lanes: int = 1) -> Load:
    return Load(buffer=buffer, index=constant(index), lanes=lanes)


def _kept(buffer: Buffer, index: int, value: Expression) -> Store:
    return Store(buffer=buffer, index=constant(index), value=value)


def _shared_among_threads(kernel: AttentionKernel, op: BinaryOp) -> Reduced:
    """The largest of a row's scores, so far and in this block; or the sums of its powers."""
    config = kernel.config
    sharing = RowThreads(
        threads=config.threads_per_row,
        rows=config.sliced_n * config.thread_rows,
        own=kernel.slice.times(config.thread_rows).plus(kernel.group),
        lane=kernel.lane,
        subgroups=config.subgroups,
    )
    if op is BinaryOp.ADD:
        sums = [_held(kernel.sum, i) for i in range(config.tile_m)]
        return reduced(sharing, sums, "row_total")
    values: list[Expression] = []
    for i in range(config.tile_m):
        value: Expression = _held(kernel.most, i)
        for j in range(config.tile_n):
            value = binary(op, value, _held(kernel.dot, i * config.tile_n + j))
        values.append(value)
    return reduced(sharing, values, "row_most", op)


# Step 1: rows go to workgroup memory, keys and values by way of registers: the next ones are on
# their way while those of this block are multiplied.


def _queries(kernel: AttentionKernel) -> Block:
    given, queries = kernel.given, kernel.queries
    found: Block = ()
    for place in queries.places:
        row = kernel.first.plus(place.row)
        source = kernel.frame.clamped(f"queries{place.slot}.at", row, given.m, 1)
        value = kernel.stored(queries, source, place.quad)
        index = queries.index(place.row, place.quad)
        found += under(place.exists, (Store(buffer=kernel.staged, index=index, value=value),))
    return found


def _read(
    kernel: AttentionKernel, rows: OperandRows, into: Buffer, block: Affine, last: int
) -> Block:
    """The thread's share of rows of a block, into registers. `last` is the largest that the
    variable of the block may be."""
    inside = kernel.frame.nested()
    inside.ranges["block"] = (0, last)
    body: Block = ()
    for place in rows.places:
        row = block.times(rows.count).plus(place.row)
        source = inside.clamped(f"{rows.name}{place.slot}.at", row, rows.extent, 1)
        value = kernel.stored(rows, source, place.quad)
        body += under(place.exists, (_kept(into, place.slot, value),))
    return inside.enclose(body)


def _written(kernel: AttentionKernel, rows: OperandRows, registers: Buffer) -> Block:
    """The same, from registers to workgroup memory."""
    found: Block = ()
    for place in rows.places:
        index, value = rows.index(place.row, place.quad), _held(registers, place.slot, LANES)
        found += under(place.exists, (Store(buffer=kernel.staged, index=index, value=value),))
    return found


def _next_keys(kernel: AttentionKernel) -> Block:
    if kernel.blocks == 1:
        return ()
    another = (Bound(index=BLOCK, limit=kernel.blocks - 1),)
    following = kernel.block.plus(constant(1))
    read = _read(kernel, kernel.keys, kernel.next_keys, following, kernel.blocks - 2)
    return under(another, read)


# Step 2: the products of the thread's queries and keys.


def _nothing_yet(kernel: AttentionKernel) -> Block:
    config = kernel.config
    zero = numbers(0)
    return (
        *(_kept(kernel.most, i, number(LOWEST)) for i in range(config.tile_m)),
        *(_kept(kernel.sum, i, number(0)) for i in range(config.tile_m)),
        *(_kept(kernel.acc, at, zero) for at in range(0, kernel.acc.size, LANES)),
    )


def _scores(kernel: AttentionKernel) -> Block:
    given, config = kernel.given, kernel.config
    inside = kernel.frame.nested()
    inside.variable("block", kernel.blocks)
    columns = [
        inside.clamped(f"column{j}", kernel.column(j), given.n, 1) for j in range(config.tile_n)
    ]
    quads = given.head_dim // LANES
    unroll = gcd(UNROLLED_QUADS, quads)
    body: list[Statement] = []
    for n in range(unroll):
        quad = Affine.of(n, {"step": unroll})
        for i, row in enumerate(kernel.rows):
            query = (
                kernel.copied(kernel.queries, kernel.row(i), quad)
                if kernel.copies
                else kernel.stored(kernel.queries, row, quad)
            )
            body.append(_kept(kernel.own_query, LANES * i, query))
        for j, column in enumerate(columns):
            key = (
                kernel.copied(kernel.keys, kernel.own_column(j), quad)
                if kernel.copies
                else kernel.stored(kernel.keys, column, quad)
            )
            body.append(_kept(kernel.own_key, 0, key))
            for i in range(config.tile_m):
                at = i * config.tile_n + j
                body.append(_kept(kernel.dot, at, _multiplied(kernel, i, _held(kernel.dot, at))))
    scores = (
        _kept(
            kernel.dot,
            at := i * config.tile_n + j,
            kernel.score(_held(kernel.dot, at), i, j, columns[j]),
        )
        for i, j in kernel.tile
    )
    return inside.enclose(
        (
            *(_kept(kernel.dot, at, number(0)) for at in range(kernel.dot.size)),
            *serial("step", quads // unroll, tuple(body)),
            *(scores if given.epilogue or kernel.cache else ()),
        )
    )


def _multiplied(kernel: AttentionKernel, i: int, value: Expression) -> Expression:
    """`value` and the products of four entries of query i and the key."""
    query, key = _held(kernel.own_query, LANES * i, LANES), _held(kernel.own_key, 0, LANES)
    for lane in range(LANES):
        left, right = (ExtractLane(value=each, lane=lane) for each in (query, key))
        value = plus(value, times(left, right))
    return value


# Step 3: e to the scores, below the largest that the row has had.


def _powers(kernel: AttentionKernel, most: Reduced) -> Block:
    config = kernel.config
    body: list[Statement] = [*most.body]
    for i, found in enumerate(most.values):
        body += [
            _kept(kernel.larger, i, found),
            _kept(
                kernel.share,
                i,
                exp_of_difference(_held(kernel.most, i), _held(kernel.larger, i)),
            ),
            _kept(kernel.most, i, _held(kernel.larger, i)),
            _kept(kernel.sum, i, times(_held(kernel.sum, i), _held(kernel.share, i))),
        ]
    for i, j in kernel.tile:
        at = i * config.tile_n + j
        power = exp_of_difference(_held(kernel.dot, at), _held(kernel.most, i))
        seen = kernel.seen(i, kernel.column(j))
        if seen is not None:
            # Behind the last key its score was taken again, which leaves the largest as it is.
            power = Select(condition=seen, then=power, otherwise=number(0))
        body += [
            _kept(kernel.dot, at, power),
            _kept(kernel.sum, i, plus(_held(kernel.sum, i), _held(kernel.dot, at))),
        ]
    if config.shares_rows:
        for j in range(config.tile_n):
            for i in range(0, config.tile_m, LANES):
                four = tuple(_held(kernel.dot, (i + n) * config.tile_n + j) for n in range(LANES))
                place = kernel.own_column(j).times(config.power_stride).plus(kernel.row(i))
                body.append(Store(buffer=kernel.powers, index=place, value=Joined(values=four)))
    return tuple(body)


# Step 4: values, mixed.


def _mixed(kernel: AttentionKernel) -> Block:
    config = kernel.config
    shares = (
        _kept(
            kernel.acc,
            at := LANES * (i * len(kernel.outputs) + c),
            times(_held(kernel.acc, at, LANES), splat(_held(kernel.share, i))),
        )
        for i in range(config.tile_m)
        for c in kernel.outputs
    )
    # Powers that no other thread has are in registers, which have no computed index.
    unroll = gcd(UNROLLED_QUADS, config.slice_n) if config.shares_rows else config.slice_n
    inside = kernel.frame.nested()
    inside.variable("block", kernel.blocks)
    steps = config.slice_n // unroll
    inside.variable("step", steps)
    body = tuple(
        statement for n in range(unroll) for statement in _key_mixed(kernel, inside, n, unroll)
    )
    return (*shares, *serial("step", steps, inside.enclose(body)))


def _key_mixed(kernel: AttentionKernel, inside: Frame, n: int, unroll: int) -> Iterator[Statement]:
    """Adds the values of key n of a step."""
    given, config = kernel.given, kernel.config
    place = kernel.key(Affine.of(n, {"step": unroll}))
    source = kernel.block.times(config.block_n).plus(place)
    if not kernel.copies:
        source = inside.clamped(f"source{n}", source, given.n, 1)
    for c in kernel.outputs:
        quad = kernel.quads[c]
        value = (
            kernel.copied(kernel.values, place, quad)
            if kernel.copies
            else kernel.stored(kernel.values, source, quad)
        )
        yield _kept(kernel.own_value, LANES * c, value)
    for i in range(config.tile_m):
        if config.shares_rows and not i % LANES:
            index = place.times(config.power_stride).plus(kernel.row(i))
            four = Load(buffer=kernel.powers, index=index, lanes=LANES)
            yield _kept(kernel.own_power, i, four)
        power: Expression = _held(kernel.dot, i * config.tile_n + n)
        if config.shares_rows:
            four = _held(kernel.own_power, i - i % LANES, LANES)
            power = ExtractLane(value=four, lane=i % LANES)
        for c in kernel.outputs:
            at = LANES * (i * len(kernel.outputs) + c)
            product = times(splat(power), _held(kernel.own_value, LANES * c, LANES))
            yield _kept(kernel.acc, at, plus(_held(kernel.acc, at, LANES), product))


# Steps 5 and 6: the sums of a row's threads, then the outputs of all slices.


def _outputs(kernel: AttentionKernel, sums: Reduced) -> Block:
    config = kernel.config
    if config.sliced_n > 1:
        return _added_up(kernel, sums)
    found: Block = ()
    for i in range(config.tile_m):
        for c in kernel.outputs:
            acc = _held(kernel.acc, LANES * (i * len(kernel.outputs) + c), LANES)
            quotient = acc if kernel.parts else binary(BinaryOp.DIV, acc, splat(sums.values[i]))
            value = kernel.output(kernel.row(i), kernel.quads[c], quotient)
            found += under(kernel.exists(c), value)
        found += kernel.told(i, _held(kernel.most, i), sums.values[i])
    return found


def _added_up(kernel: AttentionKernel, sums: Reduced) -> Block:
    """A slice brings its outputs to the largest score and the sum of all slices before."""
    given, config = kernel.given, kernel.config
    block_m, slices, quads = config.block_m, config.sliced_n, given.width // LANES
    told: list[Statement] = []
    for i in range(config.tile_m):
        place = kernel.slice.times(block_m).plus(kernel.row(i))
        of_sums = place.plus(constant(slices * block_m))
        told += [
            Store(buffer=kernel.slices, index=place, value=_held(kernel.most, i)),
            Store(buffer=kernel.slices, index=of_sums, value=sums.values[i]),
        ]
    body: list[Statement] = [
        *under(kernel.frame.undecided((Bound(index=kernel.lane, limit=1),)), tuple(told)),
        Barrier(),
    ]
    for i in range(config.tile_m):
        places = [kernel.row(i).plus(constant(n * block_m)) for n in range(2 * slices)]
        told_of = [Load(buffer=kernel.slices, index=place) for place in places]
        larger: Expression = told_of[0]
        for each in told_of[1:slices]:
            larger = binary(BinaryOp.MAX, larger, each)
        body.append(_kept(kernel.larger, i, larger))
        summed: Expression = number(0)
        for most, sum_ in zip(told_of[:slices], told_of[slices:], strict=True):
            summed = plus(summed, times(sum_, exp_of_difference(most, _held(kernel.larger, i))))
        share = exp_of_difference(_held(kernel.most, i), _held(kernel.larger, i))
        whole = share if kernel.parts else binary(BinaryOp.DIV, share, summed)
        body.append(_kept(kernel.share, i, whole))
        body += kernel.told(i, _held(kernel.larger, i), summed)
        for c in kernel.outputs:
            acc = _held(kernel.acc, LANES * (i * len(kernel.outputs) + c), LANES)
            row = kernel.slice.times(block_m).plus(kernel.row(i)).times(given.width)
            index = row.plus(kernel.quads[c].times(LANES))
            value = times(acc, splat(_held(kernel.share, i)))
            store = Store(buffer=kernel.staged, index=index, value=value)
            body += under(kernel.exists(c), (store,))
    body.append(Barrier())
    items = block_m * quads
    for count in range(-(-items // config.threads)):
        place = kernel.thread.plus(constant(count * config.threads))
        exists = kernel.frame.undecided((Bound(index=place, limit=items),))
        parts = ((f"added{count}.row", block_m), (f"added{count}.quad", quads))
        row, quad = kernel.frame.delinearize(place, parts)
        output: Expression | None = None
        for n in range(slices):
            at = row.plus(constant(n * block_m)).times(given.width).plus(quad.times(LANES))
            each = Load(buffer=kernel.staged, index=at, lanes=LANES)
            output = plus(output, each) if output else each
        assert output is not None
        body += under(exists, kernel.output(row, quad, output))
    return tuple(body)

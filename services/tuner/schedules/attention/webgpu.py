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
from services.tuner import ir
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


def attended(kernel: AttentionKernel, parameters: tuple[ir.Buffer, ...]) -> ir.Program:
    """One dispatch, with the parameters of its program."""
    given, config = kernel.given, kernel.config
    most = _shared_among_threads(kernel, ir.BinaryOp.MAX)
    sums = _shared_among_threads(kernel, ir.BinaryOp.ADD)
    copies, last = kernel.copies, kernel.blocks - 1
    keys, values = ((kernel.keys, kernel.next_keys), (kernel.values, kernel.next_values))
    steps: ir.Block = (
        *((*_written(kernel, *keys), ir.Barrier()) if copies else ()),
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
    body: ir.Block = (
        *(
            (*_queries(kernel), *_read(kernel, *keys, kernel.block_at(ir.ZERO), 0))
            if copies
            else ()
        ),
        *_nothing_yet(kernel),
        *ir.serial("block", kernel.blocks, ir.under(kernel.last_block, steps)),
        *sums.body,
        *_outputs(kernel, sums),
    )
    body = ir.allocated((*kernel.local, *most.local, *sums.local), body)
    block: ir.Block = (ir.threads(config.threads, kernel.frame.enclose(body)),)
    block = ir.allocated((*kernel.shared, *most.shared, *sums.shared), block)
    workgroups = given.heads * -(-given.m // config.block_m) * config.parts
    return ir.program(parameters, "group", workgroups, block)


def _barrier(needed: bool) -> ir.Block:
    return (ir.Barrier(),) if needed else ()


def _held(buffer: ir.Buffer, index: int = 0, lanes: int = 1) -> ir.Load:
    return ir.Load(buffer=buffer, index=ir.constant(index), lanes=lanes)


def _kept(buffer: ir.Buffer, index: int, value: ir.Expression) -> ir.Store:
    return buffer.store(index, value)


def _shared_among_threads(kernel: AttentionKernel, op: ir.BinaryOp) -> Reduced:
    """The largest of a row's scores, so far and in this block; or the sums of its powers."""
    config = kernel.config
    sharing = RowThreads(
        threads=config.threads_per_row,
        rows=config.sliced_n * config.thread_rows,
        own=kernel.slice * config.thread_rows + kernel.group,
        lane=kernel.lane,
        subgroups=config.subgroups,
    )
    if op is ir.BinaryOp.ADD:
        sums = [_held(kernel.sum, i) for i in range(config.tile_m)]
        return reduced(sharing, sums, "row_total")
    values: list[ir.Expression] = []
    for i in range(config.tile_m):
        value: ir.Expression = _held(kernel.most, i)
        for j in range(config.tile_n):
            value = ir.Binary(op=op, left=value, right=_held(kernel.dot, i * config.tile_n + j))
        values.append(value)
    return reduced(sharing, values, "row_most", op)


# Step 1: rows go to workgroup memory, keys and values by way of registers: the next ones are on
# their way while those of this block are multiplied.


def _queries(kernel: AttentionKernel) -> ir.Block:
    given, queries = kernel.given, kernel.queries
    found: ir.Block = ()
    for place in queries.places:
        row = kernel.first + place.row
        source = kernel.frame.clamped(f"queries{place.slot}.at", row, given.m, 1)
        value = kernel.stored(queries, source, place.quad)
        index = queries.index(place.row, place.quad)
        found += ir.under(place.exists, (kernel.staged.store(index, value),))
    return found


def _read(
    kernel: AttentionKernel, rows: OperandRows, into: ir.Buffer, block: ir.Affine, last: int
) -> ir.Block:
    """The thread's share of rows of a block, into registers. `last` is the largest that the
    variable of the block may be."""
    inside = kernel.frame.nested()
    inside.ranges["block"] = (0, last)
    body: ir.Block = ()
    for place in rows.places:
        row = block * rows.count + place.row
        source = inside.clamped(f"{rows.name}{place.slot}.at", row, rows.extent, 1)
        value = kernel.stored(rows, source, place.quad)
        body += ir.under(place.exists, (_kept(into, place.slot, value),))
    return inside.enclose(body)


def _written(kernel: AttentionKernel, rows: OperandRows, registers: ir.Buffer) -> ir.Block:
    """Writes the rows from registers to workgroup memory."""
    found: ir.Block = ()
    for place in rows.places:
        index, value = rows.index(place.row, place.quad), _held(registers, place.slot, ir.LANES)
        found += ir.under(place.exists, (kernel.staged.store(index, value),))
    return found


def _next_keys(kernel: AttentionKernel) -> ir.Block:
    if kernel.blocks == 1:
        return ()
    another = (BLOCK.below(kernel.blocks - 1),)
    following = kernel.block + 1
    read = _read(kernel, kernel.keys, kernel.next_keys, following, kernel.blocks - 2)
    return ir.under(another, read)


# Step 2: the products of the thread's queries and keys.


def _nothing_yet(kernel: AttentionKernel) -> ir.Block:
    config = kernel.config
    zero = ir.numbers(0)
    return (
        *(_kept(kernel.most, i, ir.number(LOWEST)) for i in range(config.tile_m)),
        *(_kept(kernel.sum, i, ir.number(0)) for i in range(config.tile_m)),
        *(_kept(kernel.acc, at, zero) for at in range(0, kernel.acc.size, ir.LANES)),
    )


def _scores(kernel: AttentionKernel) -> ir.Block:
    given, config = kernel.given, kernel.config
    inside = kernel.frame.nested()
    inside.variable("block", kernel.blocks)
    columns = [
        inside.clamped(f"column{j}", kernel.column(j), given.n, 1) for j in range(config.tile_n)
    ]
    quads = given.head_dim // ir.LANES
    unroll = gcd(UNROLLED_QUADS, quads)
    body: list[ir.Statement] = []
    for n in range(unroll):
        quad = ir.affine(n, step=unroll)
        for i, row in enumerate(kernel.rows):
            query = (
                kernel.copied(kernel.queries, kernel.row(i), quad)
                if kernel.copies
                else kernel.stored(kernel.queries, row, quad)
            )
            body.append(_kept(kernel.own_query, ir.LANES * i, query))
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
            *(_kept(kernel.dot, at, ir.number(0)) for at in range(kernel.dot.size)),
            *ir.serial("step", quads // unroll, tuple(body)),
            *(scores if given.epilogue or kernel.cache else ()),
        )
    )


def _multiplied(kernel: AttentionKernel, i: int, value: ir.Expression) -> ir.Expression:
    """`value` and the products of four entries of query i and the key."""
    query, key = _held(kernel.own_query, ir.LANES * i, ir.LANES), _held(kernel.own_key, 0, ir.LANES)
    for lane in range(ir.LANES):
        left, right = (each.extract(lane) for each in (query, key))
        value = value + left * right
    return value


# Step 3: e to the scores, below the largest that the row has had.


def _powers(kernel: AttentionKernel, most: Reduced) -> ir.Block:
    config = kernel.config
    body: list[ir.Statement] = [*most.body]
    for i, found in enumerate(most.values):
        body += [
            _kept(kernel.larger, i, found),
            _kept(
                kernel.share, i, exp_of_difference(_held(kernel.most, i), _held(kernel.larger, i))
            ),
            _kept(kernel.most, i, _held(kernel.larger, i)),
            _kept(kernel.sum, i, _held(kernel.sum, i) * _held(kernel.share, i)),
        ]
    for i, j in kernel.tile:
        at = i * config.tile_n + j
        power = exp_of_difference(_held(kernel.dot, at), _held(kernel.most, i))
        seen = kernel.seen(i, kernel.column(j))
        if seen is not None:
            # Behind the last key its score was taken again, which leaves the largest as it is.
            power = ir.select(seen, power, ir.number(0))
        body += [
            _kept(kernel.dot, at, power),
            _kept(kernel.sum, i, _held(kernel.sum, i) + _held(kernel.dot, at)),
        ]
    if config.shares_rows:
        for j in range(config.tile_n):
            for i in range(0, config.tile_m, ir.LANES):
                four = tuple(
                    _held(kernel.dot, (i + n) * config.tile_n + j) for n in range(ir.LANES)
                )
                place = kernel.own_column(j) * config.power_stride + kernel.row(i)
                body.append(kernel.powers.store(place, ir.Lanes(values=four)))
    return tuple(body)


# Step 4: values, mixed.


def _mixed(kernel: AttentionKernel) -> ir.Block:
    config = kernel.config
    shares = (
        _kept(
            kernel.acc,
            at := ir.LANES * (i * len(kernel.outputs) + c),
            _held(kernel.acc, at, ir.LANES) * ir.splat(_held(kernel.share, i)),
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
    return (*shares, *ir.serial("step", steps, inside.enclose(body)))


def _key_mixed(
    kernel: AttentionKernel, inside: ir.Frame, n: int, unroll: int
) -> Iterator[ir.Statement]:
    """Adds the values of key n of a step."""
    given, config = kernel.given, kernel.config
    place = kernel.key(ir.affine(n, step=unroll))
    source = kernel.block * config.block_n + place
    if not kernel.copies:
        source = inside.clamped(f"source{n}", source, given.n, 1)
    for c in kernel.outputs:
        quad = kernel.quads[c]
        value = (
            kernel.copied(kernel.values, place, quad)
            if kernel.copies
            else kernel.stored(kernel.values, source, quad)
        )
        yield _kept(kernel.own_value, ir.LANES * c, value)
    for i in range(config.tile_m):
        if config.shares_rows and not i % ir.LANES:
            index = place * config.power_stride + kernel.row(i)
            four = kernel.powers.vector(index)
            yield _kept(kernel.own_power, i, four)
        power: ir.Expression = _held(kernel.dot, i * config.tile_n + n)
        if config.shares_rows:
            four = _held(kernel.own_power, i - i % ir.LANES, ir.LANES)
            power = four.extract(i % ir.LANES)
        for c in kernel.outputs:
            at = ir.LANES * (i * len(kernel.outputs) + c)
            product = ir.splat(power) * _held(kernel.own_value, ir.LANES * c, ir.LANES)
            yield _kept(kernel.acc, at, _held(kernel.acc, at, ir.LANES) + product)


# Steps 5 and 6: the sums of a row's threads, then the outputs of all slices.


def _outputs(kernel: AttentionKernel, sums: Reduced) -> ir.Block:
    config = kernel.config
    if config.sliced_n > 1:
        return _added_up(kernel, sums)
    found: ir.Block = ()
    for i in range(config.tile_m):
        for c in kernel.outputs:
            acc = _held(kernel.acc, ir.LANES * (i * len(kernel.outputs) + c), ir.LANES)
            quotient = acc if kernel.parts else acc / ir.splat(sums.values[i])
            value = kernel.output(kernel.row(i), kernel.quads[c], quotient)
            found += ir.under(kernel.exists(c), value)
        found += kernel.told(i, _held(kernel.most, i), sums.values[i])
    return found


def _added_up(kernel: AttentionKernel, sums: Reduced) -> ir.Block:
    """A slice brings its outputs to the largest score and the sum of all slices before."""
    given, config = kernel.given, kernel.config
    block_m, slices, quads = config.block_m, config.sliced_n, given.width // ir.LANES
    told: list[ir.Statement] = []
    for i in range(config.tile_m):
        place = kernel.slice * block_m + kernel.row(i)
        of_sums = place + slices * block_m
        told += [
            kernel.slices.store(place, _held(kernel.most, i)),
            kernel.slices.store(of_sums, sums.values[i]),
        ]
    body: list[ir.Statement] = [
        *ir.under(kernel.frame.undecided((kernel.lane.below(1),)), tuple(told)),
        ir.Barrier(),
    ]
    for i in range(config.tile_m):
        places = [kernel.row(i) + n * block_m for n in range(2 * slices)]
        told_of = [kernel.slices[place] for place in places]
        larger: ir.Expression = told_of[0]
        for each in told_of[1:slices]:
            larger = larger.max(each)
        body.append(_kept(kernel.larger, i, larger))
        summed: ir.Expression = ir.number(0)
        for most, sum_ in zip(told_of[:slices], told_of[slices:], strict=True):
            summed = summed + sum_ * exp_of_difference(most, _held(kernel.larger, i))
        share = exp_of_difference(_held(kernel.most, i), _held(kernel.larger, i))
        whole = share if kernel.parts else share / summed
        body.append(_kept(kernel.share, i, whole))
        body += kernel.told(i, _held(kernel.larger, i), summed)
        for c in kernel.outputs:
            acc = _held(kernel.acc, ir.LANES * (i * len(kernel.outputs) + c), ir.LANES)
            row = (kernel.slice * block_m + kernel.row(i)) * given.width
            index = row + kernel.quads[c] * ir.LANES
            value = acc * ir.splat(_held(kernel.share, i))
            store = kernel.staged.store(index, value)
            body += ir.under(kernel.exists(c), (store,))
    body.append(ir.Barrier())
    items = block_m * quads
    for count in range(-(-items // config.threads)):
        place = kernel.thread + count * config.threads
        exists = kernel.frame.undecided((place.below(items),))
        parts = ((f"added{count}.row", block_m), (f"added{count}.quad", quads))
        row, quad = kernel.frame.delinearize(place, parts)
        output: ir.Expression | None = None
        for n in range(slices):
            at = (row + n * block_m) * given.width + quad * ir.LANES
            each = kernel.staged.vector(at)
            output = output + each if output else each
        assert output is not None
        body += ir.under(exists, kernel.output(row, quad, output))
    return tuple(body)

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
from functools import reduce
from math import gcd
from operator import add

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
    kernel = AttentionKernel(attends(workload), config, parameters)
    return ScheduledProgram(nests=(attended(kernel, parameters),))


def attended(kernel: AttentionKernel, parameters: tuple[ir.Buffer, ...]) -> ir.Program:
    """One dispatch, with the parameters of its program."""
    config, copies, last = kernel.config, kernel.copies, kernel.blocks - 1
    most, sums = _largest(kernel), _summed(kernel)
    keys, values = kernel.keys, kernel.values
    steps: ir.Block = (
        *((*_written(kernel, keys), ir.Barrier()) if copies else ()),
        *(_read(kernel, values, kernel.block, last) if copies else ()),
        *_scores(kernel),
        *_powers(kernel, most),
        *(_written(kernel, values) if copies else ()),
        *_barrier(copies or config.shares_rows),
        *(_next_keys(kernel) if copies else ()),
        *_mixed(kernel),
        # Powers are written anew in the next block.
        *_barrier(config.shares_rows and not copies),
    )
    first = kernel.block_at(ir.ZERO)
    body: ir.Block = (
        *((*_queries(kernel), *_read(kernel, keys, first, 0)) if copies else ()),
        *kernel.most.fill(LOWEST),
        *kernel.sum.fill(0),
        *kernel.acc.fill(0),
        *ir.serial("block", kernel.blocks, ir.under(kernel.last_block, steps)),
        *sums.body,
        *_outputs(kernel, sums),
    )
    return kernel.frame.dispatch(
        parameters,
        (kernel.workgroups, config.threads),
        body,
        local=(*kernel.local, *most.local, *sums.local),
        shared=(*kernel.shared, *most.shared, *sums.shared),
    )


def _barrier(needed: bool) -> ir.Block:
    return (ir.Barrier(),) if needed else ()


def _sharing(kernel: AttentionKernel) -> RowThreads:
    config = kernel.config
    return RowThreads(
        threads=config.threads_per_row,
        rows=config.sliced_n * config.thread_rows,
        own=kernel.slice * config.thread_rows + kernel.group,
        lane=kernel.lane,
        subgroups=config.subgroups,
    )


def _largest(kernel: AttentionKernel) -> Reduced:
    """The largest of a row's scores, so far and in this block."""
    values: list[ir.Expression] = []
    for i in range(kernel.config.tile_m):
        value: ir.Expression = kernel.most[i]
        for j in range(kernel.config.tile_n):
            value = value.max(kernel.dot[i, j])
        values.append(value)
    return reduced(_sharing(kernel), values, "row_most", ir.BinaryOp.MAX)


def _summed(kernel: AttentionKernel) -> Reduced:
    """The sum of a row's powers."""
    sums = [kernel.sum[i] for i in range(kernel.config.tile_m)]
    return reduced(_sharing(kernel), sums, "row_total")


# Step 1: rows go to workgroup memory, keys and values by way of registers: the next ones are on
# their way while those of this block are multiplied.


def _queries(kernel: AttentionKernel) -> ir.Block:
    queries = kernel.queries
    body: list[ir.Statement] = []
    for place in queries.places:
        row, name = kernel.first + place.row, f"queries{ir.LANES * place.turn}.at"
        source = kernel.frame.clamped(name, row, kernel.given.m, 1)
        query = kernel.stored(queries, source, place.quad)
        index = queries.index(place.row, place.quad)
        body += ir.under(place.exists, (kernel.staged.store(index, query),))
    return tuple(body)


def _read(kernel: AttentionKernel, rows: OperandRows, block: ir.Affine, last: int) -> ir.Block:
    """The thread's share of rows of a block, into registers. `last` is the largest that the
    variable of the block may be."""
    inside = kernel.frame.nested()
    body: list[ir.Statement] = []
    inside.ranges["block"] = (0, last)
    for place in rows.places:
        row, name = block * rows.count + place.row, f"{rows.name}{ir.LANES * place.turn}.at"
        source = inside.clamped(name, row, rows.extent, 1)
        value = kernel.stored(rows, source, place.quad)
        body += ir.under(place.exists, (rows.registers.store(place.turn, value),))
    return inside.enclose(tuple(body))


def _written(kernel: AttentionKernel, rows: OperandRows) -> ir.Block:
    """Writes the rows from registers to workgroup memory."""
    body: list[ir.Statement] = []
    for place in rows.places:
        index = rows.index(place.row, place.quad)
        store = kernel.staged.store(index, rows.registers[place.turn])
        body += ir.under(place.exists, (store,))
    return tuple(body)


def _next_keys(kernel: AttentionKernel) -> ir.Block:
    if kernel.blocks == 1:
        return ()
    read = _read(kernel, kernel.keys, kernel.block + 1, kernel.blocks - 2)
    return ir.under((BLOCK.below(kernel.blocks - 1),), read)


# Step 2: the products of the thread's queries and keys.


def _scores(kernel: AttentionKernel) -> ir.Block:
    given, config, dot = kernel.given, kernel.config, kernel.dot
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
            query = kernel.read(kernel.queries, kernel.row(i), row, quad)
            body.append(kernel.own_query.store(i, query))
        for j, column in enumerate(columns):
            key = kernel.read(kernel.keys, kernel.own_column(j), column, quad)
            body.append(kernel.own_key.store(0, key))
            for i in range(config.tile_m):
                value: ir.Expression = dot[i, j]
                for lane in range(ir.LANES):
                    left, right = kernel.own_query[i], kernel.own_key[0]
                    value = value + left.extract(lane) * right.extract(lane)
                body.append(dot.store((i, j), value))
    scores = (dot.store((i, j), kernel.score(dot[i, j], i, j, columns[j])) for i, j in kernel.tile)
    return inside.enclose(
        (
            *dot.fill(0),
            *ir.serial("step", quads // unroll, tuple(body)),
            *(scores if given.epilogue or kernel.cache else ()),
        )
    )


# Step 3: e to the scores, below the largest that the row has had.


def _powers(kernel: AttentionKernel, most: Reduced) -> ir.Block:
    config, dot = kernel.config, kernel.dot
    body: list[ir.Statement] = [*most.body]
    for i, largest in enumerate(most.values):
        body += [
            kernel.larger.store(i, largest),
            kernel.share.store(i, exp_of_difference(kernel.most[i], kernel.larger[i])),
            kernel.most.store(i, kernel.larger[i]),
            kernel.sum.store(i, kernel.sum[i] * kernel.share[i]),
        ]
    for i, j in kernel.tile:
        power = exp_of_difference(dot[i, j], kernel.most[i])
        seen = kernel.seen(i, kernel.column(j))
        if seen is not None:
            # Behind the last key its score was taken again, which leaves the largest as it is.
            power = ir.select(seen, power, ir.number(0))
        body += [dot.store((i, j), power), kernel.sum.add(i, dot[i, j])]
    if config.shares_rows:
        for j in range(config.tile_n):
            for i in range(0, config.tile_m, ir.LANES):
                four = tuple(dot[i + n, j] for n in range(ir.LANES))
                place = kernel.own_column(j) * config.power_stride + kernel.row(i)
                body.append(kernel.powers.store(place, ir.Lanes(values=four)))
    return tuple(body)


# Step 4: values, mixed.


def _mixed(kernel: AttentionKernel) -> ir.Block:
    config = kernel.config
    shares = (
        kernel.acc.store((i, c), kernel.acc[i, c] * ir.splat(kernel.share[i]))
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
    config = kernel.config
    place = kernel.key(ir.affine(n, step=unroll))
    source = kernel.block * config.block_n + place
    if not kernel.copies:
        source = inside.clamped(f"source{n}", source, kernel.given.n, 1)
    for c in kernel.outputs:
        value = kernel.read(kernel.values, place, source, kernel.quads[c])
        yield kernel.own_value.store(c, value)
    for i in range(config.tile_m):
        four, lane = divmod(i, ir.LANES)
        power: ir.Expression = kernel.own_power[four].extract(lane)
        if not config.shares_rows:
            power = kernel.dot[i, n]
        elif not lane:
            powers = kernel.powers.vector(place * config.power_stride + kernel.row(i))
            yield kernel.own_power.store(four, powers)
        for c in kernel.outputs:
            yield kernel.acc.add((i, c), ir.splat(power) * kernel.own_value[c])


# Steps 5 and 6: the sums of a row's threads, then the outputs of all slices.


def _outputs(kernel: AttentionKernel, sums: Reduced) -> ir.Block:
    if kernel.config.sliced_n > 1:
        return _added_up(kernel, sums)
    body: list[ir.Statement] = []
    for i in range(kernel.config.tile_m):
        for c in kernel.outputs:
            acc = kernel.acc[i, c]
            quotient = acc if kernel.parts else acc / ir.splat(sums.values[i])
            output = kernel.output(kernel.row(i), kernel.quads[c], quotient)
            body += ir.under(kernel.exists(c), output)
        body += kernel.told(i, kernel.most[i], sums.values[i])
    return tuple(body)


def _added_up(kernel: AttentionKernel, sums: Reduced) -> ir.Block:
    """A slice brings its outputs to the largest score and the sum of all slices before."""
    given, config, share = kernel.given, kernel.config, kernel.share
    block_m, slices, quads = config.block_m, config.sliced_n, given.width // ir.LANES
    of_sums, own = slices * block_m, kernel.slice * block_m
    told: list[ir.Statement] = []
    for i in range(config.tile_m):
        place = own + kernel.row(i)
        told.append(kernel.slices.store(place, kernel.most[i]))
        told.append(kernel.slices.store(place + of_sums, sums.values[i]))
    body: list[ir.Statement] = [
        *kernel.frame.where((kernel.lane.below(1),), tuple(told)),
        ir.Barrier(),
    ]
    for i in range(config.tile_m):
        places = [kernel.row(i) + n * block_m for n in range(slices)]
        mosts = [kernel.slices[place] for place in places]
        larger: ir.Expression = mosts[0]
        for each in mosts[1:]:
            larger = larger.max(each)
        body.append(kernel.larger.store(i, larger))
        summed: ir.Expression = ir.number(0)
        for most, place in zip(mosts, places, strict=True):
            powers = exp_of_difference(most, kernel.larger[i])
            summed = summed + kernel.slices[place + of_sums] * powers
        own_share = exp_of_difference(kernel.most[i], kernel.larger[i])
        body.append(share.store(i, own_share if kernel.parts else own_share / summed))
        body += kernel.told(i, kernel.larger[i], summed)
        for c in kernel.outputs:
            index = (own + kernel.row(i)) * given.width + kernel.quads[c] * ir.LANES
            store = kernel.staged.store(index, kernel.acc[i, c] * ir.splat(share[i]))
            body += ir.under(kernel.exists(c), (store,))
    body.append(ir.Barrier())
    items = block_m * quads
    for count in range(-(-items // config.threads)):
        place = kernel.thread + count * config.threads
        exists = kernel.frame.undecided((place.below(items),))
        parts = ((f"added{count}.row", block_m), (f"added{count}.quad", quads))
        row, quad = kernel.frame.delinearize(place, parts)
        rows = ((row + n * block_m) * given.width for n in range(slices))
        outputs = [kernel.staged.vector(at + quad * ir.LANES) for at in rows]
        output = reduce(add, outputs[1:], outputs[0])
        body += ir.under(exists, kernel.output(row, quad, output))
    return tuple(body)

"""Scans, selections and updates at places for wasm.

scan          range: rows [extent, inner], or with inner 1 a sum in registers, which blocks of
              256 entries begin anew, so that a long sum of f32 keeps its digits
updates       range: one, or slices of the axes in front that updates have as well; a slice is
              copied, then each update is written
selection     range: rows. Few of few entries are found one after another:

    for r < count: for t < extent: the first of all that come after the one before

  Else `held` entries are kept. The first fill them; of the others one that comes before the
  last of the `count` best is put behind these, and whenever all places are taken the held ones
  are sorted and all but the best dropped:

    held   best of before, sorted | others that may be among them
           ←──── count ────→      ←── at least 256 ───→

  They are sorted by digits of 8 bits of their keys, lowest first (LSD radix sort), which keeps
  the order of equal ones. So a row takes a number of steps that grows as its entries do,
  whatever their order.
"""

from collections.abc import Callable
from math import prod

from msgspec.structs import replace

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Axis, Reducer, number
from kernelzoo.domain.operators.ordered import Scan, Selection, Updates, ordered_of
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.parameters import Held, held_by, parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.ordered.config import WasmOrderedConfig
from services.tuner.schedules.ordered.parts import (
    INTEGER_BITS,
    MOST,
    NEUTRAL,
    KeyAt,
    Told,
    UpdateNest,
    combined,
    digit_of,
    entry_of,
    found_one_by_one,
    key,
    of_dtype,
    own_axes,
    start,
    when,
)

BLOCK = 256
"""Terms of f32 that are summed before a sum begins anew."""
COLUMNS = 16
"""Entries side by side that are scanned by themselves: those of a cache line."""
SPARE = 256
"""Places behind the best, at the least: they are filled before all are sorted."""
LINE = 16
"""Entries that are left out at once, as most are: a cache line."""
FEW = 256
"""Entries that are sorted by digits of 4 bits: counting larger ones would take longer than them."""
MOST_FOUND_ONE_BY_ONE = 128
"""Keys that are compared to find few of few entries; sorting takes as long before its first."""


def lower(candidate: Candidate) -> ScheduledProgram:
    WasmOrderedConfig.of(candidate)
    workload = candidate.workload
    parameters, stage = parameters_of(workload), workload.program.output
    match ordered_of(stage):
        case Scan() as scan:
            body = _scan(scan, *parameters)
        case Selection() as selection:
            body = _selection(selection, *parameters)
        case Updates() as updates:
            body = _updates(updates, held_by(workload), parameters[-1])
    program = ir.Program(parameters=parameters, body=body)
    return ScheduledProgram(nests=(program,), options=PassOptions(vectors=2))


def _serial(var: str, extent: int, *body: ir.Statement) -> ir.Block:
    return ir.serial(var, extent, body)


# Scans.


def _scan(scan: Scan, x: ir.Buffer, output: ir.Buffer) -> ir.Loop:
    if scan.inner == 1:
        row = ir.variable("row") * scan.extent
        return ir.loop("row", scan.outer, _scanned_row(scan, x, output, row), ir.LoopKind.RANGE)
    columns = COLUMNS if scan.inner % COLUMNS == 0 else scan.inner
    slices = scan.inner // columns
    row, part = ir.ZERO, ir.ZERO
    if scan.outer > 1 or slices == 1:
        slices, columns = 1, scan.inner
        row = ir.variable("slice") * (scan.extent * scan.inner)
    else:
        part = ir.variable("slice") * columns
    held = ir.scratch("held", columns, output.dtype)
    column = ir.variable("column")
    at = row + part + ir.variable("t") * scan.inner + column
    value = ir.Binary(op=combined(scan.reducer, output.dtype), left=held[column], right=x[at])
    first = of_dtype(NEUTRAL[scan.reducer], output.dtype)
    body = (
        *_serial("column", columns, held.store(column, first)),
        *_serial(
            "t",
            scan.extent,
            *_serial("column", columns, held.store(column, value), output.store(at, held[column])),
        ),
    )
    return ir.loop("slice", scan.outer * slices, ir.allocated((held,), body), ir.LoopKind.RANGE)


def _scanned_row(scan: Scan, x: ir.Buffer, output: ir.Buffer, row: ir.Affine) -> ir.Block:
    """`before` has the sum of all whole blocks, `held` that of the block so far."""
    op, neutral = (
        combined(scan.reducer, output.dtype),
        of_dtype(NEUTRAL[scan.reducer], output.dtype),
    )
    before, held = (ir.local(name, 1, output.dtype) for name in ("before", "held"))
    in_blocks = scan.reducer is Reducer.SUM and output.dtype.compute_dtype is DType.F32
    size = min(BLOCK, scan.extent) if in_blocks else scan.extent

    def value(buffer: ir.Buffer) -> ir.Load:
        return buffer[0]

    def block(first: ir.Affine, length: int) -> ir.Block:
        at = row + first + ir.variable("t")
        term = ir.Binary(op=op, left=value(held), right=x[at])
        result: ir.Expression = value(held)
        if in_blocks:
            result = ir.Binary(op=op, left=value(before), right=result)
        return (
            held.store(0, neutral),
            *_serial("t", length, held.store(0, term), output.store(at, result)),
            before.store(0, ir.Binary(op=op, left=value(before), right=value(held))),
        )

    body = (before.store(0, neutral), *ir.tiled("block", scan.extent, size, block))
    return ir.allocated((before, held), body)


# Updates.


def _updates(updates: Updates, held: Held, output: ir.Buffer) -> ir.Loop:
    """Slices are along the first axis of the stage where updates have it, too."""
    given: dict[str, ir.Affine] = {}
    slice_at, slices = ir.variable("slice"), 1
    if _has_first_axis(updates):
        slices = updates.shape[0]
        given[str(updates.value.at[0])] = slice_at
    size = prod(updates.shape) // slices
    at = slice_at * size + ir.variable("entry")
    first = start(updates, at, held, output.dtype)
    body = (
        *_serial("entry", size, output.store(at, first)),
        *UpdateNest(updates=updates, entry=entry_of(held), output=output).block(given),
    )
    return ir.loop("slice", slices, body, ir.LoopKind.RANGE)


def _has_first_axis(updates: Updates) -> bool:
    """Returns whether updates have the first axis of the stage as it is."""
    if 0 not in own_axes(updates):
        return False
    first = updates.value.at[0]
    return isinstance(first, Axis) and number(first.extent) == updates.shape[0]


# Selections.

Pairs = tuple[ir.Buffer, ir.Buffer]
"""Keys and places."""


def _selection(selection: Selection, x: ir.Buffer, output: ir.Buffer) -> ir.Loop:
    row = ir.variable("row")

    def entry_at(t: ir.Affine) -> ir.Load:
        return x[row * selection.extent + t]

    def key_at(t: ir.Affine) -> ir.Expression:
        return key(entry_at(t), x.dtype, largest=selection.largest)

    def told(r: ir.Affine, place: ir.Expression) -> ir.Statement:
        return output.store(row * selection.count + r, place)

    if selection.extent * selection.count <= MOST_FOUND_ONE_BY_ONE:
        body = found_one_by_one(selection, key_at, told)
    else:
        body = _found_by_sorting(selection, entry_at, key_at, told)
    return ir.loop("row", selection.rows, body, ir.LoopKind.RANGE)


def _found_by_sorting(
    selection: Selection, entry_at: Callable[[ir.Affine], ir.Load], key_at: KeyAt, told: Told
) -> ir.Block:
    count, extent = selection.count, selection.extent
    size = min(extent, 2 * count + SPARE)
    size += (extent - size) % LINE
    bits = 4 if size <= FEW else 8
    names = ("keys", "places", "other_keys", "other_places")
    keys, places, *others = (ir.scratch(name, size, DType.I32) for name in names)
    digits = ir.scratch("digits", 1 << bits, DType.I32)
    t, r = ir.variable("t"), ir.variable("r")
    sort = _sorted((keys, places), (others[0], others[1]), digits, size, bits)
    hold = (keys.store(t, key_at(t)), places.store(t, ir.value(t)))
    body: ir.Block = (*_serial("t", size, *hold), *sort)
    if size < extent:
        body = (*body, *_others(selection, entry_at, key_at, (keys, places), sort, size))
    body = (*body, *_serial("r", count, told(r, places[r])))
    return ir.allocated((digits, keys, places, *others), body)


def _others(
    selection: Selection,
    entry_at: Callable[[ir.Affine], ir.Load],
    key_at: KeyAt,
    held: Pairs,
    sort: ir.Block,
    size: int,
) -> ir.Block:
    """Puts those of the entries from `size` on that come before the worst of the best behind them,
    where they are sorted whenever all places are taken, and at the end."""
    count, (keys, places) = selection.count, held
    filled, worst = (ir.local(name, 1, DType.I32) for name in ("filled", "worst"))
    first = entry_at(ir.ZERO)
    worst_entry = ir.local("worst_entry", 1, ir.dtype_of(first))
    slot, last = ir.variable("slot"), ir.variable("last")
    spare = keys.store(ir.variable("spare") + count, ir.whole(MOST))
    drop = (
        worst.store(0, keys[count - 1]),
        ir.let(
            "last", places[count - 1], selection.extent - 1, (worst_entry.store(0, entry_at(last)),)
        ),
        filled.store(0, ir.whole(count)),
        *_serial("spare", size - count, spare),
    )
    one_more = filled[0] + 1

    def taken(at: ir.Affine) -> ir.Block:
        put: ir.Block = (
            ir.let(
                "slot",
                filled[0],
                size - 1,
                (keys.store(slot, key_at(at)), places.store(slot, ir.value(at))),
            ),
            filled.store(0, one_more),
            *when("full", filled[0].equals(size), (*sort, *drop)),
        )
        return when("take", key_at(at).less(worst[0]), put)

    left = selection.extent - size
    if ir.dtype_of(first) is DType.I32:
        at = ir.variable("later") + size
        body = (*drop, *_serial("later", left, *taken(at)), *sort)
        return ir.allocated((filled, worst, worst_entry), body)
    start_at = ir.variable("line") * LINE + size
    limit = ir.splat(worst_entry[0])
    late: ir.Expression | None = None
    for vector in range(LINE // ir.LANES):
        some = replace(entry_at(start_at + ir.LANES * vector), lanes=ir.LANES)
        # NaN is neither at most the worst nor at least: what it is, its key tells.
        sides = (some, limit) if selection.largest else (limit, some)
        holds = sides[0].at_most(sides[1])
        late = holds if late is None else late & holds
    assert late is not None
    all_late: ir.Expression = late.extract(0)
    for lane in range(1, ir.LANES):
        all_late = all_late & late.extract(lane)
    each = _serial("later", LINE, *taken(start_at + ir.variable("later")))
    line = when("late", all_late.equals(0), each)
    body = (*drop, *_serial("line", left // LINE, *line), *sort)
    return ir.allocated((filled, worst, worst_entry), body)


def _sorted(held: Pairs, other: Pairs, digits: ir.Buffer, size: int, bits: int) -> ir.Block:
    """Passes go from one pair of buffers to the other and back."""
    body: list[ir.Statement] = []
    for number_ in range(INTEGER_BITS // bits):
        source, target = (held, other) if number_ % 2 == 0 else (other, held)
        body += _sorted_by_digit(source, target, digits, size, number_ * bits)
    return tuple(body)


def _sorted_by_digit(
    source: Pairs, target: Pairs, digits: ir.Buffer, size: int, first_bit: int
) -> ir.Block:
    """Counts how often each digit occurs, from that where the first of each goes, and moves all."""
    t, d, slot = (ir.variable(name) for name in ("t", "d", "slot"))
    digit = ir.variable("digit")
    running = ir.local("running", 1, DType.I32)
    held = digits[digit]

    def of_entry(*body: ir.Statement) -> ir.Let:
        bits = digits.size.bit_length() - 1
        value = digit_of(source[0][t], first_bit, bits)
        return ir.let("digit", value, digits.size - 1, body)

    count = of_entry(digits.store(digit, held + 1))
    here = digits[d]
    move = ir.let(
        "slot",
        held,
        size - 1,
        (
            *(to.store(slot, of[t]) for of, to in zip(source, target, strict=True)),
            digits.store(digit, ir.value(slot) + 1),
        ),
    )
    first = ir.let(
        "slot",
        running[0],
        size,
        (running.store(0, running[0] + here), digits.store(d, ir.value(slot))),
    )
    body = (
        *_serial("d", digits.size, digits.store(d, 0)),
        *_serial("t", size, count),
        running.store(0, 0),
        *_serial("d", digits.size, first),
        *_serial("t", size, of_entry(move)),
    )
    return ir.allocated((running,), body)

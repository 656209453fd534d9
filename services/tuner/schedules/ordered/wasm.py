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
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    binary,
    constant,
    loop,
    plus,
    serial,
    splat,
    total,
    whole,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Block,
    Buffer,
    Compare,
    CompareOp,
    Expression,
    ExtractLane,
    IndexValue,
    Let,
    Load,
    Loop,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
    dtype_of,
)
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
    both,
    combined,
    digit_of,
    entry_of,
    found_one_by_one,
    integers,
    key,
    less,
    of_dtype,
    own_axes,
    same,
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
    program = Program(parameters=parameters, body=body)
    return ScheduledProgram(nests=(program,), options=PassOptions(vectors=2))


def _serial(var: str, extent: int, *body: Statement) -> Block:
    return serial(var, extent, body)


def _allocated(body: Block, *buffers: Buffer) -> Block:
    for buffer in buffers:
        body = (Allocate(buffer=buffer, body=body),)
    return body


# Scans.


def _scan(scan: Scan, x: Buffer, output: Buffer) -> Loop:
    if scan.inner == 1:
        row = Affine.variable("row").times(scan.extent)
        return loop("row", scan.outer, LoopKind.RANGE, _scanned_row(scan, x, output, row))
    columns = COLUMNS if scan.inner % COLUMNS == 0 else scan.inner
    slices = scan.inner // columns
    row, part = ZERO, ZERO
    if scan.outer > 1 or slices == 1:
        slices, columns = 1, scan.inner
        row = Affine.variable("slice").times(scan.extent * scan.inner)
    else:
        part = Affine.variable("slice").times(columns)
    held = Buffer(name="held", scope=Scope.GLOBAL, dtype=output.dtype, size=columns)
    column = Affine.variable("column")
    at = total(row, part, Affine.variable("t").times(scan.inner), column)
    value = binary(
        combined(scan.reducer, output.dtype),
        Load(buffer=held, index=column),
        Load(buffer=x, index=at),
    )
    first = of_dtype(NEUTRAL[scan.reducer], output.dtype)
    body = (
        *_serial("column", columns, Store(buffer=held, index=column, value=first)),
        *_serial(
            "t",
            scan.extent,
            *_serial(
                "column",
                columns,
                Store(buffer=held, index=column, value=value),
                Store(buffer=output, index=at, value=Load(buffer=held, index=column)),
            ),
        ),
    )
    return loop("slice", scan.outer * slices, LoopKind.RANGE, _allocated(body, held))


def _scanned_row(scan: Scan, x: Buffer, output: Buffer, row: Affine) -> Block:
    """`before` has the sum of all whole blocks, `held` that of the block so far."""
    op, neutral = (
        combined(scan.reducer, output.dtype),
        of_dtype(NEUTRAL[scan.reducer], output.dtype),
    )
    before, held = (
        Buffer(name=name, scope=Scope.LOCAL, dtype=output.dtype, size=1)
        for name in ("before", "held")
    )
    in_blocks = scan.reducer is Reducer.SUM and output.dtype.compute_dtype is DType.F32
    size = min(BLOCK, scan.extent) if in_blocks else scan.extent

    def value(buffer: Buffer) -> Load:
        return Load(buffer=buffer, index=ZERO)

    def block(first: Affine, length: int) -> Block:
        at = total(row, first, Affine.variable("t"))
        term = binary(op, value(held), Load(buffer=x, index=at))
        result: Expression = value(held)
        if in_blocks:
            result = binary(op, value(before), result)
        return (
            Store(buffer=held, index=ZERO, value=neutral),
            *_serial(
                "t",
                length,
                Store(buffer=held, index=ZERO, value=term),
                Store(buffer=output, index=at, value=result),
            ),
            Store(buffer=before, index=ZERO, value=binary(op, value(before), value(held))),
        )

    blocks, left = divmod(scan.extent, size)
    body = (
        Store(buffer=before, index=ZERO, value=neutral),
        *_serial("block", blocks, *block(Affine.variable("block").times(size), size)),
        *(block(constant(blocks * size), left) if left else ()),
    )
    return _allocated(body, before, held)


# Updates.


def _updates(updates: Updates, held: Held, output: Buffer) -> Loop:
    """Slices are along the first axis of the stage where updates have it, too."""
    given: dict[str, Affine] = {}
    slice_at, slices = Affine.variable("slice"), 1
    if _has_first_axis(updates):
        slices = updates.shape[0]
        given[str(updates.value.at[0])] = slice_at
    size = prod(updates.shape) // slices
    at = slice_at.times(size).plus(Affine.variable("entry"))
    first = start(updates, at, held, output.dtype)
    body = (
        *_serial("entry", size, Store(buffer=output, index=at, value=first)),
        *UpdateNest(updates=updates, entry=entry_of(held), output=output).block(given),
    )
    return loop("slice", slices, LoopKind.RANGE, body)


def _has_first_axis(updates: Updates) -> bool:
    """Whether updates have the first axis of the stage as it is."""
    if 0 not in own_axes(updates):
        return False
    first = updates.value.at[0]
    return isinstance(first, Axis) and number(first.extent) == updates.shape[0]


# Selections.

Pairs = tuple[Buffer, Buffer]
"""Keys and places."""


def _selection(selection: Selection, x: Buffer, output: Buffer) -> Loop:
    row = Affine.variable("row")

    def entry_at(t: Affine) -> Load:
        return Load(buffer=x, index=row.times(selection.extent).plus(t))

    def key_at(t: Affine) -> Expression:
        return key(entry_at(t), x.dtype, largest=selection.largest)

    def told(r: Affine, place: Expression) -> Statement:
        return Store(buffer=output, index=row.times(selection.count).plus(r), value=place)

    if selection.extent * selection.count <= MOST_FOUND_ONE_BY_ONE:
        body = found_one_by_one(selection, key_at, told)
    else:
        body = _found_by_sorting(selection, entry_at, key_at, told)
    return loop("row", selection.rows, LoopKind.RANGE, body)


def _found_by_sorting(
    selection: Selection, entry_at: Callable[[Affine], Load], key_at: KeyAt, told: Told
) -> Block:
    count, extent = selection.count, selection.extent
    size = min(extent, 2 * count + SPARE)
    size += (extent - size) % LINE
    bits = 4 if size <= FEW else 8
    names = ("keys", "places", "other_keys", "other_places")
    keys, places, *others = (integers(name, size, Scope.GLOBAL) for name in names)
    digits = integers("digits", 1 << bits, Scope.GLOBAL)
    t, r = Affine.variable("t"), Affine.variable("r")
    sort = _sorted((keys, places), (others[0], others[1]), digits, size, bits)
    hold = (
        Store(buffer=keys, index=t, value=key_at(t)),
        Store(buffer=places, index=t, value=IndexValue(index=t)),
    )
    body: Block = (*_serial("t", size, *hold), *sort)
    if size < extent:
        body = (*body, *_others(selection, entry_at, key_at, (keys, places), sort, size))
    body = (*body, *_serial("r", count, told(r, Load(buffer=places, index=r))))
    return _allocated(body, digits, keys, places, *others)


def _others(
    selection: Selection,
    entry_at: Callable[[Affine], Load],
    key_at: KeyAt,
    held: Pairs,
    sort: Block,
    size: int,
) -> Block:
    """Puts those of the entries from `size` on that come before the worst of the best behind them,
    where they are sorted whenever all places are taken, and at the end."""
    count, (keys, places) = selection.count, held
    filled, worst = (integers(name, 1, Scope.LOCAL) for name in ("filled", "worst"))
    first = entry_at(ZERO)
    worst_entry = Buffer(name="worst_entry", scope=Scope.LOCAL, dtype=dtype_of(first), size=1)
    slot, last = Affine.variable("slot"), Affine.variable("last")
    spare = Store(
        buffer=keys, index=Affine.variable("spare").plus(constant(count)), value=whole(MOST)
    )
    drop = (
        Store(buffer=worst, index=ZERO, value=Load(buffer=keys, index=constant(count - 1))),
        Let(
            var="last",
            value=Load(buffer=places, index=constant(count - 1)),
            low=0,
            high=selection.extent - 1,
            body=(Store(buffer=worst_entry, index=ZERO, value=entry_at(last)),),
        ),
        Store(buffer=filled, index=ZERO, value=whole(count)),
        *_serial("spare", size - count, spare),
    )
    one_more = plus(Load(buffer=filled, index=ZERO), whole(1))

    def taken(at: Affine) -> Block:
        put: Block = (
            Let(
                var="slot",
                value=Load(buffer=filled, index=ZERO),
                low=0,
                high=size - 1,
                body=(
                    Store(buffer=keys, index=slot, value=key_at(at)),
                    Store(buffer=places, index=slot, value=IndexValue(index=at)),
                ),
            ),
            Store(buffer=filled, index=ZERO, value=one_more),
            *when("full", same(Load(buffer=filled, index=ZERO), whole(size)), (*sort, *drop)),
        )
        return when("take", less(key_at(at), Load(buffer=worst, index=ZERO)), put)

    left = selection.extent - size
    if dtype_of(first) is DType.I32:
        at = Affine.variable("later").plus(constant(size))
        body = (*drop, *_serial("later", left, *taken(at)), *sort)
        return _allocated(body, filled, worst, worst_entry)
    start_at = Affine.variable("line").times(LINE).plus(constant(size))
    limit = splat(Load(buffer=worst_entry, index=ZERO))
    late: Expression | None = None
    for vector in range(LINE // LANES):
        some = replace(entry_at(start_at.plus(constant(LANES * vector))), lanes=LANES)
        # NaN is neither at most the worst nor at least: what it is, its key tells.
        sides = (some, limit) if selection.largest else (limit, some)
        holds = Compare(op=CompareOp.LE, left=sides[0], right=sides[1])
        late = holds if late is None else both(late, holds)
    assert late is not None
    all_late: Expression = ExtractLane(value=late, lane=0)
    for lane in range(1, LANES):
        all_late = both(all_late, ExtractLane(value=late, lane=lane))
    each = _serial("later", LINE, *taken(start_at.plus(Affine.variable("later"))))
    line = when("late", same(all_late, whole(0)), each)
    body = (*drop, *_serial("line", left // LINE, *line), *sort)
    return _allocated(body, filled, worst, worst_entry)


def _sorted(held: Pairs, other: Pairs, digits: Buffer, size: int, bits: int) -> Block:
    """Passes go from one pair of buffers to the other and back."""
    body: list[Statement] = []
    for number_ in range(INTEGER_BITS // bits):
        source, target = (held, other) if number_ % 2 == 0 else (other, held)
        body += _sorted_by_digit(source, target, digits, size, number_ * bits)
    return tuple(body)


def _sorted_by_digit(
    source: Pairs, target: Pairs, digits: Buffer, size: int, first_bit: int
) -> Block:
    """Counts how often each digit occurs, from that where the first of each goes, and moves all."""
    t, d, slot = (Affine.variable(name) for name in ("t", "d", "slot"))
    digit = Affine.variable("digit")
    running = integers("running", 1, Scope.LOCAL)
    held = Load(buffer=digits, index=digit)

    def of_entry(*body: Statement) -> Let:
        bits = digits.size.bit_length() - 1
        value = digit_of(Load(buffer=source[0], index=t), first_bit, bits)
        return Let(var="digit", value=value, low=0, high=digits.size - 1, body=body)

    count = of_entry(Store(buffer=digits, index=digit, value=plus(held, whole(1))))
    here = Load(buffer=digits, index=d)
    move = Let(
        var="slot",
        value=held,
        low=0,
        high=size - 1,
        body=(
            *(
                Store(buffer=to, index=slot, value=Load(buffer=of, index=t))
                for of, to in zip(source, target, strict=True)
            ),
            Store(buffer=digits, index=digit, value=plus(IndexValue(index=slot), whole(1))),
        ),
    )
    first = Let(
        var="slot",
        value=Load(buffer=running, index=ZERO),
        low=0,
        high=size,
        body=(
            Store(buffer=running, index=ZERO, value=plus(Load(buffer=running, index=ZERO), here)),
            Store(buffer=digits, index=d, value=IndexValue(index=slot)),
        ),
    )
    body = (
        *_serial("d", digits.size, Store(buffer=digits, index=d, value=whole(0))),
        *_serial("t", size, count),
        Store(buffer=running, index=ZERO, value=whole(0)),
        *_serial("d", digits.size, first),
        *_serial("t", size, of_entry(move)),
    )
    return _allocated(body, running)

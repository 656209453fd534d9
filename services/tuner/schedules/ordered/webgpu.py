"""Scans, selections and updates at places for WebGPU.

scan          a thread to a row; of few long rows a workgroup to each, whose threads take parts
              one after another: sums of the parts, then each part from the sum before it
updates       two dispatches: a thread copies an entry; then a thread makes, in their order, all
              updates at one place along the axes that updates have as well
selection     a thread to a row of few entries of which few are wanted, which finds one after
              another; else a workgroup sorts all of a row by digits of 4 bits of their keys

sorting       8 passes, from one pair of buffers of keys and places to the other and back
  thread      a part of the row: how often it has each digit
  16 threads  a digit: where each thread's entries with it go behind those of threads before
  16 threads  a digit: where it starts behind all lower ones
  thread      moves its part
"""

from collections.abc import Sequence
from math import prod

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.expressions import number
from kernelzoo.domain.operators.ordered import Scan, Selection, Updates, ordered_of
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    constant,
    loop,
    plus,
    serial,
    total,
    under,
    whole,
)
from services.tuner.ir.nodes import (
    Allocate,
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Expression,
    IndexValue,
    Let,
    Load,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
)
from services.tuner.schedules.base.parameters import Held, held_by, parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.ordered.parts import (
    LEAST,
    NEUTRAL,
    UpdateNest,
    combined,
    entry_of,
    found_one_by_one,
    integers,
    key,
    of_dtype,
    own_axes,
    start,
)
from services.tuner.schedules.ordered.webgpu_config import DIGIT_BITS, DIGITS, WebgpuOrderedConfig

MOST_FOUND_ONE_BY_ONE = 4096
"""Keys that a thread compares to find few of few entries. Sorting takes a workgroup to each row."""
SHORT = 64
"""Entries of a row that one thread scans, however few rows there are."""
MANY = 512
"""Rows that are enough for a thread to each."""
PASSES = 32 // DIGIT_BITS
LARGEST_COUNT = 1 << 26
"""More entries than a row has; the bound of a program's work sees to it."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuOrderedConfig.of(candidate), candidate.workload
    parameters, stage = parameters_of(workload), workload.program.output
    match ordered_of(stage):
        case Scan() as scan:
            nests = _scan(scan, parameters, config.threads)
        case Selection() as selection:
            nests = _selection(selection, parameters, config.threads)
        case Updates() as updates:
            nests = _updates(updates, held_by(workload), parameters, config.threads)
    return ScheduledProgram(nests=nests)


def _threads_for(count: int, threads: int, body: Block, parameters: tuple[Buffer, ...]) -> Program:
    """Runs `body` for each number below `count`, which it calls `item`."""
    groups = -(-count // threads)
    frame = Frame()
    group, thread = frame.variable("group", groups), frame.variable("thread", threads)
    at = group.times(threads).plus(thread)
    item = Let(var="item", value=IndexValue(index=at), low=0, high=count - 1, body=body)
    inside = under(frame.undecided((Bound(index=at, limit=count),)), (item,))
    block = (loop("thread", threads, LoopKind.THREAD_INDEX, inside),)
    return Program(parameters=parameters, body=loop("group", groups, LoopKind.RANGE, block))


ITEM = Affine.variable("item")


def _digits(
    place: Affine, most: int, sizes: Sequence[tuple[str, int]]
) -> tuple[Frame, list[Affine]]:
    """A number below `most` as one for each of sizes, the outermost first."""
    frame = Frame(ranges={var: (0, most - 1) for var, _ in place.terms})
    return frame, frame.delinearize(place, sizes)


# Scans.


def _scan(scan: Scan, parameters: tuple[Buffer, ...], threads: int) -> tuple[Program, ...]:
    rows = scan.outer * scan.inner
    if rows >= MANY or scan.extent <= SHORT:
        frame, (outer, inner) = _digits(ITEM, rows, (("outer", scan.outer), ("inner", scan.inner)))
        body = _scanned(scan, parameters, outer, inner, ZERO, scan.extent, None)
        return (_threads_for(rows, threads, frame.enclose(body), parameters),)
    return (_in_parts(scan, parameters, threads),)


def _held(output: Buffer) -> Buffer:
    return Buffer(name="held", scope=Scope.LOCAL, dtype=output.dtype, size=1)


def _scanned(
    scan: Scan,
    parameters: tuple[Buffer, ...],
    outer: Affine,
    inner: Affine,
    first: Affine,
    length: int,
    before: Block | None,
    *,
    told: Block | None = None,
) -> Block:
    """Combines `length` entries from `first` on: after `before`, which sets what comes before, each
    is stored; with `told` only that runs at the end."""
    x, output = parameters
    op, held = combined(scan.reducer, output.dtype), _held(output)
    at_t = first.plus(Affine.variable("t"))
    at = total(outer.times(scan.extent * scan.inner), at_t.times(scan.inner), inner)
    value = binary(op, Load(buffer=held, index=ZERO), Load(buffer=x, index=at))
    body: Block = (Store(buffer=held, index=ZERO, value=value),)
    if told is None:
        body = (*body, Store(buffer=output, index=at, value=Load(buffer=held, index=ZERO)))
    frame = Frame(ranges={var: (0, scan.extent) for var, _ in first.terms})
    frame.ranges["t"] = (0, length - 1)
    body = under(frame.undecided((Bound(index=at_t, limit=scan.extent),)), body)
    neutral = of_dtype(NEUTRAL[scan.reducer], output.dtype)
    block = (
        Store(buffer=held, index=ZERO, value=neutral),
        *(before or ()),
        *serial("t", length, body),
        *(told or ()),
    )
    return (Allocate(buffer=held, body=block),)


def _in_parts(scan: Scan, parameters: tuple[Buffer, ...], threads: int) -> Program:
    output = parameters[-1]
    rows, part = scan.outer * scan.inner, -(-scan.extent // threads)
    thread = Affine.variable("thread")
    shared = Buffer(name="shared", scope=Scope.WORKGROUP, dtype=output.dtype, size=threads)
    held = Load(buffer=_held(output), index=ZERO)
    frame, (outer, inner) = _digits(
        Affine.variable("row"), rows, (("outer", scan.outer), ("inner", scan.inner))
    )
    first = thread.times(part)
    other = Affine.variable("other")
    sum_before = Store(
        buffer=_held(output),
        index=ZERO,
        value=binary(combined(scan.reducer, output.dtype), held, Load(buffer=shared, index=other)),
    )
    is_before = Bound(index=other.plus(thread.times(-1)), limit=0)
    before = serial("other", threads, under((is_before,), (sum_before,)))
    told = (Store(buffer=shared, index=thread, value=held),)
    body = (
        *_scanned(scan, parameters, outer, inner, first, part, None, told=told),
        Barrier(),
        *_scanned(scan, parameters, outer, inner, first, part, before),
    )
    block: Block = (loop("thread", threads, LoopKind.THREAD_INDEX, body),)
    block = frame.enclose((Allocate(buffer=shared, body=block),))
    return Program(parameters=parameters, body=loop("row", rows, LoopKind.RANGE, block))


# Updates.


def _updates(
    updates: Updates, held: Held, parameters: tuple[Buffer, ...], threads: int
) -> tuple[Program, ...]:
    output = parameters[-1]
    first = start(updates, ITEM, held, output.dtype)
    copy = (Store(buffer=output, index=ITEM, value=first),)
    own = [updates.value.at[n] for n in own_axes(updates)]
    axes = [axis for axis in updates.over if axis in own and number(axis.extent) > 1]
    count = prod(number(axis.extent) for axis in axes)
    frame, places = _digits(
        ITEM, count, [(f"own{n}", number(axis.extent)) for n, axis in enumerate(axes)]
    )
    given = {axis.name: place for axis, place in zip(axes, places, strict=True)}
    nest = UpdateNest(updates=updates, entry=entry_of(held), output=output)
    body = frame.enclose(nest.block(given))
    return (
        _threads_for(prod(updates.shape), threads, copy, parameters),
        _threads_for(count, threads, body, parameters),
    )


# Selections.


def _selection(
    selection: Selection, parameters: tuple[Buffer, ...], threads: int
) -> tuple[Program, ...]:
    x, output = parameters

    def key_at(row: Affine, t: Affine) -> Expression:
        entry = Load(buffer=x, index=row.times(selection.extent).plus(t))
        return key(entry, x.dtype, largest=selection.largest)

    def told(row: Affine, r: Affine, place: Expression) -> Statement:
        return Store(buffer=output, index=row.times(selection.count).plus(r), value=place)

    if selection.extent * selection.count <= MOST_FOUND_ONE_BY_ONE:
        found = found_one_by_one(
            selection, lambda t: key_at(ITEM, t), lambda r, place: told(ITEM, r, place)
        )
        return (_threads_for(selection.rows, threads, found, parameters),)
    entries = selection.rows * selection.extent
    names = ("keys", "places", "other_keys", "other_places")
    buffers = tuple(integers(name, entries, Scope.GLOBAL) for name in names)
    sorting = _Sorting(
        selection.extent, threads, (buffers[0], buffers[1]), (buffers[2], buffers[3])
    )
    row, r = Affine.variable("row"), Affine.variable("r")
    t = sorting.t
    biased = plus(key_at(row, t), whole(LEAST))
    at = sorting.row.plus(t)
    fill = (
        Store(buffer=buffers[0], index=at, value=biased),
        Store(buffer=buffers[1], index=at, value=IndexValue(index=t)),
    )
    steps = -(-selection.count // threads)
    rank = r.times(threads).plus(sorting.thread)
    frame = Frame(ranges={"r": (0, steps - 1), "thread": (0, threads - 1)})
    tell = told(row, rank, Load(buffer=buffers[1], index=sorting.row.plus(rank)))
    in_output = frame.undecided((Bound(index=rank, limit=selection.count),))
    body: Block = (
        *sorting.part(fill),
        *serial("round", PASSES // 2, sorting.two_passes()),
        *serial("r", steps, under(in_output, (tell,))),
    )
    body = (loop("thread", threads, LoopKind.THREAD_INDEX, body),)
    for shared in (sorting.counts, sorting.starts):
        body = (Allocate(buffer=shared, body=body),)
    program = Program(
        parameters=(*parameters, *buffers), body=loop("row", selection.rows, LoopKind.RANGE, body)
    )
    return (program,)


Pairs = tuple[Buffer, Buffer]
"""Keys and places."""


class _Sorting:
    """Sorts keys of one row, which are numbers of 32 bits from 0 as bits of i32, and with them
    their places."""

    def __init__(self, extent: int, threads: int, held: Pairs, other: Pairs) -> None:
        self._extent, self._threads = extent, threads
        self._held, self._other = held, other
        self._length = -(-extent // threads)
        self.counts = integers("counts", DIGITS * threads, Scope.WORKGROUP)
        self.starts = integers("starts", DIGITS, Scope.WORKGROUP)
        self.thread = Affine.variable("thread")
        self.row = Affine.variable("row").times(extent)
        self.t = self.thread.times(self._length).plus(Affine.variable("t"))

    def part(self, body: Block) -> Block:
        """Runs `body` for each entry `t` of the thread's part of the row."""
        frame = Frame(ranges={"thread": (0, self._threads - 1), "t": (0, self._length - 1)})
        exists = frame.undecided((Bound(index=self.t, limit=self._extent),))
        return serial("t", self._length, under(exists, body))

    def two_passes(self) -> Block:
        """Those of number `round`: by the next two digits."""
        return (
            Barrier(storage=True),
            *self._pass(self._held, self._other, 0),
            Barrier(storage=True),
            *self._pass(self._other, self._held, DIGIT_BITS),
            Barrier(storage=True),
        )

    def _pass(self, source: Pairs, target: Pairs, start_bit: int) -> Block:
        shift = IndexValue(
            index=Affine.variable("round").times(2 * DIGIT_BITS).plus(constant(start_bit))
        )
        entry = self.row.plus(self.t)
        digit, d, slot = (Affine.variable(name) for name in ("digit", "d", "slot"))
        bits = binary(BinaryOp.SHIFT_RIGHT, Load(buffer=source[0], index=entry), shift)

        def of_entry(*body: Statement) -> Block:
            value = binary(BinaryOp.AND, bits, whole(DIGITS - 1))
            return (Let(var="digit", value=value, low=0, high=DIGITS - 1, body=body),)

        own = digit.times(self._threads).plus(self.thread)
        count = Load(buffer=self.counts, index=own)
        counted = Store(buffer=self.counts, index=own, value=plus(count, whole(1)))
        column = d.times(self._threads).plus(self.thread)
        at = self.row.plus(slot)
        place = plus(count, Load(buffer=self.starts, index=digit))
        moved = Let(
            var="slot",
            value=place,
            low=0,
            high=self._extent - 1,
            body=(
                *(
                    Store(buffer=to, index=at, value=Load(buffer=of, index=entry))
                    for of, to in zip(source, target, strict=True)
                ),
                counted,
            ),
        )
        return (
            *serial("d", DIGITS, (Store(buffer=self.counts, index=column, value=whole(0)),)),
            *self.part(of_entry(counted)),
            Barrier(),
            *under((Bound(index=self.thread, limit=DIGITS),), self._counts_before()),
            Barrier(),
            *under((Bound(index=self.thread, limit=1),), self._starts_before()),
            Barrier(),
            *self.part(of_entry(moved)),
        )

    def _counts_before(self) -> Block:
        """For the digit of the thread's number: counts become those of all threads before."""
        other = self.thread.times(self._threads).plus(Affine.variable("other"))
        return _running(self.counts, other, "other", self._threads, self.starts, self.thread)

    def _starts_before(self) -> Block:
        return _running(self.starts, Affine.variable("other"), "other", DIGITS, None, ZERO)


def _running(
    counts: Buffer, at: Affine, var: str, length: int, all_of: Buffer | None, told: Affine
) -> Block:
    """Each count becomes the sum of those before it; that of all is stored, where wanted."""
    running = integers("running", 1, Scope.LOCAL)
    held, before = Load(buffer=running, index=ZERO), Affine.variable("before")
    step = Let(
        var="before",
        value=held,
        low=0,
        high=LARGEST_COUNT,
        body=(
            Store(buffer=running, index=ZERO, value=plus(held, Load(buffer=counts, index=at))),
            Store(buffer=counts, index=at, value=IndexValue(index=before)),
        ),
    )
    body: Block = (
        Store(buffer=running, index=ZERO, value=whole(0)),
        *serial(var, length, (step,)),
    )
    if all_of is not None:
        body = (*body, Store(buffer=all_of, index=told, value=held))
    return (Allocate(buffer=running, body=body),)

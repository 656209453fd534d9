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
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import number
from kernelzoo.domain.operators.ordered import Scan, Selection, Updates, ordered_of
from services.tuner import ir
from services.tuner.schedules.base.parameters import Held, held_by, parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.ordered.parts import (
    LEAST,
    NEUTRAL,
    UpdateNest,
    combined,
    entry_of,
    found_one_by_one,
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


def _threads_for(
    count: int, threads: int, body: ir.Block, parameters: tuple[ir.Buffer, ...]
) -> ir.Program:
    """Runs `body` for each number below `count`, which it calls `item`."""
    groups = -(-count // threads)
    frame = ir.Frame()
    group, thread = frame.variable("group", groups), frame.variable("thread", threads)
    at = group * threads + thread
    item = ir.let("item", ir.value(at), count - 1, body)
    return frame.dispatch(parameters, (groups, threads), frame.where((at.below(count),), (item,)))


ITEM = ir.variable("item")


def _digits(
    place: ir.Affine, most: int, sizes: Sequence[tuple[str, int]]
) -> tuple[ir.Frame, list[ir.Affine]]:
    """A number below `most` as one for each of sizes, the outermost first."""
    frame = ir.Frame(ranges={var: (0, most - 1) for var, _ in place.terms})
    return frame, frame.delinearize(place, sizes)


# Scans.


def _scan(scan: Scan, parameters: tuple[ir.Buffer, ...], threads: int) -> tuple[ir.Program, ...]:
    rows = scan.outer * scan.inner
    if rows >= MANY or scan.extent <= SHORT:
        frame, (outer, inner) = _digits(ITEM, rows, (("outer", scan.outer), ("inner", scan.inner)))
        body = _scanned(scan, parameters, outer, inner, ir.ZERO, scan.extent, None)
        return (_threads_for(rows, threads, frame.enclose(body), parameters),)
    return (_in_parts(scan, parameters, threads),)


def _held(output: ir.Buffer) -> ir.Buffer:
    return ir.local("held", 1, output.dtype)


def _scanned(
    scan: Scan,
    parameters: tuple[ir.Buffer, ...],
    outer: ir.Affine,
    inner: ir.Affine,
    first: ir.Affine,
    length: int,
    before: ir.Block | None,
    *,
    told: ir.Block | None = None,
) -> ir.Block:
    """Combines `length` entries from `first` on: after `before`, which sets what comes before, each
    is stored; with `told` only that runs at the end."""
    x, output = parameters
    op, held = combined(scan.reducer, output.dtype), _held(output)
    at_t = first + ir.variable("t")
    at = outer * (scan.extent * scan.inner) + at_t * scan.inner + inner
    value = ir.Binary(op=op, left=held[0], right=x[at])
    body: ir.Block = (held.store(0, value),)
    if told is None:
        body = (*body, output.store(at, held[0]))
    frame = ir.Frame(ranges={var: (0, scan.extent) for var, _ in first.terms})
    frame.ranges["t"] = (0, length - 1)
    body = ir.under(frame.undecided((at_t.below(scan.extent),)), body)
    neutral = of_dtype(NEUTRAL[scan.reducer], output.dtype)
    block = (held.store(0, neutral), *(before or ()), *ir.serial("t", length, body), *(told or ()))
    return (ir.Allocate(buffer=held, body=block),)


def _in_parts(scan: Scan, parameters: tuple[ir.Buffer, ...], threads: int) -> ir.Program:
    output = parameters[-1]
    rows, part = scan.outer * scan.inner, -(-scan.extent // threads)
    thread = ir.variable("thread")
    shared = ir.shared("shared", threads, output.dtype)
    held = _held(output)[0]
    frame, (outer, inner) = _digits(
        ir.variable("row"), rows, (("outer", scan.outer), ("inner", scan.inner))
    )
    first = thread * part
    other = ir.variable("other")
    sum_before = _held(output).store(
        0, ir.Binary(op=combined(scan.reducer, output.dtype), left=held, right=shared[other])
    )
    is_before = (other - thread).below(0)
    before = ir.serial("other", threads, ir.under((is_before,), (sum_before,)))
    told = (shared.store(thread, held),)
    body = (
        *_scanned(scan, parameters, outer, inner, first, part, None, told=told),
        ir.Barrier(),
        *_scanned(scan, parameters, outer, inner, first, part, before),
    )
    block: ir.Block = (ir.threads(threads, body),)
    block = frame.enclose((ir.Allocate(buffer=shared, body=block),))
    return ir.program(parameters, "row", rows, block)


# Updates.


def _updates(
    updates: Updates, held: Held, parameters: tuple[ir.Buffer, ...], threads: int
) -> tuple[ir.Program, ...]:
    output = parameters[-1]
    first = start(updates, ITEM, held, output.dtype)
    copy = (output.store(ITEM, first),)
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
    selection: Selection, parameters: tuple[ir.Buffer, ...], threads: int
) -> tuple[ir.Program, ...]:
    x, output = parameters

    def key_at(row: ir.Affine, t: ir.Affine) -> ir.Expression:
        entry = x[row * selection.extent + t]
        return key(entry, x.dtype, largest=selection.largest)

    def told(row: ir.Affine, r: ir.Affine, place: ir.Expression) -> ir.Statement:
        return output.store(row * selection.count + r, place)

    if selection.extent * selection.count <= MOST_FOUND_ONE_BY_ONE:
        found = found_one_by_one(
            selection, lambda t: key_at(ITEM, t), lambda r, place: told(ITEM, r, place)
        )
        return (_threads_for(selection.rows, threads, found, parameters),)
    entries = selection.rows * selection.extent
    names = ("keys", "places", "other_keys", "other_places")
    buffers = tuple(ir.scratch(name, entries, DType.I32) for name in names)
    sorting = _Sorting(
        selection.extent, threads, (buffers[0], buffers[1]), (buffers[2], buffers[3])
    )
    row, r = ir.variable("row"), ir.variable("r")
    t = sorting.t
    biased = key_at(row, t) + LEAST
    at = sorting.row + t
    fill = (buffers[0].store(at, biased), buffers[1].store(at, ir.value(t)))
    steps = -(-selection.count // threads)
    rank = r * threads + sorting.thread
    frame = ir.Frame(ranges={"r": (0, steps - 1), "thread": (0, threads - 1)})
    tell = told(row, rank, buffers[1][sorting.row + rank])
    in_output = frame.undecided((rank.below(selection.count),))
    body: ir.Block = (
        *sorting.part(fill),
        *ir.serial("round", PASSES // 2, sorting.two_passes()),
        *ir.serial("r", steps, ir.under(in_output, (tell,))),
    )
    body = (ir.threads(threads, body),)
    body = ir.allocated((sorting.counts, sorting.starts), body)
    program = ir.program((*parameters, *buffers), "row", selection.rows, body)
    return (program,)


Pairs = tuple[ir.Buffer, ir.Buffer]
"""Keys and places."""


class _Sorting:
    """Sorts keys of one row, which are numbers of 32 bits from 0 as bits of i32, and with them
    their places."""

    def __init__(self, extent: int, threads: int, held: Pairs, other: Pairs) -> None:
        self._extent, self._threads = extent, threads
        self._held, self._other = held, other
        self._length = -(-extent // threads)
        self.counts = ir.shared("counts", DIGITS * threads, DType.I32)
        self.starts = ir.shared("starts", DIGITS, DType.I32)
        self.thread = ir.variable("thread")
        self.row = ir.variable("row") * extent
        self.t = self.thread * self._length + ir.variable("t")

    def part(self, body: ir.Block) -> ir.Block:
        """Runs `body` for each entry `t` of the thread's part of the row."""
        frame = ir.Frame(ranges={"thread": (0, self._threads - 1), "t": (0, self._length - 1)})
        exists = frame.undecided((self.t.below(self._extent),))
        return ir.serial("t", self._length, ir.under(exists, body))

    def two_passes(self) -> ir.Block:
        """Makes the passes of number `round`: by the next two digits."""
        return (
            ir.Barrier(storage=True),
            *self._pass(self._held, self._other, 0),
            ir.Barrier(storage=True),
            *self._pass(self._other, self._held, DIGIT_BITS),
            ir.Barrier(storage=True),
        )

    def _pass(self, source: Pairs, target: Pairs, start_bit: int) -> ir.Block:
        shift = ir.value(ir.variable("round") * (2 * DIGIT_BITS) + start_bit)
        entry = self.row + self.t
        digit, d, slot = (ir.variable(name) for name in ("digit", "d", "slot"))
        bits = source[0][entry] >> shift

        def of_entry(*body: ir.Statement) -> ir.Block:
            value = bits & DIGITS - 1
            return (ir.let("digit", value, DIGITS - 1, body),)

        own = digit * self._threads + self.thread
        count = self.counts[own]
        counted = self.counts.store(own, count + 1)
        column = d * self._threads + self.thread
        at = self.row + slot
        place = count + self.starts[digit]
        moved = ir.let(
            "slot",
            place,
            self._extent - 1,
            (*(to.store(at, of[entry]) for of, to in zip(source, target, strict=True)), counted),
        )
        return (
            *ir.serial("d", DIGITS, (self.counts.store(column, 0),)),
            *self.part(of_entry(counted)),
            ir.Barrier(),
            *ir.under((self.thread.below(DIGITS),), self._counts_before()),
            ir.Barrier(),
            *ir.under((self.thread.below(1),), self._starts_before()),
            ir.Barrier(),
            *self.part(of_entry(moved)),
        )

    def _counts_before(self) -> ir.Block:
        """For the digit of the thread's number: counts become those of all threads before."""
        other = self.thread * self._threads + ir.variable("other")
        return _running(self.counts, other, "other", self._threads, self.starts, self.thread)

    def _starts_before(self) -> ir.Block:
        return _running(self.starts, ir.variable("other"), "other", DIGITS, None, ir.ZERO)


def _running(
    counts: ir.Buffer,
    at: ir.Affine,
    var: str,
    length: int,
    all_of: ir.Buffer | None,
    told: ir.Affine,
) -> ir.Block:
    """Each count becomes the sum of those before it; that of all is stored, where wanted."""
    running = ir.local("running", 1, DType.I32)
    held, before = running[0], ir.variable("before")
    step = ir.let(
        "before",
        held,
        LARGEST_COUNT,
        (running.store(0, held + counts[at]), counts.store(at, ir.value(before))),
    )
    body: ir.Block = (running.store(0, 0), *ir.serial(var, length, (step,)))
    if all_of is not None:
        body = (*body, all_of.store(told, held))
    return (ir.Allocate(buffer=running, body=body),)

"""The place of the largest of a[1, n] for WebGPU, the first of several.

    dispatch    parts workgroups, then one where there are several
    thread      entries place, place + parts · threads, …: the largest, and where it is; then pairs
                of threads, half as many each time, through workgroup memory

A thread meets places in rising order and keeps the first; of two threads with equal entries the
lower place is kept. Parts leave places as numbers of f32, which hold all that a workload may have.
"""

from collections.abc import Callable

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.decoding import LOWEST
from services.tuner import ir
from services.tuner.schedules.argmax.webgpu_config import WebgpuArgmaxConfig, count_of
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram

BEST = ir.local("best", 1)
PLACE = ir.local("place", 1, DType.I32)
Read = Callable[[ir.Affine], tuple[ir.Expression, ir.Expression]]
"""The entry at a place of what is searched, and its own place."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuArgmaxConfig.of(candidate), candidate.workload
    count, parameters = count_of(workload), parameters_of(workload)
    entries, output = parameters

    def entry(at: ir.Affine) -> tuple[ir.Expression, ir.Expression]:
        return entries[at], ir.value(at)

    def told(place: ir.Expression) -> ir.Block:
        return (output.store(0, place),)

    if config.parts == 1:
        return ScheduledProgram(
            nests=(_search(config.threads, 1, count, parameters, entry, lambda *_: told(_[1])),)
        )
    bests = ir.scratch("bests", config.parts)
    places = ir.scratch("places", config.parts)
    parameters = (*parameters, bests, places)

    def kept(best: ir.Expression, place: ir.Expression, part: ir.Affine) -> ir.Block:
        return (bests.store(part, best), places.store(part, place.cast(DType.F32)))

    def part(at: ir.Affine) -> tuple[ir.Expression, ir.Expression]:
        place = places[at].cast(DType.I32)
        return bests[at], place

    threads = max(32, min(config.threads, 1 << (config.parts - 1).bit_length()))
    return ScheduledProgram(
        nests=(
            _search(config.threads, config.parts, count, parameters, entry, kept),
            _search(threads, 1, config.parts, parameters, part, lambda *_: told(_[1])),
        )
    )


def _search(
    threads: int,
    groups: int,
    count: int,
    parameters: tuple[ir.Buffer, ...],
    read: Read,
    stored: Callable[[ir.Expression, ir.Expression, ir.Affine], ir.Block],
) -> ir.Program:
    """Finds the place of the largest of `count` by all threads of each workgroup; `stored` is what
    its first thread does with the entry and the place."""
    frame = ir.Frame()
    group, thread = frame.variable("group", groups), frame.variable("thread", threads)
    bests, places = (
        ir.shared(f"shared_{name}{groups}", threads, dtype)
        for name, dtype in (("best", DType.F32), ("place", DType.I32))
    )
    steps = -(-count // (threads * groups))
    inside = frame.nested()
    step = inside.variable("step", steps)
    at = (step * groups + group) * threads + thread
    exists = inside.undecided((at.below(count),))
    entry, place = read(at)
    body: list[ir.Statement] = [
        BEST.store(0, ir.number(LOWEST)),
        PLACE.store(0, ir.whole(count - 1)),
        *ir.serial("step", steps, ir.under(exists, _better(entry, place, _is_larger(entry)))),
        bests.store(thread, BEST[0]),
        places.store(thread, PLACE[0]),
        ir.Barrier(),
    ]
    half = threads // 2
    while half:
        other = thread + half
        entry, place = bests[other], places[other]
        kept = (
            *_better(entry, place, _is_before(entry, place)),
            bests.store(thread, BEST[0]),
            places.store(thread, PLACE[0]),
        )
        body += (*ir.under((thread.below(half),), kept), ir.Barrier())
        half //= 2
    found = BEST[0], PLACE[0]
    body += ir.under((thread.below(1),), stored(*found, group))
    block: ir.Block = tuple(body)
    block = ir.allocated((BEST, PLACE), block)
    block = (ir.threads(threads, frame.enclose(block)),)
    block = ir.allocated((bests, places), block)
    return ir.program(parameters, "group", groups, block)


def _is_larger(entry: ir.Expression) -> ir.Expression:
    return BEST[0].less(entry)


def _is_before(entry: ir.Expression, place: ir.Expression) -> ir.Expression:
    """Returns whether an entry is larger, or as large and before."""
    equal = BEST[0].equals(entry)
    before = place.less(PLACE[0])
    tie = equal & before
    return _is_larger(entry) | tie


def _better(entry: ir.Expression, place: ir.Expression, holds: ir.Expression) -> ir.Block:
    """The place first, as the condition reads the entry that was best so far."""
    held = PLACE[0]
    return (PLACE.store(0, ir.select(holds, place, held)), BEST.store(0, BEST[0].max(entry)))

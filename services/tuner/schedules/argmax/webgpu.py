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
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import ZERO, Frame, binary, loop, number, serial, under, whole
from services.tuner.ir.nodes import (
    Allocate,
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Cast,
    Compare,
    CompareOp,
    Expression,
    IndexValue,
    Load,
    LoopKind,
    Program,
    Scope,
    Select,
    Statement,
    Store,
)
from services.tuner.schedules.argmax.webgpu_config import WebgpuArgmaxConfig, count_of
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram

BEST = Buffer(name="best", scope=Scope.LOCAL, dtype=DType.F32, size=1)
PLACE = Buffer(name="place", scope=Scope.LOCAL, dtype=DType.I32, size=1)
Read = Callable[[Affine], tuple[Expression, Expression]]
"""The entry at a place of what is searched, and its own place."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuArgmaxConfig.of(candidate), candidate.workload
    count, parameters = count_of(workload), parameters_of(workload)
    entries, output = parameters

    def entry(at: Affine) -> tuple[Expression, Expression]:
        return Load(buffer=entries, index=at), IndexValue(index=at)

    def told(place: Expression) -> Block:
        return (Store(buffer=output, index=ZERO, value=place),)

    if config.parts == 1:
        return ScheduledProgram(
            nests=(_search(config.threads, 1, count, parameters, entry, lambda *_: told(_[1])),)
        )
    bests = Buffer(name="bests", scope=Scope.GLOBAL, dtype=DType.F32, size=config.parts)
    places = Buffer(name="places", scope=Scope.GLOBAL, dtype=DType.F32, size=config.parts)
    parameters = (*parameters, bests, places)

    def kept(best: Expression, place: Expression, part: Affine) -> Block:
        return (
            Store(buffer=bests, index=part, value=best),
            Store(buffer=places, index=part, value=Cast(value=place, dtype=DType.F32)),
        )

    def part(at: Affine) -> tuple[Expression, Expression]:
        place = Cast(value=Load(buffer=places, index=at), dtype=DType.I32)
        return Load(buffer=bests, index=at), place

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
    parameters: tuple[Buffer, ...],
    read: Read,
    stored: Callable[[Expression, Expression, Affine], Block],
) -> Program:
    """Where the largest of `count` is, found by all threads of each workgroup; `stored` is what its
    first thread does with the entry and the place."""
    frame = Frame()
    group, thread = frame.variable("group", groups), frame.variable("thread", threads)
    bests, places = (
        Buffer(name=f"shared_{name}{groups}", scope=Scope.WORKGROUP, dtype=dtype, size=threads)
        for name, dtype in (("best", DType.F32), ("place", DType.I32))
    )
    steps = -(-count // (threads * groups))
    inside = frame.nested()
    step = inside.variable("step", steps)
    at = step.times(groups).plus(group).times(threads).plus(thread)
    exists = inside.undecided((Bound(index=at, limit=count),))
    entry, place = read(at)
    body: list[Statement] = [
        Store(buffer=BEST, index=ZERO, value=number(LOWEST)),
        Store(buffer=PLACE, index=ZERO, value=whole(count - 1)),
        *serial("step", steps, under(exists, _better(entry, place, _is_larger(entry)))),
        Store(buffer=bests, index=thread, value=Load(buffer=BEST, index=ZERO)),
        Store(buffer=places, index=thread, value=Load(buffer=PLACE, index=ZERO)),
        Barrier(),
    ]
    half = threads // 2
    while half:
        other = thread.plus(Affine(constant=half))
        entry, place = Load(buffer=bests, index=other), Load(buffer=places, index=other)
        kept = (
            *_better(entry, place, _is_before(entry, place)),
            Store(buffer=bests, index=thread, value=Load(buffer=BEST, index=ZERO)),
            Store(buffer=places, index=thread, value=Load(buffer=PLACE, index=ZERO)),
        )
        body += (*under((Bound(index=thread, limit=half),), kept), Barrier())
        half //= 2
    found = Load(buffer=BEST, index=ZERO), Load(buffer=PLACE, index=ZERO)
    body += under((Bound(index=thread, limit=1),), stored(*found, group))
    block: Block = tuple(body)
    for buffer in (BEST, PLACE):
        block = (Allocate(buffer=buffer, body=block),)
    block = (loop("thread", threads, LoopKind.THREAD_INDEX, frame.enclose(block)),)
    for buffer in (bests, places):
        block = (Allocate(buffer=buffer, body=block),)
    return Program(parameters=parameters, body=loop("group", groups, LoopKind.RANGE, block))


def _is_larger(entry: Expression) -> Expression:
    return Compare(op=CompareOp.LT, left=Load(buffer=BEST, index=ZERO), right=entry)


def _is_before(entry: Expression, place: Expression) -> Expression:
    """Whether an entry is larger, or as large and before."""
    equal = Compare(op=CompareOp.EQ, left=Load(buffer=BEST, index=ZERO), right=entry)
    before = Compare(op=CompareOp.LT, left=place, right=Load(buffer=PLACE, index=ZERO))
    tie = binary(BinaryOp.AND, equal, before)
    return binary(BinaryOp.OR, _is_larger(entry), tie)


def _better(entry: Expression, place: Expression, holds: Expression) -> Block:
    """The place first, as the condition reads the entry that was best so far."""
    held = Load(buffer=PLACE, index=ZERO)
    return (
        Store(buffer=PLACE, index=ZERO, value=Select(condition=holds, then=place, otherwise=held)),
        Store(
            buffer=BEST,
            index=ZERO,
            value=binary(BinaryOp.MAX, Load(buffer=BEST, index=ZERO), entry),
        ),
    )

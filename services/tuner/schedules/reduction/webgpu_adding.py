"""One value of all threads of a team: in workgroup memory, level by level, or by subgroups."""

from dataclasses import dataclass

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import ZERO, binary, under
from services.tuner.ir.nodes import (
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Expression,
    IndexValue,
    Load,
    Scope,
    Statement,
    Store,
    SubgroupReduce,
)
from services.tuner.schedules.reduction.webgpu_config import TeamConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """`value` is that of the whole team, once `block` has been done; it needs the buffers."""

    value: Expression
    block: Block = ()
    local: tuple[Buffer, ...] = ()
    shared: tuple[Buffer, ...] = ()


def added(
    config: TeamConfig, op: BinaryOp, part: Buffer, name: str, own: Affine, lane: Affine
) -> Added:
    """Of every element of `part` of every thread of a team. The thread is number `lane` of team
    number `own` of the workgroup; `name` is for the buffers."""
    parts = [Load(buffer=part, index=Affine(constant=place)) for place in range(part.size)]
    value = _pairwise(op, parts)
    if config.team == 1:
        return Added(value=value)
    if config.subgroups:
        return _by_subgroups(config, op, value, name, own.times(config.team).plus(lane))
    return _by_levels(config, op, value, name, own, lane)


def _shared(name: str, size: int) -> Buffer:
    return Buffer(name=name, scope=Scope.WORKGROUP, dtype=DType.F32, size=size)


def _by_subgroups(
    config: TeamConfig, op: BinaryOp, value: Expression, name: str, thread: Affine
) -> Added:
    whole = Buffer(name=f"whole{name}", scope=Scope.LOCAL, dtype=DType.F32, size=1)
    shared = _shared(f"team{name}", config.threads)
    reduced = SubgroupReduce(
        op=op, value=value, thread=IndexValue(index=thread), threads=config.team, shared=shared
    )
    return Added(
        value=Load(buffer=whole, index=ZERO),
        block=(Store(buffer=whole, index=ZERO, value=reduced),),
        local=(whole,),
        shared=(shared,),
    )


def _by_levels(
    config: TeamConfig, op: BinaryOp, value: Expression, name: str, own: Affine, lane: Affine
) -> Added:
    """The first threads of a team add up what lies apart, so that neighbours read neighbours; the
    last level is read by all of them."""
    counts = config.levels
    buffers = [_shared(f"team{name}.{n}", count * config.rows) for n, count in enumerate(counts)]
    place = own.times(config.team).plus(lane)
    found: list[Statement] = [Store(buffer=buffers[0], index=place, value=value), Barrier()]
    for level in range(1, len(counts)):
        count, above = counts[level], counts[level - 1]
        spread = _spread(op, buffers[level - 1], own.times(above).plus(lane), above, count)
        place = own.times(count).plus(lane)
        store = Store(buffer=buffers[level], index=place, value=spread)
        found += under((Bound(index=lane, limit=count),), (store,))
        found.append(Barrier())
    last = _spread(op, buffers[-1], own.times(counts[-1]), counts[-1], 1)
    return Added(value=last, block=tuple(found), shared=tuple(buffers))


def _spread(op: BinaryOp, buffer: Buffer, start: Affine, count: int, apart: int) -> Expression:
    return _pairwise(
        op,
        [
            Load(buffer=buffer, index=start.plus(Affine(constant=place)))
            for place in range(0, count, apart)
        ],
    )


def _pairwise(op: BinaryOp, parts: list[Load]) -> Expression:
    """A tree: nothing waits longer than it has to, and sums lose less."""
    values: list[Expression] = list(parts)
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [binary(op, *pair) for pair in pairs] + values[len(values) // 2 * 2 :]
    return values[0]

"""Checks what a program must keep at each stage of the passes: an executable specification of the
loop IR.

Tests check programs with it between passes. A fault names the rule that a pass broke, long before
a wrong kernel would show it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import gcd

from msgspec import structs

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, Bound, Range
from services.tuner.ir.nodes import (
    LANES,
    SHIFTS,
    Allocate,
    Assign,
    Barrier,
    Binary,
    Block,
    Buffer,
    Expression,
    If,
    IndexValue,
    Let,
    Load,
    Loop,
    LoopKind,
    Program,
    Register,
    RegisterRead,
    Scope,
    Statement,
    Store,
    SubgroupReduce,
    dtype_of,
    lanes_of,
)
from services.tuner.ir.rewrite import leaves, operands

LANE_COUNTS = (1, LANES)
"""At every stage: blocked transposition makes vectors before unrolling does."""


class Phase(StrEnum):
    """The passes have come so far with a program."""

    SCHEDULED = "scheduled"
    PARTITIONED = "partitioned"
    UNROLLED = "unrolled"
    SCALAR_REPLACED = "scalar-replaced"
    STRENGTH_REDUCED = "strength-reduced"


_BEFORE_UNROLLING = (Phase.SCHEDULED, Phase.PARTITIONED)
_WITH_REGISTERS = (Phase.SCALAR_REPLACED, Phase.STRENGTH_REDUCED)
_UNROLLED_AWAY = (LoopKind.UNROLLED, LoopKind.VECTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """A scope holds what is known at a statement.

    `held` are bounds that are known to hold, `pointers` those of the loops around. `assigned` has
    the registers assigned so far, in program order. Threads of a workgroup may have different
    values of variables that are `varying`, and come to different ends of a `conditional` block.
    """

    stage: Phase
    ranges: dict[str, Range]
    buffers: frozenset[str]
    held: tuple[Bound, ...] = ()
    pointers: frozenset[tuple[str, tuple[tuple[str, int], ...]]] = frozenset()
    threads: bool = False
    conditional: bool = False
    varying: frozenset[str] = frozenset()
    assigned: set[Register] = field(default_factory=set)


def faults(program: Program, stage: Phase) -> tuple[str, ...]:
    """A sentence for each violation of a rule of the stage; empty for a legal program."""
    scope = _Scope(
        stage=stage, ranges={}, buffers=frozenset(buffer.name for buffer in program.parameters)
    )
    wrong = () if program.body.kind is LoopKind.RANGE else ("the outermost loop is no range",)
    return (*wrong, *_loop(program.body, scope))


def _block(block: Block, scope: _Scope) -> Iterator[str]:
    for statement in block:
        yield from _statement(statement, scope)


def _statement(statement: Statement, scope: _Scope) -> Iterator[str]:
    match statement:
        case Store(value=SubgroupReduce() as reduced) | Assign(value=SubgroupReduce() as reduced):
            yield from _reduction(reduced, scope)
            yield from _statement(structs.replace(statement, value=reduced.value), scope)
        case Store(buffer=buffer, index=index, value=value):
            yield from _value(value, scope)
            yield from _access(buffer, index, lanes_of(value), scope)
        case Assign(register=register, value=value):
            yield from _value(value, scope)
            if scope.stage not in _WITH_REGISTERS:
                yield f"register {register.name} is assigned in a {scope.stage} program"
            if register.lanes != lanes_of(value) or register.dtype is not dtype_of(value):
                yield f"register {register.name} of {register.lanes} lanes gets another number"
            scope.assigned.add(register)
        case Loop(kind=LoopKind.RANGE):
            yield f"range loop {statement.var} is not the outermost"
        case Loop():
            yield from _loop(statement, scope)
        case Let():
            yield from _let(statement, scope)
        case If():
            yield from _condition(statement, scope)
        case Allocate(buffer=buffer, body=body):
            if buffer.scope is Scope.WORKGROUP and scope.threads:
                yield f"workgroup buffer {buffer.name} is allocated by each thread"
            if buffer.name in scope.buffers:
                yield f"buffer {buffer.name} is allocated inside itself"
            yield from _block(body, replace(scope, buffers=scope.buffers | {buffer.name}))
        case Barrier():
            if not scope.threads or scope.conditional:
                yield "a barrier stands where not every thread of a workgroup comes"


def _reduction(reduced: SubgroupReduce, scope: _Scope) -> Iterator[str]:
    if not scope.threads or scope.conditional:
        yield "threads are reduced where not every thread of a workgroup comes"
    if reduced.threads < 1 or reduced.threads & (reduced.threads - 1):
        yield f"{reduced.threads} threads are reduced; a subgroup has a power of two"
    yield from _value(reduced.thread, scope)
    match reduced.thread:
        case IndexValue(index=index) if _bound_variables(index, scope):
            lanes = lanes_of(reduced.value)
            yield from _access(reduced.shared, index * lanes, lanes, scope)


def _loop(loop: Loop, scope: _Scope) -> Iterator[str]:
    if loop.kind is LoopKind.THREAD_INDEX and scope.threads:
        yield f"thread loop {loop.var} stands inside another"
    if loop.extent < 1 or loop.var in scope.ranges:
        yield f"loop {loop.var} of extent {loop.extent} is empty or hides another"
    if loop.kind in _UNROLLED_AWAY and scope.stage not in _BEFORE_UNROLLING:
        yield f"{loop.kind} loop {loop.var} stands in a {scope.stage} program"
    if loop.pointers and scope.stage is not Phase.STRENGTH_REDUCED:
        yield f"loop {loop.var} has pointers in a {scope.stage} program"
    for pointer in loop.pointers:
        if pointer.parent and (pointer.buffer.name, pointer.parent) not in scope.pointers:
            yield f"a pointer of loop {loop.var} starts at one that does not exist"
    inside = replace(
        scope,
        ranges={**scope.ranges, loop.var: (0, loop.extent - 1)},
        pointers=scope.pointers | {(p.buffer.name, p.terms) for p in loop.pointers},
        threads=scope.threads or loop.kind is LoopKind.THREAD_INDEX,
        varying=scope.varying | ({loop.var} if loop.kind is LoopKind.THREAD_INDEX else set()),
    )
    yield from _block(loop.body, inside)


def _let(let: Let, scope: _Scope) -> Iterator[str]:
    yield from _value(let.value, scope)
    if let.low > let.high or let.var in scope.ranges:
        yield f"value {let.var} from {let.low} to {let.high} is empty or hides another"
    if lanes_of(let.value) != 1 or dtype_of(let.value) is not DType.I32:
        yield f"value {let.var} is no single i32"
    inside = replace(
        scope,
        ranges={**scope.ranges, let.var: (let.low, let.high)},
        pointers=scope.pointers | {(p.buffer.name, p.terms) for p in let.pointers},
        varying=scope.varying | ({let.var} if _varies(let.value, scope) else set()),
    )
    yield from _block(let.body, inside)


def _varies(value: Expression, scope: _Scope) -> bool:
    """Returns whether threads of a workgroup may have different values. What lies in storage is
    taken to be the same for all that read it at one index: nobody writes what decides a
    condition."""
    for leaf in leaves(value):
        match leaf:
            case RegisterRead():
                return True
            case Load(buffer=buffer) if buffer.scope is Scope.LOCAL:
                return True
            case Load(index=index) | IndexValue(index=index):
                if any(var in scope.varying for var, _ in index.terms):
                    return True
    return False


def _condition(statement: If, scope: _Scope) -> Iterator[str]:
    for bound in statement.bounds:
        if not _bound_variables(bound.index, scope):
            yield f"a condition names a variable that no loop binds: {bound.index}"
            return
        low, high = bound.index.bounds(scope.ranges)
        if scope.stage is not Phase.SCHEDULED and not low < bound.limit <= high:
            yield f"a condition of a {scope.stage} program is decided: {bound}"
    differs = any(var in scope.varying for each in statement.bounds for var, _ in each.index.terms)
    scope = replace(scope, conditional=scope.conditional or differs)
    yield from _block(statement.body, _narrowed(scope, statement.bounds))
    raised = scope
    if len(statement.bounds) == 1:
        raised = _raised(scope, statement.bounds[0])
    yield from _block(statement.otherwise, raised)


def _narrowed(scope: _Scope, bounds: tuple[Bound, ...]) -> _Scope:
    """The scope where the bounds hold: ranges shrink by bounds of one variable alone."""
    ranges = dict(scope.ranges)
    for bound in bounds:
        match bound.index.terms:
            case ((var, factor),):
                low, high = ranges[var]
                spare = bound.limit - 1 - bound.index.constant
                if factor > 0:
                    ranges[var] = (low, min(high, spare // factor))
                else:
                    ranges[var] = (max(low, -(spare // -factor)), high)
    varying = tuple(bound for bound in bounds if bound.index.terms)
    return replace(scope, ranges=ranges, held=(*scope.held, *varying))


def _limits(index: Affine, scope: _Scope) -> Range:
    """Smallest and largest value, given the ranges and the bounds on sums of variables."""
    return _limits_by(index, scope.held, scope.ranges)


def _limits_by(index: Affine, held: tuple[Bound, ...], ranges: dict[str, Range]) -> Range:
    low, high = index.bounds(ranges)
    for position, bound in enumerate(held):
        var, factor = bound.index.terms[0]
        times = index.coefficient(var) // factor
        if not times:
            continue
        rest = index - bound.index * times
        edge = times * _largest(bound)
        below, above = _limits_by(rest, held[position + 1 :], ranges)
        if times > 0:
            high = min(high, edge + above)
        else:
            low = max(low, edge + below)
    return low, high


def _largest(bound: Bound) -> int:
    """The largest value of the index below the limit, in steps of the gcd of its factors."""
    step = gcd(*(factor for _, factor in bound.index.terms))
    constant = bound.index.constant
    return constant + (bound.limit - 1 - constant) // step * step


def _raised(scope: _Scope, bound: Bound) -> _Scope:
    """The scope where a bound does not hold, which is where the opposite bound does."""
    opposite = Bound(index=bound.index * -1, limit=1 - bound.limit)
    return _narrowed(scope, (opposite,))


def _value(value: Expression, scope: _Scope) -> Iterator[str]:
    match value:
        case Load(buffer=buffer, index=index, lanes=lanes):
            yield from _access(buffer, index, lanes, scope)
        case RegisterRead(register=register) if register not in scope.assigned:
            yield f"register {register.name} is read before it is assigned"
        case SubgroupReduce():
            yield "a reduction over threads is not all of a value"
        case IndexValue(index=index) if not _bound_variables(index, scope):
            yield f"an index value names a variable that no loop binds: {index}"
    lanes = lanes_of(value)
    if lanes not in LANE_COUNTS:
        yield f"a value has {lanes} lanes in a {scope.stage} program"
    shift = isinstance(value, Binary) and value.op in SHIFTS
    below = operands(value)[:1] if shift else operands(value)
    if len(below) > 1 and len({lanes_of(operand) for operand in below}) > 1:
        yield f"{type(value).__name__} mixes numbers of lanes"
    for operand in below:
        yield from _value(operand, scope)


def _access(buffer: Buffer, index: Affine, lanes: int, scope: _Scope) -> Iterator[str]:
    if buffer.name not in scope.buffers:
        yield f"buffer {buffer.name} is used where it does not exist"
    if not _bound_variables(index, scope):
        yield f"an index of {buffer.name} names a variable that no loop binds: {index}"
        return
    low, high = _limits(index, scope)
    if scope.stage not in _BEFORE_UNROLLING and (low < 0 or high + lanes > buffer.size):
        yield f"{buffer.name}[{low} … {high + lanes - 1}] leaves its {buffer.size} elements"
    reduced = scope.stage is Phase.STRENGTH_REDUCED
    if reduced and index.terms and (buffer.name, index.terms) not in scope.pointers:
        yield f"an index of {buffer.name} has no pointer: {index}"


def _bound_variables(index: Affine, scope: _Scope) -> bool:
    return all(var in scope.ranges for var, _ in index.terms)

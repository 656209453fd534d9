"""What nests that take values in order have in common on all targets: keys by which entries are
ordered, and updates at places that another tensor names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import expressions as domain
from kernelzoo.domain.operators.expressions import Reducer, number
from kernelzoo.domain.operators.ordered import Selection, Updates
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import ZERO, binary, constant, serial, under, whole
from services.tuner.ir.nodes import (
    Allocate,
    Binary,
    BinaryOp,
    Bitcast,
    Block,
    Bound,
    Buffer,
    Compare,
    CompareOp,
    Const,
    Expression,
    IndexValue,
    Let,
    Load,
    Loop,
    LoopKind,
    Scope,
    Select,
    Statement,
    Store,
)
from services.tuner.schedules.base.parameters import Held

_COMBINED = {
    Reducer.SUM: BinaryOp.ADD,
    Reducer.PROD: BinaryOp.MUL,
    Reducer.MAX: BinaryOp.MAX,
    Reducer.MIN: BinaryOp.MIN,
}
_OF_REALS = {Reducer.MAX: BinaryOp.MAXIMUM, Reducer.MIN: BinaryOp.MINIMUM}
"""Those that keep NaN."""
NEUTRAL = {Reducer.SUM: 0, Reducer.PROD: 1}
LEAST, MOST = DType.I32.value_range
_MAGNITUDE = MOST
_INFINITE = 0x7F800000
INTEGER_BITS = 32


def combined(reducer: Reducer, dtype: DType) -> BinaryOp:
    """What puts a value to those before."""
    if dtype.compute_dtype is DType.F32 and reducer in _OF_REALS:
        return _OF_REALS[reducer]
    return _COMBINED[reducer]


def of_dtype(value: float, dtype: DType) -> Const:
    compute = dtype.compute_dtype
    return Const(value=int(value) if compute is DType.I32 else value, dtype=compute)


def integers(name: str, size: int, scope: Scope) -> Buffer:
    return Buffer(name=name, scope=scope, dtype=DType.I32, size=size)


def less(left: Expression, right: Expression) -> Compare:
    return Compare(op=CompareOp.LT, left=left, right=right)


def same(left: Expression, right: Expression) -> Compare:
    return Compare(op=CompareOp.EQ, left=left, right=right)


def both(left: Expression, right: Expression) -> Binary:
    return binary(BinaryOp.AND, left, right)


def when(name: str, condition: Expression, body: Block, otherwise: Block = ()) -> Block:
    """Runs the body where a condition on entries holds: a variable that is 0 there. Without a body
    it is 0 elsewhere."""
    holds, fails = (whole(0), whole(1)) if body else (whole(1), whole(0))
    value = Select(condition=condition, then=holds, otherwise=fails)
    bound = Bound(index=Affine.variable(name), limit=1)
    inside = under((bound,), body, otherwise) if body else under((bound,), otherwise)
    return (Let(var=name, value=value, low=0, high=1, body=inside),)


def key(entry: Expression, dtype: DType, *, largest: bool) -> Expression:
    """An integer that is the lower, the earlier an entry comes. The bits of a real number are a
    sign and a magnitude, which is the order of its size; NaN is above all, and both zeros are 0."""
    if dtype.compute_dtype is DType.F32:
        bits = Bitcast(value=entry, dtype=DType.I32)
        magnitude = binary(BinaryOp.AND, bits, whole(_MAGNITUDE))
        signed = Select(
            condition=less(bits, whole(0)),
            then=binary(BinaryOp.SUB, whole(0), magnitude),
            otherwise=bits,
        )
        entry = Select(
            condition=less(whole(_INFINITE), magnitude), then=whole(MOST), otherwise=signed
        )
    return binary(BinaryOp.SUB, whole(-1), entry) if largest else entry


def digit_of(value: Expression, start: int, bits: int) -> Expression:
    """So many bits of a key from bit `start` on, as a number from 0. That of the highest bits, with
    the sign, rises as keys do."""
    if start:
        value = binary(BinaryOp.SHIFT_RIGHT, value, whole(start))
    top = 1 << (bits - 1)
    if start + bits == INTEGER_BITS:
        value = binary(BinaryOp.ADD, value, whole(top))
    return binary(BinaryOp.AND, value, whole(2 * top - 1))


KeyAt = Callable[[Affine], Expression]
"""The key of an entry of a row."""
Told = Callable[[Affine, Expression], Statement]
"""Stores which place a rank has."""


def found_one_by_one(selection: Selection, key_at: KeyAt, told: Told) -> Block:
    """For each rank the first of all entries that come after the one of the rank before."""
    names = ("best", "best_place", "last", "last_place")
    best, best_place, last, last_place = (integers(name, 1, Scope.LOCAL) for name in names)
    t, r = Affine.variable("t"), Affine.variable("r")

    def held(buffer: Buffer) -> Load:
        return Load(buffer=buffer, index=ZERO)

    def keep(buffer: Buffer, value: Expression) -> Store:
        return Store(buffer=buffer, index=ZERO, value=value)

    after = binary(
        BinaryOp.OR,
        less(held(last), key_at(t)),
        both(same(held(last), key_at(t)), less(held(last_place), IndexValue(index=t))),
    )
    none_yet = same(held(best_place), whole(selection.extent))
    better = both(after, binary(BinaryOp.OR, none_yet, less(key_at(t), held(best))))
    body: Block = (
        keep(last, whole(LEAST)),
        keep(last_place, whole(-1)),
        *serial(
            "r",
            selection.count,
            (
                keep(best, whole(MOST)),
                keep(best_place, whole(selection.extent)),
                *serial(
                    "t",
                    selection.extent,
                    when(
                        "take",
                        better,
                        (keep(best, key_at(t)), keep(best_place, IndexValue(index=t))),
                    ),
                ),
                told(r, held(best_place)),
                keep(last, held(best)),
                keep(last_place, held(best_place)),
            ),
        ),
    )
    for buffer in (best, best_place, last, last_place):
        body = (Allocate(buffer=buffer, body=body),)
    return body


Read = Callable[[str, Sequence[Affine]], Load]
"""The entry of a tensor at a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateNest:
    """Loops over the axes of updates, `given` excepted, whose places are known. `entry` reads an
    input, `output` is written; its row-major place is that of the stage's shape."""

    updates: Updates
    entry: Read
    output: Buffer

    def block(self, given: dict[str, Affine]) -> Block:
        """Each place is bound as soon as the axes that it is read at are, and its bounds stand
        there: a row that is written as a whole is one loop without a condition."""
        return self._inside(dict(given), {}, 0)

    def _inside(self, axes: dict[str, Affine], places: dict[int, Affine], depth: int) -> Block:
        for number_, part in enumerate(self.updates.value.at):
            if number_ not in places and _axes_in(part) <= axes.keys():
                return self._bound(axes, places, depth, number_)
        over = self.updates.over
        while depth < len(over) and over[depth].name in axes:
            depth += 1
        if depth == len(over):
            return (self._store(axes, places),)
        axis = over[depth]
        extent = number(axis.extent)
        if extent == 1:
            return self._inside({**axes, axis.name: ZERO}, places, depth + 1)
        var = f"over{depth}"
        body = self._inside({**axes, axis.name: Affine.variable(var)}, places, depth + 1)
        return (Loop(var=var, extent=extent, kind=LoopKind.SERIAL, body=body),) if body else ()

    def _bound(
        self, axes: dict[str, Affine], places: dict[int, Affine], depth: int, number_: int
    ) -> Block:
        """The rest under the condition that a place lies within the stage. It is kept within one
        entry of it before, so that no condition that a pass may lose leads far outside."""
        part, extent = self.updates.value.at[number_], self.updates.shape[number_]
        if isinstance(part, domain.Axis):
            at = axes[part.name]
            inside = self._inside(axes, {**places, number_: at}, depth)
            whole_axis = number(part.extent) <= extent
            return inside if whole_axis else under((Bound(index=at, limit=extent),), inside)
        if isinstance(part, domain.Integer):
            at = constant(part.value)
            is_inside = 0 <= part.value < extent
            return self._inside(axes, {**places, number_: at}, depth) if is_inside else ()
        if not isinstance(part, domain.Read):
            raise UnsupportedProgram(f"{part} is no place that updates are written at")
        var = f"place{number_}"
        at = Affine.variable(var)
        value = binary(
            BinaryOp.MIN,
            binary(BinaryOp.MAX, self._read(part, axes), whole(-1)),
            whole(extent),
        )
        bounds = (Bound(index=at, limit=extent), Bound(index=at.times(-1), limit=1))
        body = under(bounds, self._inside(axes, {**places, number_: at}, depth))
        return (Let(var=var, value=value, low=-1, high=extent, body=body),)

    def _read(self, read: domain.Read, axes: dict[str, Affine]) -> Load:
        return self.entry(read.tensor, [_affine(place, axes) for place in read.at])

    def _store(self, axes: dict[str, Affine], places: dict[int, Affine]) -> Store:
        index = ZERO
        for number_, extent in enumerate(self.updates.shape):
            index = index.times(extent).plus(places[number_])
        value = self._update(axes)
        if self.updates.reducer is not Reducer.LAST:
            held = Load(buffer=self.output, index=index)
            value = binary(combined(self.updates.reducer, self.output.dtype), held, value)
        return Store(buffer=self.output, index=index, value=value)

    def _update(self, axes: dict[str, Affine]) -> Expression:
        match self.updates.value.update:
            case domain.Real(value) | domain.Integer(value):
                return of_dtype(value, self.output.dtype)
            case domain.Read() as read:
                return self._read(read, axes)
        raise UnsupportedProgram(f"{self.updates.value.update} is no entry to update by")


def entry_of(held: Held) -> Read:
    """How buffers that are held by the names of tensors are read."""

    def entry(tensor: str, at: Sequence[Affine]) -> Load:
        buffer, shape = held[tensor]
        index = ZERO
        for place, extent in zip(at, shape, strict=True):
            index = index.times(extent).plus(place)
        return Load(buffer=buffer, index=index)

    return entry


def start(updates: Updates, index: Affine, held: Held, dtype: DType) -> Expression:
    """What a flat place of the stage has before any update."""
    match updates.value.initial:
        case domain.Real(value) | domain.Integer(value):
            return of_dtype(value, dtype)
        case domain.Read(tensor):
            return Load(buffer=held[tensor][0], index=index)
    raise UnsupportedProgram(f"{updates.value.initial} is nothing to start as")


def own_axes(updates: Updates) -> list[int]:
    """Places of the stage along which each update is written at its own axis: updates at different
    places along them meet nowhere."""
    found = [n for n, part in enumerate(updates.value.at) if isinstance(part, domain.Axis)]
    named = [updates.value.at[n] for n in found]
    return [n for n in found if named.count(updates.value.at[n]) == 1]


def _affine(place: domain.Expression, axes: dict[str, Affine]) -> Affine:
    match place:
        case domain.Integer(value):
            return constant(value)
        case domain.Axis(name):
            return axes[name]
    raise UnsupportedProgram(f"{place} is neither an axis nor a number")


def _axes_in(part: domain.Expression) -> set[str]:
    return {each.name for each in domain.parts(part) if isinstance(each, domain.Axis)}

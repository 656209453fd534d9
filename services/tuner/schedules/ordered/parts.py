"""Nests that take values in order have these in common on all targets: keys by which entries are
ordered, and updates at places that another tensor names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import expressions as domain
from kernelzoo.domain.operators.expressions import Reducer, number
from kernelzoo.domain.operators.ordered import Selection, Updates
from kernelzoo.errors import UnsupportedProgram
from services.tuner import ir
from services.tuner.schedules.base.parameters import Held
from services.tuner.schedules.base.places import row_major

_COMBINED = {
    Reducer.SUM: ir.BinaryOp.ADD,
    Reducer.PROD: ir.BinaryOp.MUL,
    Reducer.MAX: ir.BinaryOp.MAX,
    Reducer.MIN: ir.BinaryOp.MIN,
}
_OF_REALS = {Reducer.MAX: ir.BinaryOp.MAXIMUM, Reducer.MIN: ir.BinaryOp.MINIMUM}
"""Operations that keep NaN."""
NEUTRAL = {Reducer.SUM: 0, Reducer.PROD: 1}
LEAST, MOST = DType.I32.value_range
_MAGNITUDE = MOST
_INFINITE = 0x7F800000
INTEGER_BITS = 32


def combined(reducer: Reducer, dtype: DType) -> ir.BinaryOp:
    """Returns the operation that adds a value to those before."""
    if dtype.compute_dtype is DType.F32 and reducer in _OF_REALS:
        return _OF_REALS[reducer]
    return _COMBINED[reducer]


def of_dtype(value: float, dtype: DType) -> ir.Const:
    compute = dtype.compute_dtype
    return ir.Const(value=int(value) if compute is DType.I32 else value, dtype=compute)


def when(name: str, condition: ir.Expression, body: ir.Block, otherwise: ir.Block = ()) -> ir.Block:
    """Runs the body where a condition on entries holds: a variable that is 0 there. Without a body
    it is 0 elsewhere."""
    value = ir.select(condition, *((0, 1) if body else (1, 0)))
    bound = ir.variable(name).below(1)
    inside = ir.under((bound,), body, otherwise) if body else ir.under((bound,), otherwise)
    return (ir.let(name, value, 1, inside),)


def key(entry: ir.Expression, dtype: DType, *, largest: bool) -> ir.Expression:
    """An integer that is the lower, the earlier an entry comes. The bits of a real number are a
    sign and a magnitude, which is the order of its size; NaN is above all, and both zeros are 0."""
    if dtype.compute_dtype is DType.F32:
        bits = entry.bitcast(DType.I32)
        magnitude = bits & _MAGNITUDE
        signed = ir.select(bits.less(0), 0 - magnitude, bits)
        entry = ir.select(ir.whole(_INFINITE).less(magnitude), MOST, signed)
    return -1 - entry if largest else entry


def digit_of(value: ir.Expression, start: int, bits: int) -> ir.Expression:
    """So many bits of a key from bit `start` on, as a number from 0. That of the highest bits, with
    the sign, rises as keys do."""
    if start:
        value = value >> start
    top = 1 << (bits - 1)
    if start + bits == INTEGER_BITS:
        value = value + top
    return value & 2 * top - 1


KeyAt = Callable[[ir.Affine], ir.Expression]
"""The key of an entry of a row."""
Told = Callable[[ir.Affine, ir.Expression], ir.Statement]
"""Stores which place a rank has."""


def found_one_by_one(selection: Selection, key_at: KeyAt, told: Told) -> ir.Block:
    """For each rank the first of all entries that come after the one of the rank before."""
    names = ("best", "best_place", "last", "last_place")
    buffers = best, best_place, last, last_place = [ir.local(name, 1, DType.I32) for name in names]
    t, r = ir.variable("t"), ir.variable("r")
    # Equal keys rank by their places.
    after = last[0].less(key_at(t)) | last[0].equals(key_at(t)) & last_place[0].less(t)
    better = after & (best_place[0].equals(selection.extent) | key_at(t).less(best[0]))
    take = when("take", better, (best.store(0, key_at(t)), best_place.store(0, t)))
    find = (
        best.store(0, MOST),
        best_place.store(0, selection.extent),
        *ir.serial("t", selection.extent, take),
        told(r, best_place[0]),
        last.store(0, best[0]),
        last_place.store(0, best_place[0]),
    )
    start = (last.store(0, LEAST), last_place.store(0, -1))
    return ir.allocated(buffers, (*start, *ir.serial("r", selection.count, find)))


Read = Callable[[str, Sequence[ir.Affine]], ir.Load]
"""The entry of a tensor at a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateNest:
    """Loops over the axes of updates, `given` excepted, whose places are known. `entry` reads an
    input, `output` is written; its row-major place is that of the stage's shape."""

    updates: Updates
    entry: Read
    output: ir.Buffer

    def block(self, given: dict[str, ir.Affine]) -> ir.Block:
        """Each place is bound as soon as the axes that it is read at are, and its bounds stand
        there: a row that is written as a whole is one loop without a condition."""
        return self._inside(dict(given), {}, 0)

    def _inside(
        self, axes: dict[str, ir.Affine], places: dict[int, ir.Affine], depth: int
    ) -> ir.Block:
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
            return self._inside({**axes, axis.name: ir.ZERO}, places, depth + 1)
        var = f"over{depth}"
        body = self._inside({**axes, axis.name: ir.variable(var)}, places, depth + 1)
        return (
            (ir.Loop(var=var, extent=extent, kind=ir.LoopKind.SERIAL, body=body),) if body else ()
        )

    def _bound(
        self, axes: dict[str, ir.Affine], places: dict[int, ir.Affine], depth: int, number_: int
    ) -> ir.Block:
        """The rest under the condition that a place lies within the stage. It is kept within one
        entry of it before, so that no condition that a pass may lose leads far outside."""
        part, extent = self.updates.value.at[number_], self.updates.shape[number_]
        if isinstance(part, domain.Axis):
            at = axes[part.name]
            inside = self._inside(axes, {**places, number_: at}, depth)
            whole_axis = number(part.extent) <= extent
            return inside if whole_axis else ir.under((at.below(extent),), inside)
        if isinstance(part, domain.Integer):
            at = ir.constant(part.value)
            is_inside = 0 <= part.value < extent
            return self._inside(axes, {**places, number_: at}, depth) if is_inside else ()
        if not isinstance(part, domain.Read):
            raise UnsupportedProgram(f"{part} is no place that updates are written at")
        var = f"place{number_}"
        at = ir.variable(var)
        value = self._read(part, axes).max(-1).min(extent)
        bounds = (at.below(extent), at.at_least(0))
        body = ir.under(bounds, self._inside(axes, {**places, number_: at}, depth))
        return (ir.let(var, value, extent, body, low=-1),)

    def _read(self, read: domain.Read, axes: dict[str, ir.Affine]) -> ir.Load:
        return self.entry(read.tensor, [_affine(place, axes) for place in read.at])

    def _store(self, axes: dict[str, ir.Affine], places: dict[int, ir.Affine]) -> ir.Store:
        shape = self.updates.shape
        index = row_major((places[n] for n in range(len(shape))), shape)
        value = self._update(axes)
        if self.updates.reducer is not Reducer.LAST:
            held = self.output[index]
            value = ir.Binary(
                op=combined(self.updates.reducer, self.output.dtype), left=held, right=value
            )
        return self.output.store(index, value)

    def _update(self, axes: dict[str, ir.Affine]) -> ir.Expression:
        match self.updates.value.update:
            case domain.Real(value) | domain.Integer(value):
                return of_dtype(value, self.output.dtype)
            case domain.Read() as read:
                return self._read(read, axes)
        raise UnsupportedProgram(f"{self.updates.value.update} is no entry to update by")


def entry_of(held: Held) -> Read:
    """Returns a function that reads buffers by the names of tensors."""

    def entry(tensor: str, at: Sequence[ir.Affine]) -> ir.Load:
        buffer, shape = held[tensor]
        return buffer[row_major(at, shape)]

    return entry


def start(updates: Updates, index: ir.Affine, held: Held, dtype: DType) -> ir.Expression:
    """Returns what a flat place of the stage has before any update."""
    match updates.value.initial:
        case domain.Real(value) | domain.Integer(value):
            return of_dtype(value, dtype)
        case domain.Read(tensor):
            return held[tensor][0][index]
    raise UnsupportedProgram(f"{updates.value.initial} is nothing to start as")


def own_axes(updates: Updates) -> list[int]:
    """Places of the stage along which each update is written at its own axis: updates at different
    places along them meet nowhere."""
    found = [n for n, part in enumerate(updates.value.at) if isinstance(part, domain.Axis)]
    named = [updates.value.at[n] for n in found]
    return [n for n in found if named.count(updates.value.at[n]) == 1]


def _affine(place: domain.Expression, axes: dict[str, ir.Affine]) -> ir.Affine:
    match place:
        case domain.Integer(value):
            return ir.constant(value)
        case domain.Axis(name):
            return axes[name]
    raise UnsupportedProgram(f"{place} is neither an axis nor a number")


def _axes_in(part: domain.Expression) -> set[str]:
    return {each.name for each in domain.parts(part) if isinstance(each, domain.Axis)}

"""Builders for IR that templates write by hand, without a TVM front end.

`Frame` is the environment of a block: the ranges of the variables around it, and the Lets that the
block needs. A template asks it for variables, then wraps the finished block by `enclose`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, Bound, Range, variable
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Binary,
    BinaryOp,
    Block,
    Broadcast,
    Buffer,
    Call,
    Const,
    Expression,
    If,
    IndexValue,
    Let,
    Load,
    Loop,
    LoopKind,
    MathFunction,
    Operand,
    Program,
    Scope,
    Select,
    Statement,
    Store,
    lanes_of,
    operand,
)
from services.tuner.ir.rewrite import substitute

ZERO = Affine(constant=0)


def affine(constant: int = 0, **coefficients: int) -> Affine:
    """constant + Σ coefficient·variable, with variables by their names."""
    return Affine.of(constant, coefficients)


def constant(value: int) -> Affine:
    return Affine(constant=value)


def number(value: float) -> Const:
    return Const(value=value, dtype=DType.F32)


def numbers(value: float) -> Const:
    """The number in all lanes of a vector."""
    return Const(value=value, dtype=DType.F32, lanes=LANES)


def whole(value: int) -> Const:
    return Const(value=value, dtype=DType.I32)


def wholes(value: int) -> Const:
    """The whole number in all lanes of a vector."""
    return Const(value=value, dtype=DType.I32, lanes=LANES)


def value(index: Affine) -> IndexValue:
    """The value of a form, as an i32."""
    return IndexValue(index=index)


def splat(value: Expression) -> Broadcast:
    """The value in all lanes of a vector."""
    return Broadcast(value=value, lanes=LANES)


def select(condition: Expression, then: Operand, otherwise: Operand) -> Select:
    lanes = lanes_of(condition)
    return Select(
        condition=condition, then=operand(then, lanes), otherwise=operand(otherwise, lanes)
    )


def call(function: MathFunction, argument: Expression) -> Call:
    return Call(function=function, argument=argument)


def pairwise(values: Sequence[Expression], op: BinaryOp = BinaryOp.ADD) -> Expression:
    """Reduces at least one value in a tree: nothing waits longer than it has to, and sums lose
    less."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        joined = [Binary(op=op, left=left, right=right) for left, right in pairs]
        values = [*joined, *values[len(values) // 2 * 2 :]]
    return values[0]


def all_lanes(value: Expression, op: BinaryOp = BinaryOp.ADD) -> Expression:
    """Reduces the lanes of a vector; their sum, unless said."""
    return pairwise([value.extract(lane) for lane in range(LANES)], op)


def local(name: str, size: int, dtype: DType = DType.F32) -> Buffer:
    """Memory of one thread."""
    return Buffer(name=name, scope=Scope.LOCAL, dtype=dtype, size=size)


def parameter(name: str, size: int, dtype: DType = DType.F32) -> Buffer:
    """Memory that the caller of the kernel gives."""
    return Buffer(name=name, scope=Scope.PARAMETER, dtype=dtype, size=size)


def shared(name: str, size: int, dtype: DType = DType.F32) -> Buffer:
    """Memory of a workgroup."""
    return Buffer(name=name, scope=Scope.WORKGROUP, dtype=dtype, size=size)


def scratch(name: str, size: int, dtype: DType = DType.F32) -> Buffer:
    """Memory of one call of the kernel."""
    return Buffer(name=name, scope=Scope.GLOBAL, dtype=dtype, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Values that one thread keeps in registers, of `lanes` each, by their places along axes:

    sums.fill(0.0); sums.add((i, j), a * b); sums[i, j]
    """

    buffer: Buffer
    shape: tuple[int, ...]
    lanes: int

    def _place(self, at: int | tuple[int, ...]) -> int:
        place = 0
        for index, size in zip(at if isinstance(at, tuple) else (at,), self.shape, strict=True):
            place = place * size + index
        return self.lanes * place

    def __getitem__(self, at: int | tuple[int, ...]) -> Load:
        index = constant(self._place(at))
        return Load(buffer=self.buffer, index=index, lanes=self.lanes)

    def lane(self, at: int | tuple[int, ...], lane: Affine) -> Load:
        """One lane of a vector, in a loop over them."""
        return self.buffer[lane + self._place(at)]

    def store(self, at: int | tuple[int, ...], value: Operand) -> Store:
        return self.buffer.store(self._place(at), value)

    def add(self, at: int | tuple[int, ...], value: Expression) -> Store:
        return self.buffer.store(self._place(at), self[at] + value)

    def fill(self, value: float) -> Block:
        """Stores one number everywhere."""
        const = Const(value=value, dtype=self.buffer.dtype, lanes=self.lanes)
        places = range(0, self.buffer.size, self.lanes)
        return tuple(self.buffer.store(place, const) for place in places)


def tile(name: str, *shape: int, lanes: int = LANES, dtype: DType = DType.F32) -> Tile:
    return Tile(buffer=local(name, lanes * prod(shape), dtype), shape=shape, lanes=lanes)


def loop(
    var: str, extent: int, body: Iterable[Statement], kind: LoopKind = LoopKind.SERIAL
) -> Loop:
    return Loop(var=var, extent=extent, kind=kind, body=tuple(body))


def threads(count: int, body: Iterable[Statement]) -> Loop:
    """The loop over the threads of a workgroup, whose variable is "thread"."""
    return loop("thread", count, body, LoopKind.THREAD_INDEX)


def program(parameters: Iterable[Buffer], var: str, extent: int, body: Block) -> Program:
    """The body for each of `extent` iterations that a caller may slice, or workgroups."""
    return Program(parameters=tuple(parameters), body=loop(var, extent, body, LoopKind.RANGE))


def serial(var: str, extent: int, body: Block) -> Block:
    """A serial loop; a single iteration is the body with the variable 0."""
    if extent == 1:
        return substitute(body, var, ZERO)
    return (loop(var, extent, body),)


def tiled(var: str, size: int, tile: int, body: Callable[[Affine, int], Block]) -> Block:
    """Whole tiles of so many of `size` entries one after the other, and behind them what is left.

    `body` is given the first entry of a tile and how many it has.
    """
    whole_tiles, left = divmod(size, tile)
    tiles = serial(var, whole_tiles, body(variable(var) * tile, tile)) if whole_tiles else ()
    return (*tiles, *(body(constant(whole_tiles * tile), left) if left else ()))


def unrolled(var: str, extent: int, *body: Statement) -> Loop:
    return loop(var, extent, body, LoopKind.UNROLLED)


def vector(var: str, *body: Statement) -> Loop:
    """A loop whose four iterations are the lanes of vectors."""
    return loop(var, LANES, body, LoopKind.VECTOR)


def under(bounds: Iterable[Bound], body: Block, otherwise: Block = ()) -> Block:
    """An If with these bounds; the body as it is where there are none."""
    kept = tuple(bounds)
    return (If(bounds=kept, body=body, otherwise=otherwise),) if kept else body


def let(var: str, value: Expression, most: int, body: Block, low: int = 0) -> Let:
    """Binds `var` in the body to a value from `low` to `most`."""
    return Let(var=var, value=value, low=low, high=most, body=body)


def allocated(buffers: Iterable[Buffer | Tile], body: Block) -> Block:
    """The body with its buffers and tiles; the last is made first."""
    for each in buffers:
        buffer = each.buffer if isinstance(each, Tile) else each
        body = (Allocate(buffer=buffer, body=body),)
    return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Variables in scope in one block: of the loops around it, and of its Lets, in order."""

    ranges: dict[str, Range] = field(default_factory=dict)
    lets: list[Let] = field(default_factory=list)

    def nested(self) -> "Frame":
        return Frame(ranges=dict(self.ranges))

    def variable(self, var: str, extent: int) -> Affine:
        """The variable of a loop around the block; 0 where the loop has one iteration."""
        self.ranges[var] = (0, extent - 1)
        return variable(var) if extent > 1 else ZERO

    def upper_bound(self, index: Affine) -> int:
        return index.bounds(self.ranges)[1]

    def undecided(self, bounds: Iterable[Bound]) -> tuple[Bound, ...]:
        """The bounds that may fail for some values of the variables."""
        return tuple(bound for bound in bounds if self.upper_bound(bound.index) >= bound.limit)

    def where(self, bounds: Iterable[Bound], body: Block) -> Block:
        """The body where the bounds hold, of which only those stay that may fail."""
        return under(self.undecided(bounds), body)

    def let(self, var: str, value: Expression, most: int) -> Affine:
        """Binds `var` to a value from 0 to `most`."""
        self.lets.append(let(var, value, most, ()))
        self.ranges[var] = (0, most)
        return variable(var)

    def delinearize(self, place: Affine, parts: Sequence[tuple[str, int]]) -> list[Affine]:
        """Splits a linear index into one index for each part, the outermost part first.

        `parts` are names and sizes. This is MLIR's affine.delinearize_index.
        """
        found = []
        for position, (name, size) in enumerate(parts):
            lower = prod(size for _, size in parts[position + 1 :])
            fits = self.upper_bound(place) < lower * size
            found.append(self._digit(name, place, lower, 0 if fits else size, size))
        return found

    def _digit(self, name: str, place: Affine, lower: int, modulus: int, size: int) -> Affine:
        if size == 1:
            return ZERO
        if lower == 1 and not modulus:
            return place
        digit: Expression = value(place)
        if lower > 1:
            digit = digit // lower
        if modulus:
            digit = digit % modulus
        return self.let(name, digit, min(size - 1, self.upper_bound(place) // lower))

    def parity(self, name: str, index: Affine) -> Affine:
        if not self.upper_bound(index):
            return ZERO
        return self.let(name, value(index) % 2, 1)

    def least(self, var: str, index: Affine, most: int) -> Affine:
        """Binds `var` to the index, or to `most` where it exceeds that."""
        return self.let(var, value(index).min(most), most)

    def clamped(self, name: str, index: Affine, extent: int, step: int) -> Affine:
        """The index, or the last multiple of `step` below the extent where it exceeds that."""
        if self.upper_bound(index) + step <= extent:
            return index
        last = extent // step - 1
        return self.let(name, value(index.divided(step)).min(last), last) * step

    def item(self, name: str, count: int, threads: int) -> tuple[Affine, tuple[Bound, ...], int]:
        """Returns which of `count` items a thread of a GPU has, where it has one, and how many
        workgroups there are. A thread behind the last has that one again, under the name."""
        groups = -(-count // threads)
        place = self.variable("group", groups) * threads + self.variable("thread", threads)
        return self.clamped(name, place, count, 1), self.undecided((place.below(count),)), groups

    def strided(
        self,
        var: str,
        name: str,
        count: int,
        threads: int,
        body: Callable[["Frame", Affine], Block],
    ) -> Block:
        """The body for each of `count` items, which the threads of a workgroup take in turn, side
        by side. A thread behind the last has that one again, under the name, and does nothing with
        it."""
        inside = self.nested()
        place = inside.variable(var, -(-count // threads)) * threads
        place = place + inside.variable("thread", threads)
        exists = inside.undecided((place.below(count),))
        made = body(inside, inside.clamped(name, place, count, 1))
        return serial(var, -(-count // threads), inside.enclose(under(exists, made)))

    def dispatch(
        self,
        parameters: Iterable[Buffer],
        sizes: tuple[int, int],
        body: Block,
        *,
        local: Iterable[Buffer | Tile] = (),
        shared: Iterable[Buffer] = (),
    ) -> Program:
        """The body of each thread, inside the Lets, in `sizes`: so many workgroups "group" of so
        many threads "thread". `local` buffers are one thread's, `shared` ones a workgroup's."""
        groups, count = sizes
        inner = (threads(count, self.enclose(allocated(local, body))),)
        return program(parameters, "group", groups, allocated(shared, inner))

    def enclose(self, body: Block) -> Block:
        """The body inside the Lets."""
        for bound in reversed(self.lets):
            body = (let(bound.var, bound.value, bound.high, body, bound.low),)
        return body

"""Builders for IR that templates write by hand, without a TVM front end.

`Frame` is the environment of a block: the ranges of the variables around it, and the Lets that the
block needs. A template asks it for variables, then wraps the finished block by `enclose`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, Range
from services.tuner.ir.nodes import (
    LANES,
    Binary,
    BinaryOp,
    Block,
    Bound,
    Broadcast,
    Buffer,
    Const,
    Expression,
    ExtractLane,
    If,
    IndexValue,
    Let,
    Load,
    Loop,
    LoopKind,
    Scope,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import substitute

ZERO = Affine(constant=0)


def constant(value: int) -> Affine:
    return Affine(constant=value)


def total(*parts: Affine) -> Affine:
    whole = ZERO
    for part in parts:
        whole = whole.plus(part)
    return whole


def number(value: float) -> Const:
    return Const(value=value, dtype=DType.F32)


def numbers(value: float) -> Const:
    """The number in all lanes of a vector."""
    return Const(value=value, dtype=DType.F32, lanes=LANES)


def whole(value: int) -> Const:
    return Const(value=value, dtype=DType.I32)


def binary(op: BinaryOp, left: Expression, right: Expression) -> Binary:
    return Binary(op=op, left=left, right=right)


def plus(left: Expression, right: Expression) -> Binary:
    return binary(BinaryOp.ADD, left, right)


def times(left: Expression, right: Expression) -> Binary:
    return binary(BinaryOp.MUL, left, right)


def splat(value: Expression) -> Broadcast:
    """The value in all lanes of a vector."""
    return Broadcast(value=value, lanes=LANES)


def all_lanes(value: Expression) -> Expression:
    """The sum of the lanes of a vector."""
    x, y, z, w = (ExtractLane(value=value, lane=lane) for lane in range(LANES))
    return plus(plus(x, y), plus(z, w))


def vector_at(buffer: Buffer, place: int) -> Load:
    """Vector number `place` of a buffer."""
    return Load(buffer=buffer, index=constant(LANES * place), lanes=LANES)


def store_vector(buffer: Buffer, place: int, value: Expression) -> Store:
    return Store(buffer=buffer, index=constant(LANES * place), value=value)


def f32_buffer(name: str, size: int, scope: Scope) -> Buffer:
    return Buffer(name=name, scope=scope, dtype=DType.F32, size=size)


def loop(var: str, extent: int, kind: LoopKind, body: Iterable[Statement]) -> Loop:
    return Loop(var=var, extent=extent, kind=kind, body=tuple(body))


def serial(var: str, extent: int, body: Block) -> Block:
    """A serial loop; a single iteration is the body with the variable 0."""
    if extent == 1:
        return substitute(body, var, ZERO)
    return (loop(var, extent, LoopKind.SERIAL, body),)


def unrolled(var: str, extent: int, *body: Statement) -> Loop:
    return loop(var, extent, LoopKind.UNROLLED, body)


def vector(var: str, *body: Statement) -> Loop:
    """A loop whose four iterations are the lanes of vectors."""
    return loop(var, LANES, LoopKind.VECTOR, body)


def under(bounds: Iterable[Bound], body: Block, otherwise: Block = ()) -> Block:
    """An If with these bounds; the body as it is where there are none."""
    kept = tuple(bounds)
    return (If(bounds=kept, body=body, otherwise=otherwise),) if kept else body


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
        return Affine.variable(var) if extent > 1 else ZERO

    def upper_bound(self, index: Affine) -> int:
        return index.bounds(self.ranges)[1]

    def undecided(self, bounds: Iterable[Bound]) -> tuple[Bound, ...]:
        """The bounds that may fail for some values of the variables."""
        return tuple(bound for bound in bounds if self.upper_bound(bound.index) >= bound.limit)

    def let(self, var: str, value: Expression, most: int) -> Affine:
        """Binds `var` to a value from 0 to `most`."""
        self.lets.append(Let(var=var, value=value, low=0, high=most, body=()))
        self.ranges[var] = (0, most)
        return Affine.variable(var)

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
        value: Expression = IndexValue(index=place)
        if lower > 1:
            value = binary(BinaryOp.FLOOR_DIV, value, whole(lower))
        if modulus:
            value = binary(BinaryOp.FLOOR_MOD, value, whole(modulus))
        return self.let(name, value, min(size - 1, self.upper_bound(place) // lower))

    def parity(self, name: str, index: Affine) -> Affine:
        if not self.upper_bound(index):
            return ZERO
        return self.let(name, binary(BinaryOp.FLOOR_MOD, IndexValue(index=index), whole(2)), 1)

    def least(self, var: str, index: Affine, most: int) -> Affine:
        """Binds `var` to the index, or to `most` where it exceeds that."""
        return self.let(var, binary(BinaryOp.MIN, IndexValue(index=index), whole(most)), most)

    def clamped(self, name: str, index: Affine, extent: int, step: int) -> Affine:
        """The index, or the last multiple of `step` below the extent where it exceeds that."""
        if self.upper_bound(index) + step <= extent:
            return index
        last = extent // step - 1
        value = binary(BinaryOp.MIN, IndexValue(index=index.divided(step)), whole(last))
        return self.let(name, value, last).times(step)

    def enclose(self, body: Block) -> Block:
        """The body inside the Lets."""
        for let in reversed(self.lets):
            body = (Let(var=let.var, value=let.value, low=let.low, high=let.high, body=body),)
        return body

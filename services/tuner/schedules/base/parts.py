"""Outputs of attention whose keys several workgroups share: each tells those of its part of the
keys, the largest score there and the sum of powers, and a second dispatch joins the parts."""

from dataclasses import dataclass

from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    binary,
    constant,
    f32_buffer,
    number,
    numbers,
    plus,
    splat,
    times,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    BinaryOp,
    Block,
    Buffer,
    Expression,
    ExtractLane,
    Lanes,
    Load,
    Scope,
    Statement,
    Store,
)
from services.tuner.schedules.base.cache import exp_of_difference


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputParts:
    """In scratch memory, `held` [rows][count][width + 4]: sums of values times their powers, and
    behind them a vector of the largest score, the sum of powers and two zeros. All is read and
    written as vectors."""

    count: int
    width: int
    held: Buffer

    @classmethod
    def of(cls, rows: int, count: int, width: int) -> "OutputParts":
        held = f32_buffer("parts", rows * count * (width + LANES), Scope.GLOBAL)
        return cls(count=count, width=width, held=held)

    def place(self, row: Affine, part: Affine) -> Affine:
        return row.times(self.count).plus(part).times(self.width + LANES)

    def mixed(self, row: Affine, part: Affine, place: Affine, value: Expression) -> Store:
        """Stores four sums of a part of a row, from `place` on."""
        return Store(buffer=self.held, index=self.place(row, part).plus(place), value=value)

    def told(self, row: Affine, part: Affine, most: Expression, powers: Expression) -> Store:
        value = Lanes(values=(most, powers, number(0), number(0)))
        index = self.place(row, part).plus(constant(self.width))
        return Store(buffer=self.held, index=index, value=value)

    def joined(self, row: Affine, place: Affine, output: Buffer, index: Affine) -> Block:
        """Stores four entries of a row, from `place` on. A part without keys has no power: its
        largest score is below all others."""
        told = f32_buffer("told", LANES * self.count, Scope.LOCAL)
        most, sums, share = (f32_buffer(name, 1, Scope.LOCAL) for name in ("most", "sum", "share"))
        acc = f32_buffer("acc", LANES, Scope.LOCAL)
        largest, total, own = (Load(buffer=each, index=ZERO) for each in (most, sums, share))
        parts = [self.place(row, constant(part)) for part in range(self.count)]
        body: list[Statement] = [
            Store(buffer=sums, index=ZERO, value=number(0)),
            Store(buffer=acc, index=ZERO, value=numbers(0)),
        ]
        weights: list[Load] = []
        for part, at in enumerate(parts):
            behind = Load(buffer=self.held, index=at.plus(constant(self.width)), lanes=LANES)
            weights.append(Load(buffer=told, index=constant(LANES * part), lanes=LANES))
            own_most: Expression = ExtractLane(value=weights[part], lane=0)
            larger = binary(BinaryOp.MAX, largest, own_most) if part else own_most
            body += (
                Store(buffer=told, index=constant(LANES * part), value=behind),
                Store(buffer=most, index=ZERO, value=larger),
            )
        so_far = Load(buffer=acc, index=ZERO, lanes=LANES)
        for weight, at in zip(weights, parts, strict=True):
            each, powers = (ExtractLane(value=weight, lane=lane) for lane in (0, 1))
            entries = Load(buffer=self.held, index=at.plus(place), lanes=LANES)
            body += (
                Store(buffer=share, index=ZERO, value=exp_of_difference(each, largest)),
                Store(buffer=sums, index=ZERO, value=plus(total, times(own, powers))),
                Store(buffer=acc, index=ZERO, value=plus(so_far, times(splat(own), entries))),
            )
        value = binary(BinaryOp.DIV, so_far, splat(total))
        block: Block = (*body, Store(buffer=output, index=index, value=value))
        for buffer in (told, most, sums, share, acc):
            block = (Allocate(buffer=buffer, body=block),)
        return block

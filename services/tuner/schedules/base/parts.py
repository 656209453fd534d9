"""Outputs of attention whose keys several workgroups share: each tells those of its part of the
keys, the largest score there and the sum of powers, and a second dispatch joins the parts."""

from dataclasses import dataclass

from services.tuner import ir
from services.tuner.schedules.base.cache import exp_of_difference


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputParts:
    """Parts of the output in scratch memory, `held` [rows][count][width + 4]: sums of values times
    their powers, and behind them a vector of the largest score, the sum of powers and two zeros.
    All is read and written as vectors."""

    count: int
    width: int
    held: ir.Buffer

    @classmethod
    def of(cls, rows: int, count: int, width: int) -> "OutputParts":
        held = ir.scratch("parts", rows * count * (width + ir.LANES))
        return cls(count=count, width=width, held=held)

    def place(self, row: ir.Affine, part: ir.Affine) -> ir.Affine:
        return (row * self.count + part) * (self.width + ir.LANES)

    def mixed(
        self, row: ir.Affine, part: ir.Affine, place: ir.Affine, value: ir.Expression
    ) -> ir.Store:
        """Stores four sums of a part of a row, from `place` on."""
        return self.held.store(self.place(row, part) + place, value)

    def told(
        self, row: ir.Affine, part: ir.Affine, most: ir.Expression, powers: ir.Expression
    ) -> ir.Store:
        value = ir.Lanes(values=(most, powers, ir.number(0), ir.number(0)))
        index = self.place(row, part) + self.width
        return self.held.store(index, value)

    def joined(
        self, row: ir.Affine, place: ir.Affine, output: ir.Buffer, index: ir.Affine
    ) -> ir.Block:
        """Stores four entries of a row, from `place` on. A part without keys has no power: its
        largest score is below all others."""
        told = ir.local("told", ir.LANES * self.count)
        most, sums, share = (ir.local(name, 1) for name in ("most", "sum", "share"))
        acc = ir.local("acc", ir.LANES)
        largest, total, own = (each[0] for each in (most, sums, share))
        parts = [self.place(row, ir.constant(part)) for part in range(self.count)]
        body: list[ir.Statement] = [sums.store(0, 0.0), acc.store(0, ir.numbers(0))]
        weights: list[ir.Load] = []
        for part, at in enumerate(parts):
            behind = self.held.vector(at + self.width)
            weights.append(told.vector(ir.LANES * part))
            own_most: ir.Expression = weights[part].extract(0)
            larger = largest.max(own_most) if part else own_most
            body += (told.store(ir.LANES * part, behind), most.store(0, larger))
        so_far = acc.vector(0)
        for weight, at in zip(weights, parts, strict=True):
            each, powers = (weight.extract(lane) for lane in (0, 1))
            entries = self.held.vector(at + place)
            body += (
                share.store(0, exp_of_difference(each, largest)),
                sums.store(0, total + own * powers),
                acc.store(0, so_far + ir.splat(own) * entries),
            )
        value = so_far / ir.splat(total)
        block: ir.Block = (*body, output.store(index, value))
        return ir.allocated((told, most, sums, share, acc), block)

"""Sums of a register tile in WebAssembly, one for each of its entries, by loops over them."""

from dataclasses import dataclass

from services.tuner import ir


@dataclass(frozen=True, slots=True)
class TileSums:
    """`rows` x `width` sums. `row` and `lane` are the variables of an entry."""

    rows: int
    width: int
    row: str
    lane: str

    @property
    def buffer(self) -> ir.Buffer:
        return ir.local("sums", self.rows * self.width)

    @property
    def held(self) -> ir.Load:
        """The sum of an entry."""
        return self.buffer[ir.Affine.of(0, {self.row: self.width, self.lane: 1})]

    def each(self, store: ir.Store) -> ir.Block:
        """The store for every entry: rows outside, as unrolled code, and columns in vectors."""
        lanes = ir.loop(self.lane, self.width, (store,), ir.LoopKind.VECTOR)
        return (ir.unrolled(self.row, self.rows, lanes),)

    def start(self, value: ir.Operand = 0.0) -> ir.Block:
        return self.each(self.buffer.store(self.held.index, value))

    def add(self, unroll_k: int, term: ir.Expression) -> ir.Block:
        """Adds so many terms, each of its "k0", to every sum."""
        added = self.buffer.store(self.held.index, self.held + term)
        return (ir.unrolled("k0", unroll_k, *self.each(added)),)

"""A contraction in the parts that a nest for GPUs is built of: its buffers and what stores an
entry."""

from dataclasses import dataclass

from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import Buffer, Expression, Store
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.finish import finish_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """`parameters` are the tensors of the workload, in their order."""

    extents: Extents
    parameters: tuple[Buffer, ...]

    def stored(self, at: tuple[Affine, ...], value: Expression) -> Store:
        """What stores the entry at batch, row and column, given the value of its sum."""
        if not self.extents.epilogue:
            return Store(buffer=self.parameters[-1], index=self.place(at), value=value)
        held = {buffer.name: buffer for buffer in self.parameters} | {"c": self.parameters[-1]}
        finish = finish_of(self.extents.epilogue, self.extents.shapes[-1])
        return finish.stored(at if self.extents.batch else at[1:], value, held)

    def place(self, at: tuple[Affine, ...]) -> Affine:
        """The place of an entry of c, counted in elements."""
        batch, row, column = at
        return batch.times(self.extents.m).plus(row).times(self.extents.n).plus(column)

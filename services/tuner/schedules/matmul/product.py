"""A contraction as TVM states it, in the parts that a nest for GPUs is built of."""

from dataclasses import dataclass
from functools import lru_cache

from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import Allocate, Block, Buffer, Expression, Load, Loop, Store
from services.tuner.ir.rewrite import with_operands
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.matmul.wasm import contraction_function
from services.tuner.tir.lowering import plain_program


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """`parameters` are a, b, the inputs of the epilogue and c. `entry` is the last store of the
    program, in loops over `axes`: where there is an epilogue, it stores an entry of c, and the sum
    is a load of `total`."""

    extents: Extents
    parameters: tuple[Buffer, ...]
    axes: tuple[str, ...]
    total: Buffer
    entry: Store

    def stored(self, at: tuple[Affine, ...], value: Expression) -> Store:
        """What stores the entry at batch, row and column, given the value of its sum."""
        if not self.extents.epilogue:
            return Store(buffer=self.parameters[-1], index=self.place(at), value=value)
        places = dict(zip(self.axes, self._named(at), strict=True))

        held = {buffer.name: buffer for buffer in self.parameters}

        def moved(index: Affine) -> Affine:
            for var, place in places.items():
                index = index.substitute(var, place)
            return index

        def inside(part: Expression) -> Expression:
            match part:
                case Load(buffer=buffer) if buffer == self.total:
                    return value
                case Load(buffer=buffer, index=index):
                    return Load(buffer=held.get(buffer.name, buffer), index=moved(index))
            return with_operands(part, inside)

        return Store(
            buffer=held[self.entry.buffer.name],
            index=moved(self.entry.index),
            value=inside(self.entry.value),
        )

    def _named(self, at: tuple[Affine, ...]) -> list[Affine]:
        """Axes of one entry have no loop."""
        sizes = (self.extents.batch, self.extents.m, self.extents.n)
        return [place for place, size in zip(at, sizes, strict=True) if size > 1]

    def place(self, at: tuple[Affine, ...]) -> Affine:
        """Of an entry of c, counted in elements."""
        batch, row, column = at
        return batch.times(self.extents.m).plus(row).times(self.extents.n).plus(column)


@lru_cache(maxsize=256)
def product_of(extents: Extents) -> Product:
    program = plain_program(contraction_function(extents, 0))
    block = program.body.body
    total = program.parameters[-1]
    while isinstance(block[0], Allocate):
        total, block = block[0].buffer, block[0].body
    axes, entry = _entry(block[-1:])
    return Product(
        extents=extents, parameters=program.parameters, axes=axes, total=total, entry=entry
    )


def _entry(block: Block) -> tuple[tuple[str, ...], Store]:
    """The loops of a nest and the last store inside of them."""
    axes = []
    while isinstance(block[-1], Loop):
        axes.append(block[-1].var)
        block = block[-1].body
    if not isinstance(block[-1], Store):
        raise UnsupportedProgram("the epilogue of a contraction is no plain store")
    return tuple(axes), block[-1]

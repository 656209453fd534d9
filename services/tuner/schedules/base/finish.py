"""An epilogue in the loop IR: the statement that stores a finished entry, for nests built by hand.

What TVM states for c[2, 4, 8] with the epilogue bias, of which `Finish` keeps the store:

    for i0 < 2:
      for i1 < 4:
        for i2 < 8:
          c[32·i0 + 8·i1 + i2] = sum[32·i0 + 8·i1 + i2] + bias[i2]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kernelzoo.domain.workload import Workload
from kernelzoo.errors import UnsupportedProgram
from services.tuner import ir
from services.tuner.operators.lowering import DTYPES, computed
from services.tuner.schedules.base.epilogue import SUM, Epilogue, Shape, epilogue_of
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.fused import fused
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.places import row_major
from services.tuner.tir.lowering import plain_program
from services.tuner.tir.tvm import Node, te


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """`entry` stores an entry of the output, in loops over `axes`, those of the output that are
    longer than 1. The sum is a load of `total`."""

    shape: Shape
    axes: tuple[str, ...]
    total: ir.Buffer
    entry: ir.Store

    def stored(
        self, at: tuple[ir.Affine, ...], value: ir.Expression, held: Mapping[str, ir.Buffer]
    ) -> ir.Store:
        """Stores the entry at a place of the output, given the value of its sum. `held` are the
        buffers of the kernel by the names of tensors."""
        longer = [place for place, size in zip(at, self.shape, strict=True) if size > 1]
        places = dict(zip(self.axes, longer, strict=True))

        def moved(index: ir.Affine) -> ir.Affine:
            for var, place in places.items():
                index = index.substitute(var, place)
            return index

        def inside(part: ir.Expression) -> ir.Expression:
            match part:
                case ir.Load(buffer=buffer) if buffer == self.total:
                    return value
                case ir.Load(buffer=buffer, index=index):
                    return held[buffer.name][moved(index)]
            return ir.with_operands(part, inside)

        return held[self.entry.buffer.name].store(moved(self.entry.index), inside(self.entry.value))


def placeholders_of(extents: Extents) -> tuple[Node, ...]:
    """a, b and the inputs of the epilogue."""
    extra = extents.epilogue.inputs if extents.epilogue else ()
    names = ("a", "b", *(name for name, _ in extra))
    dtypes = {"b": DTYPES[extents.b_dtype]}
    return tuple(
        te.placeholder(shape, name=name, dtype=dtypes.get(name, "float32"))
        for shape, name in zip(extents.shapes[:-1], names, strict=True)
    )


def finished(epilogue: Epilogue, entries: Node, extra: tuple[Node, ...]) -> Node:
    """Every entry with the epilogue applied; `extra` are its inputs, in their order."""
    names = (SUM, *(name for name, _ in epilogue.inputs))
    shape = tuple(int(size) for size in entries.shape)
    return computed(epilogue.stage(shape), dict(zip(names, (entries, *extra), strict=True)))


@lru_cache(maxsize=256)
def finish_of(epilogue: Epilogue, shape: Shape) -> Finish:
    """`shape` is the output's."""
    total = te.placeholder(shape, name=SUM)
    named = zip(epilogue.inputs, epilogue.shapes(shape), strict=True)
    extra = tuple(te.placeholder(shape, name=name) for (name, _), shape in named)
    result = finished(epilogue, total, extra)
    program = plain_program(te.create_prim_func([total, *extra, result]))
    axes, entry = _entry(program.body.body)
    return Finish(shape=shape, axes=axes, total=program.parameters[0], entry=entry)


def stored_product(
    extents: Extents,
    parameters: Sequence[ir.Buffer],
    at: tuple[ir.Affine, ...],
    value: ir.Expression,
) -> ir.Store:
    """Stores the entry of a product at batch (0 without one), row and column, given the value of
    its sum. `parameters` are those of the workload, flat, the output last."""
    *_, output = parameters
    batch, row, column = at
    if extents.epilogue is None:
        index = (batch * extents.m + row) * extents.n + column
        return output.store(index, value)
    held = {buffer.name: buffer for buffer in parameters} | {"c": output}
    finish = finish_of(extents.epilogue, extents.shapes[-1])
    return finish.stored(at if extents.batch else at[1:], value, held)


def stored_entry(workload: Workload, at: tuple[ir.Affine, ...], value: ir.Expression) -> ir.Store:
    """Stores an entry of a workload's output, given the value of its reduction."""
    *_, output = parameters = parameters_of(workload)
    whole = fused(workload.program)
    if whole is None or whole.after is None:
        return output.store(row_major(at, workload.output.shape), value)
    axes = (axis.name for axis in whole.reduction.axes)
    epilogue = epilogue_of(whole, tuple((name, (name,)) for name in axes))
    if epilogue is None:
        raise UnsupportedProgram(f"{workload.key} has an epilogue of another shape")
    held = {buffer.name: buffer for buffer in parameters} | {"c": output}
    return finish_of(epilogue, workload.output.shape).stored(at, value, held)


def _entry(block: ir.Block) -> tuple[tuple[str, ...], ir.Store]:
    """The loops of a nest and the store inside of them."""
    axes = []
    while isinstance(block[-1], ir.Loop):
        axes.append(block[-1].var)
        block = block[-1].body
    if not isinstance(block[-1], ir.Store):
        raise UnsupportedProgram("the epilogue is no plain store")
    return tuple(axes), block[-1]

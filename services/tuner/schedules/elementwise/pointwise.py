"""A program that makes every entry from the entries at the same place: its axes are one.

c[i, j] = max(a[i, j] + b[i, j], 0.0) * scale[0]    →    c[i] = max(a[i] + b[i], 0.0) * scale[0]
"""

from dataclasses import replace
from functools import lru_cache
from math import prod

from kernelzoo.domain.operators.expressions import (
    Axis,
    Expression,
    Integer,
    Program,
    Read,
    Stage,
    number,
    parts,
    rebuilt,
)
from services.tuner.schedules.base.extents import round_up
from services.tuner.schedules.base.iteration import reads_of
from services.tuner.schedules.elementwise.common_axis import with_cheap_stages_inside


@lru_cache(maxsize=1024)
def pointwise(program: Program, step: int = 1) -> Program | None:
    """The program on one axis, its entries rounded up to whole steps; None for any other."""
    program = with_cheap_stages_inside(program)
    shape = program.output.shape
    tensors = {each.name: each.shape for each in program.inputs}
    tensors |= {each.name: each.shape for each in program.stages}
    singles = {each.name for each in program.inputs if prod(each.shape) == 1}
    if not shape or not all(_is_pointwise(stage, tensors, singles) for stage in program.stages):
        return None
    name = program.output.axes[0].name
    axis = Axis(name, Integer(round_up(prod(shape), step)))

    def inside(part: Expression) -> Expression:
        match part:
            case Read(tensor) if tensor not in singles:
                return Read(tensor, (axis,))
        return rebuilt(part, inside)

    inputs = (
        each if each.name in singles else replace(each, shape=(number(axis.extent),))
        for each in program.inputs
    )
    stages = (replace(each, axes=(axis,), value=inside(each.value)) for each in program.stages)
    return Program(inputs=tuple(inputs), stages=tuple(stages))


def _is_pointwise(stage: Stage, tensors: dict[str, tuple[int, ...]], singles: set[str]) -> bool:
    if stage.reducer or stage.shape != next(reversed(tensors.values())):
        return False
    reads = list(reads_of(stage.value))
    read = sum(isinstance(part, Axis) for each in reads for part in parts(each))
    places = sum(isinstance(part, Axis) for part in parts(stage.value))
    return places == read and all(
        each.tensor in singles or (each.at == stage.axes and tensors[each.tensor] == stage.shape)
        for each in reads
    )

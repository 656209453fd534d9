"""A slice of a recurrence holds these from one step to the next."""

from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Program, Read, number, parts
from kernelzoo.domain.operators.recurrence import outer_axes, reads_step_before, step_product


def held_entries(program: Program, rows: int) -> dict[str, tuple[DType, int]]:
    """Maps names to what a slice of so many rows holds: the dtype and number of entries, by name.
    Those of this step are called `now`, those of the step before `before`, what products take
    `entering`."""
    outer = outer_axes(program)
    entries = {stage.name: rows * prod(stage.shape[1 + outer :]) for stage in program.stages}
    found = {f"{each.name}.now": (each.dtype, entries[each.name]) for each in program.stages}
    delayed = delayed_stages(program)
    for stage in program.stages:
        if stage.name in delayed:
            found[f"{stage.name}.before"] = (stage.dtype, entries[stage.name])
        product = step_product(program, stage)
        if product is not None:
            found[f"{stage.name}.entering"] = (DType.F32, rows * number(product.k.extent))
    return found


def delayed_stages(program: Program) -> set[str]:
    """Stages that are read at the step before."""
    names = {stage.name for stage in program.stages}
    return {
        part.tensor
        for stage in program.stages
        for part in parts(stage.value)
        if isinstance(part, Read) and part.tensor in names and reads_step_before(stage, part)
    }

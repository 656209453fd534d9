"""Recurrences: programs whose stages are made step by step along their first axis.

    h[t: 500, j: 64] = tanh(x[t, j] + s[t, j])       a stage may read itself or a later one at the
    s[t: 500, j: 64] = sum over k: 64 of             step before, where there is one
        (h[t - 1, k] if 0 < t else 0.0) * r[k, j]

A program is one where a stage reads itself or a later one. Then all its stages have the same first
axis, and read one another at the step that they are made for: earlier ones at the step itself, all
of them at the one before. So the entries of one step are all that has to be held beside the output.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Choice,
    CompareOp,
    Comparison,
    Expression,
    Integer,
    Program,
    Read,
    Reducer,
    Stage,
    number,
    parts,
    rebuilt,
)
from kernelzoo.errors import InvalidInput


def is_recurrent(program: Program) -> bool:
    waiting = {stage.name for stage in program.stages}
    for stage in program.stages:
        if any(isinstance(p, Read) and p.tensor in waiting for p in parts(stage.value)):
            return True
        waiting.remove(stage.name)
    return False


def step_count(program: Program) -> int:
    """Steps of a recurrence."""
    return number(program.output.axes[0].extent)


def reads_step_before(stage: Stage, read: Read) -> bool:
    """Returns whether a stage of a recurrence reads another one, or itself, at the step before its
    own."""
    return read.at[0] == _before(stage.axes[0])


def refuse_faulty_recurrence(program: Program) -> None:
    """Raises InvalidInput where a recurrent program cannot be made step by step."""
    if program.updates:
        raise InvalidInput("a recurrence updates no input; take the last step of its output")
    extents = {stage.axes[0].extent if stage.axes else None for stage in program.stages}
    if len(extents) > 1 or None in extents:
        raise InvalidInput(
            "a stage reads itself or a later one, but not all stages have the same first axis; "
            "give each of them the steps as its first axis"
        )
    names = [stage.name for stage in program.stages]
    for place, stage in enumerate(program.stages):
        for read, behind_first in _guarded(stage, stage.value, behind_first=False):
            if read.tensor not in names:
                continue
            at, step = read.at[0], stage.axes[0]
            if at == step and read.tensor in names[:place]:
                continue
            if at != _before(step) or not behind_first:
                raise InvalidInput(
                    f"stage {stage.name}: it reads {read} of a recurrence; read an earlier stage "
                    f"at {step}, or any at {_before(step)} where 0 < {step}"
                )


def _before(step: Axis) -> Expression:
    return Binary(BinaryOp.SUB, step, Integer(1))


def _guarded(stage: Stage, value: Expression, *, behind_first: bool) -> Iterator[tuple[Read, bool]]:
    """Yields what a stage reads, and whether it does so behind the first step alone."""
    match value:
        case Read(_, at):
            yield value, behind_first
            inner = [(place, behind_first) for place in at]
        case Choice(conditions, then, otherwise):
            first = Comparison(CompareOp.LT, Integer(0), stage.axes[0])
            sides = [side for each in conditions for side in (each.left, each.right)]
            inner = [(side, behind_first) for side in (*sides, otherwise)]
            inner.append((then, behind_first or first in conditions))
        case _:
            found: list[Expression] = []

            def noted(part: Expression) -> Expression:
                found.append(part)
                return part

            rebuilt(value, noted)
            inner = [(part, behind_first) for part in found]
    for part, known in inner:
        yield from _guarded(stage, part, behind_first=known)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProduct:
    """A stage that sums products with weights: each of its entries over `k`, the only axis of the
    sum. `entering` is what is multiplied with the weights, which lie as [batch, k, n]. Of the axes
    of the stage, but for the step, `batch` are of both, `m` of `entering` alone and `n` of the
    weights alone; they stand in this order."""

    entering: Expression
    weights: str
    batch: tuple[Axis, ...]
    m: tuple[Axis, ...]
    n: tuple[Axis, ...]
    k: Axis

    @property
    def entering_axes(self) -> tuple[Axis, ...]:
        return *self.batch, *self.m, self.k


def step_product(program: Program, stage: Stage) -> StepProduct | None:
    """The product that a stage of a recurrence makes in each step; None for any other stage."""
    match stage.value:
        case Binary(BinaryOp.MUL, entering, Read(tensor, at)) if (
            stage.reducer is Reducer.SUM and len(stage.over) == 1
        ):
            pass
        case _:
            return None
    (k,), own = stage.over, stage.axes[1:]
    given = next((each for each in program.inputs if each.name == tensor), None)
    if given is None or DType(given.dtype).compute_dtype is not DType.F32:
        return None
    used = {part for part in parts(entering) if isinstance(part, Axis)}
    batch = tuple(axis for axis in own if axis in used and axis in at)
    m = tuple(axis for axis in own if axis not in at)
    n = tuple(axis for axis in own if axis not in used and axis in at)
    if at != (*batch, k, *n) or own != (*batch, *m, *n) or not n or k not in used:
        return None
    if given.shape != tuple(number(axis.extent) for axis in (*batch, k, *n)):
        return None
    return StepProduct(entering=entering, weights=tensor, batch=batch, m=m, n=n, k=k)


def entering_stage(stage: Stage, product: StepProduct) -> Stage:
    """Makes a stage of its own of what a product takes in each step."""
    return replace(
        stage,
        axes=(stage.axes[0], *product.entering_axes),
        value=product.entering,
        reducer=None,
        over=(),
    )


def outer_axes(program: Program) -> int:
    """Counts the axes behind the step that all stages have, at the same places of all that they
    read of one another. The last axis of a stage is always an inner one."""
    names = {stage.name for stage in program.stages}
    count = min(len(stage.axes) for stage in program.stages) - 2
    for stage in program.stages:
        reads = (p for p in parts(stage.value) if isinstance(p, Read) and p.tensor in names)
        for read in reads:
            count = min(count, _shared(stage, read))
    return max(0, min([count, *(_alike(program.output, each) for each in program.stages)]))


def _shared(stage: Stage, read: Read) -> int:
    """Axes behind the step at which a stage reads another as it is made itself."""
    outer = 0
    for axis, place in zip(stage.axes[1:], read.at[1:], strict=False):
        inside = (part for other in read.at[outer + 2 :] for part in parts(other))
        if place != axis or axis in inside:
            break
        outer += 1
    return outer


def _alike(one: Stage, other: Stage) -> int:
    """Axes behind the step that two stages have alike."""
    alike = 0
    for left, right in zip(one.axes[1:], other.axes[1:], strict=False):
        if left.extent != right.extent:
            break
        alike += 1
    return alike

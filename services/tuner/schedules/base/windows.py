"""A program as windows that move over tensors: the roles of its axes, by what they index.

    conv2d       sum[i, y, x, c] over r, q, k of padded[i, y + r, x + q, k] * b[r, q, k, c]
    depthwise    sum[i, y, x, c] over r, q of padded[i, y + r, x + q, c] * b[r, q, c]
    columns      sum[x, c] over k of a[x, k, c]

c is the last axis: each tensor has its entries side by side, or does not know it. x is another one,
whose entries share what some tensor with c has; y is one of the rest, best along the windows. k is
reduced, and in no index together with another axis.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Binary,
    BinaryOp,
    Call,
    Choice,
    Expression,
    Program,
    Read,
    parts,
)
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import UnsupportedProgram
from services.tuner import ir
from services.tuner.schedules.base.extents import Shape
from services.tuner.schedules.base.fused import Fused, enlarged, fused, without_unit_axes
from services.tuner.schedules.base.iteration import axes_of, reads_neighbours, reads_of, terms_of
from services.tuner.schedules.base.rules import SLICES_WANTED

MAX_INNER = 64
"""Entries of an axis that is split in two, so that there are rows to slice."""
RANK = 4
"""Axes of the output of a convolution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """`others` are axes besides y, x and c, `window` the reduced ones besides k; k is '' where
    there is none. `weights` is the tensor that has c and no other axis of the output, or ''.
    """

    whole: Fused
    others: tuple[str, ...]
    y: str
    x: str
    c: str
    window: tuple[str, ...]
    k: str
    weights: str

    def size(self, axis: str) -> int:
        return self.whole.extents[axis]

    @property
    def summed_channels(self) -> int:
        return self.size(self.k) if self.k else 1

    @property
    def weights_position(self) -> int:
        """The place of the weights among the tensors that the reduction reads."""
        tensors = dict.fromkeys(read.tensor for read in reads_of(self.whole.reduction.value))
        return list(tensors).index(self.weights)

    def image_elements(self, rows: int) -> int:
        """Counts the elements that rows of the output read of all tensors besides the weights."""
        sizes = {self.y: rows, **dict.fromkeys(self.others, 1)}
        program = enlarged(self.whole, sizes)
        shapes = {each.name: each.shape for each in program.inputs}
        shapes |= {stage.name: stage.shape for stage in program.stages}
        tensors = {read.tensor for read in reads_of(self.whole.reduction.value)} - {self.weights}
        return sum(prod(shapes[name]) for name in tensors)

    @property
    def packs(self) -> bool:
        """True if weights are worth copying next to one another."""
        return bool(self.k and self.weights)

    @property
    def taps(self) -> int:
        """Counts the terms of each sum."""
        return self.summed_channels * prod(map(self.size, self.window))

    @property
    def multiplies(self) -> bool:
        """True if there are products to round."""
        return _multiplies(self.whole.reduction.value)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the inputs and the output."""
        program = self.whole.program
        return (*(each.shape for each in program.inputs), program.output.shape)


@lru_cache(maxsize=1024)
def windows_of(workload: Workload) -> Windows:
    """The windows of a workload. Raises UnsupportedProgram for a program without windows."""
    found = windows(workload.program)
    if found is None:
        raise UnsupportedProgram(f"{workload.key} has no windows along its last axis")
    return found


def windows(program: Program) -> Windows | None:
    """None for a program that is none. One with another rank than a convolution gets it."""
    if len(program.output.axes) != RANK:
        program = without_unit_axes(program)
    whole = fused(program)
    if whole is None or not whole.reduction.axes or not _is_real(whole):
        return None
    c = whole.reduction.axes[-1].name
    if not all(reads_neighbours(read, c) for read in reads_of(whole.reduction.value)):
        return None
    return _with_roles(_with_rows(whole))


def _is_real(whole: Fused) -> bool:
    """Returns whether all that the reduction reads, and makes, is f32; without conditions, which
    would stand inside of the loop over windows."""
    dtypes = {each.name: DType(each.dtype) for each in whole.inputs}
    dtypes |= {stage.name: stage.dtype for stage in whole.before}
    made = (*parts(whole.reduction.value),)
    return (
        whole.reduction.dtype is DType.F32
        and not any(isinstance(part, Choice) for part in made)
        and all(dtypes[part.tensor] == DType.F32 for part in made if isinstance(part, Read))
    )


def _with_rows(whole: Fused) -> Fused:
    """Makes four axes at least: a nest without a third one gets it by splitting another, so that
    there are rows to slice."""
    names = [axis.name for axis in whole.reduction.axes]
    if len(names) < RANK - 1:
        for name in names[-2:]:
            inner = _inner(whole.extents[name], ir.LANES if name == names[-1] else 1)
            if inner:
                whole = whole.split(name, inner)
                break
    missing = RANK - len(whole.reduction.axes)
    return whole.with_unit_axes(*(f"unit{n}" for n in range(missing))) if missing > 0 else whole


def _inner(size: int, step: int) -> int:
    """The largest divisor of `size` in multiples of `step` that leaves slices enough; 0 where
    there is none."""
    most = min(MAX_INNER, size // SLICES_WANTED)
    sizes = (n for n in range(most // step * step, ir.LANES - 1, -step) if size % n == 0)
    return next(sizes, 0)


def _with_roles(whole: Fused) -> Windows:
    reduction = whole.reduction
    *spatial, c = (axis.name for axis in reduction.axes)
    reduced = [axis.name for axis in reduction.over]
    reads = list(reads_of(reduction.value))
    sums = [terms for read in reads for terms in map(terms_of, read.at) if terms and len(terms) > 1]
    moved = {name for terms in sums for name, _ in terms}
    with_c = [axes_of(read) for read in reads if c in axes_of(read)]
    shared = [name for name in spatial if any(name not in axes for axes in with_c)]
    x = (shared or spatial)[-1]
    rest = [name for name in spatial if name != x]
    rows = [name for name in rest if name in moved] or [max(rest, key=whole.extents.__getitem__)]
    k = next((name for name in reversed(reduced) if name not in moved), "")
    weights = (read.tensor for read in reads if axes_of(read) & {*spatial, c} == {c})
    return Windows(
        whole=whole,
        others=tuple(name for name in rest if name != rows[-1]),
        y=rows[-1],
        x=x,
        c=c,
        window=tuple(name for name in reduced if name != k),
        k=k,
        weights=next(weights, ""),
    )


def _multiplies(value: Expression) -> bool:
    match value:
        case Binary(BinaryOp.MUL):
            return True
        case Binary(_, left, right):
            return _multiplies(left) or _multiplies(right)
        case Call(_, argument):
            return _multiplies(argument)
    return False

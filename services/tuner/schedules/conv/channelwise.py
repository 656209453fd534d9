"""A program as windows that slide over each channel of images by itself, as in pooling.

    c[…, y, x, channel] = reduced over r, q of images[…, y·2 + r - 1, x·2 + q - 1, channel]
                                               (· weights[r, q, channel])

x is the last axis but one of the output, channels are the last of it and of the images.
"""

from dataclasses import dataclass
from functools import lru_cache

from kernelzoo.domain.operators.expressions import Axis, Binary, BinaryOp, Expression, Read, Reducer
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import UnsupportedProgram
from services.tuner import ir
from services.tuner.schedules.base.epilogue import epilogue_of
from services.tuner.schedules.base.fused import Fused, fused
from services.tuner.schedules.base.implicit_gemm import Dims, images_of
from services.tuner.schedules.base.iteration import IterationSpace, has_windows, iteration_space
from services.tuner.schedules.base.reducers import NEUTRAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Channelwise:
    """Indices into `images` and `weights`, of which there may be none, are by the names of axes.
    `axes` are those of the output; `column` is the axis of the window along x, or '', and `rows`
    are its others. Windows side by side are `stride` apart, columns of one `dilation`."""

    whole: Fused
    reducer: Reducer
    images: str
    dims: Dims
    weights: str
    weights_dims: Dims
    axes: tuple[str, ...]
    rows: tuple[str, ...]
    column: str
    stride: int
    dilation: int

    def size(self, axis: str) -> int:
        return self.whole.extents[axis] if axis else 1

    @property
    def x(self) -> str:
        return self.axes[-2]

    @property
    def channel(self) -> str:
        return self.axes[-1]


def channelwise_of(workload: Workload) -> Channelwise:
    """The windows of a program. Raises UnsupportedProgram where it has none over each channel."""
    found = channelwise(iteration_space(workload))
    if found is None:
        raise UnsupportedProgram(f"{workload.key} has no windows over each channel by itself")
    return found


@lru_cache(maxsize=1024)
def channelwise(space: IterationSpace) -> Channelwise | None:
    """None for a program that is none."""
    whole = fused(space.program)
    if whole is None or len(whole.reduction.axes) < 2 or not _stores_one_by_one(whole):
        return None
    if not any(map(has_windows, space.reductions)):
        return None
    axes = tuple(axis.name for axis in whole.reduction.axes)
    reads = _operands(whole.reduction.value)
    reducer = whole.reduction.reducer or Reducer.SUM
    for read, weights in (reads, reads[::-1]) if reads else ():
        images = read and images_of(whole, read, NEUTRAL[reducer])
        if images and _is_channel(images[1], axes[-1], whole):
            found = _found(whole, axes, images, weights)
            if found is not None:
                return found
    return None


def _stores_one_by_one(whole: Fused) -> bool:
    if whole.after is None:
        return True
    epilogue = epilogue_of(whole, tuple((a.name, (a.name,)) for a in whole.reduction.axes))
    return epilogue is not None and not epilogue.chooses


def _operands(value: Expression) -> tuple[Read | None, Read | None] | None:
    match value:
        case Read() as images:
            return images, None
        case Binary(BinaryOp.MUL, Read() as left, Read() as right):
            return left, right
    return None


def _is_channel(dims: Dims, channel: str, whole: Fused) -> bool:
    """Returns whether the channel is the last index, and in no other."""
    *others, last = dims
    return last == (ir.variable(channel), whole.extents[channel]) and not any(
        index.coefficient(channel) for index, _ in others
    )


def _found(
    whole: Fused, axes: tuple[str, ...], images: tuple[str, Dims], weights: Read | None
) -> Channelwise | None:
    over = [axis.name for axis in whole.reduction.over]
    x, dims = axes[-2], images[1]
    along = [index for index, _ in dims if index.coefficient(x)]
    if len(along) != 1 or along[0].coefficient(x) < 1:
        return None
    columns = [name for name, _ in along[0].terms if name != x]
    if len(columns) > 1 or any(along[0].coefficient(name) < 1 for name in columns):
        return None
    column = columns[0] if columns else ""
    if column not in (*over, "") or sum(bool(i.coefficient(column)) for i, _ in dims) > 1:
        return None
    taps: Dims = ()
    if weights is not None:
        plain = [place for place in weights.at if isinstance(place, Axis)]
        names = [place.name for place in plain]
        if sorted(names) != sorted((*over, axes[-1])) or len(plain) != len(weights.at):
            return None
        if names[-1] != axes[-1] or weights.tensor not in {each.name for each in whole.inputs}:
            return None
        taps = tuple((ir.variable(name), whole.extents[name]) for name in names)
    return Channelwise(
        whole=whole,
        reducer=whole.reduction.reducer or Reducer.SUM,
        images=images[0],
        dims=dims,
        weights=weights.tensor if weights else "",
        weights_dims=taps,
        axes=axes,
        rows=tuple(name for name in over if name != column),
        column=column,
        stride=along[0].coefficient(x),
        dilation=along[0].coefficient(column) if column else 1,
    )

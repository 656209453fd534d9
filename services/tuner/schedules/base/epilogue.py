"""Applies to an entry of a reduction what is done before it is stored, over groups of its axes.

    c[i, y, x, o] = max(sum[i, y, x, o] + bias[o] + residual[i, y, x, o], 0.0)

is, where i, y and x are the rows of a matrix:

    c[m, n] = max(sum[m, n] + bias[n] + residual[m, n], 0.0)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Choice,
    Expression,
    Integer,
    Read,
    Stage,
    parts,
    rebuilt,
)
from kernelzoo.domain.workload import KEY_DTYPES
from services.tuner.schedules.base.fused import Fused

Shape = tuple[int, ...]
Names = tuple[str, ...]

SUM = "sum"
"""The entry that an epilogue finishes."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """`value` reads the tensor SUM at `axes`, and each of `inputs` at the axes that it has. Their
    tensors are as long as the axes are; one without axes has a single entry."""

    axes: Names
    inputs: tuple[tuple[str, Names], ...]
    value: Expression

    @property
    def chooses(self) -> bool:
        """True if it has conditions, so that no single store finishes an entry."""
        return any(isinstance(part, Choice) for part in parts(self.value))

    def shapes(self, output: Shape) -> tuple[Shape, ...]:
        """The shapes of the inputs, where the output has that shape."""
        sizes = dict(zip(self.axes, output, strict=True))
        return tuple(tuple(sizes[name] for name in axes) or (1,) for _, axes in self.inputs)

    def stage(self, output: Shape) -> Stage:
        sizes = zip(self.axes, output, strict=True)
        return Stage("c", tuple(Axis(name, Integer(size)) for name, size in sizes), self.value)


def epilogue_of(whole: Fused, groups: tuple[tuple[str, Names], ...]) -> Epilogue | None:
    """The epilogue of a program whose axes are put together in groups, each with a name; a group of
    no axes is left out. None where it reads a tensor in another way than row by row, or another
    tensor than of real numbers. Raises ValueError where there is nothing to finish.
    """
    if whole.after is None:
        raise ValueError("the reduction is the output; there is no epilogue")
    kept = tuple((name, axes) for name, axes in groups if axes)
    names = tuple(name for name, _ in kept)
    extents = whole.extents
    sizes = {name: prod(extents[axis] for axis in axes) for name, axes in kept}
    places = {axes[0]: Axis(name, Integer(sizes[name])) for name, axes in kept if len(axes) == 1}
    tensors = {each.name: each for each in whole.inputs if each.dtype in KEY_DTYPES}
    inputs: dict[str, Names] = {}

    def inside(part: Expression) -> Expression:
        match part:
            case Read(whole.reduction.name):
                return Read(SUM, tuple(Axis(n, Integer(sizes[n])) for n in names))
            case Read(tensor, at) if tensor in tensors:
                shape = tensors[tensor].shape
                axes = read_axes(at, shape, kept, extents)
                if axes is None or inputs.setdefault(tensor, axes) != axes:
                    raise _NotFound
                return Read(
                    tensor, tuple(Axis(n, Integer(sizes[n])) for n in axes) or (Integer(0),)
                )
            case Axis(name):
                if name not in places:
                    raise _NotFound
                return places[name]
            case Read():
                raise _NotFound
        return rebuilt(part, inside)

    try:
        value = inside(whole.after)
    except _NotFound:
        return None
    order = [each.name for each in whole.inputs if each.name in inputs]
    return Epilogue(names, tuple((name, inputs[name]) for name in order), value)


class _NotFound(Exception):
    """The epilogue has a part that groups of axes cannot express."""


def read_axes(
    at: tuple[Expression, ...],
    shape: Shape,
    groups: tuple[tuple[str, Names], ...],
    extents: Mapping[str, int],
) -> Names | None:
    """The groups that a read has, where it reads all of a tensor row-major by them."""
    flat: dict[str, int] = {}
    stride = 1
    for place, size in zip(reversed(at), reversed(shape), strict=True):
        for name, factor in _terms(place):
            if not name:
                return None
            flat[name] = flat.get(name, 0) + factor * stride
        stride *= size
    found = []
    step = 1
    for group, axes in reversed(groups):
        if not any(flat.get(axis) for axis in axes if extents[axis] > 1):
            continue
        for axis in reversed(axes):
            if extents[axis] > 1 and flat.get(axis) != step:
                return None
            step *= extents[axis]
        found.append(group)
    return tuple(reversed(found)) if step == prod(shape) else None


def _terms(place: Expression) -> Iterator[tuple[str, int]]:
    """Axes of an index with their factors; "" where it is no sum of them from 0 on."""
    match place:
        case Integer(0):
            return
        case Axis(name):
            yield name, 1
        case Binary(BinaryOp.MUL, Axis(name), Integer(factor)) | Binary(
            BinaryOp.MUL, Integer(factor), Axis(name)
        ):
            yield name, factor
        case Binary(BinaryOp.ADD, left, right):
            yield from _terms(left)
            yield from _terms(right)
        case _:
            yield "", 0

"""Means of powers under windows and of whole images, and windows laid back into an image."""

from collections.abc import Callable, Mapping
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Call,
    Choice,
    Comparison,
    Expression,
    Function,
    Integer,
    Real,
    Reducer,
    equal,
    power,
)
from services.tuner.graph.building import Carried, Formula, Site
from services.tuner.graph.onnx_operators.convolution import (
    flat,
    to_first,
    under_windows,
    window_of,
)


def _raised(x: Expression, p: int) -> Expression:
    """|x|ᵖ"""
    size = Call(Function.ABS, x)
    return size if p == 1 else x * x if p == 2 else power(size, float(p))


def _lowered(total: Expression, p: int) -> Expression:
    """The p-th root."""
    if p == 1:
        return total
    return Call(Function.SQRT, total) if p == 2 else power(total, 1 / p)


def _power_pool(site: Site) -> Carried:
    """(Σ |x|ᵖ)^(1/p) under each window; padding is 0."""
    x, p = site.needed(0), site.integer("p", 2)
    window = window_of(site, site.integers("kernel_shape") or (), x.shape[2:], site.shape[2:])
    formula, axes, entry, over = under_windows(site, x, window, Real(0.0))
    total = formula.stage(axes, _raised(entry, p), reducer=Reducer.SUM, over=over)
    made = formula.output(axes, _lowered(total[axes], p))
    return site.transposed(made, to_first(x.rank))


def _global_power_pool(site: Site) -> Carried:
    x, p = site.needed(0), site.integer("p", 2)
    rows = site.view(x, (x.shape[0] * x.shape[1], prod(x.shape[2:])))
    formula = Formula(site)
    axes = formula.axes(rows.shape[:1])
    (k,) = formula.axes(rows.shape[1:], first=1)
    entry = formula.read(rows, (*axes, k))
    total = formula.stage(axes, _raised(entry, p), reducer=Reducer.SUM, over=(k,))
    return site.view(formula.output(axes, _lowered(total[axes], p)), site.shape)


def _columns_to_image(site: Site) -> Carried:
    """[n, c · block, windows] → [n, c, image]: each entry is the sum of what lies on it."""
    x, block = site.needed(0), site.known(2, "shape of blocks")
    assert block is not None
    size = tuple(int(n) for n in block)
    rank, image = len(size), site.shape[2:]
    stride = site.integers("strides") or (1,) * rank
    dilation = site.integers("dilations") or (1,) * rank
    pads = site.integers("pads") or (0,) * 2 * rank
    windows = tuple(
        (n + pads[axis] + pads[rank + axis] - (size[axis] - 1) * dilation[axis] - 1)
        // stride[axis] + 1
        for axis, n in enumerate(image)
    )  # fmt: skip
    formula = Formula(site)
    axes = formula.axes(site.shape)
    over = formula.axes(size, first=len(axes))
    inside: list[Comparison] = []
    places: list[Expression] = []
    for axis in range(rank):
        start = axes[2 + axis] + pads[axis] - over[axis] * dilation[axis]
        place = start // stride[axis]
        inside += [place >= 0, place < windows[axis]]
        if stride[axis] > 1:
            inside.append(equal(start % stride[axis], 0))
        places.append(place)
    row = axes[1] * prod(size) + flat(over, size)
    entry = formula.read(x, (axes[0], row, flat(places, windows)))
    nothing: Expression = Real(0.0) if x.dtype is DType.F32 else Integer(0)
    value = Choice(tuple(inside), entry, nothing)
    return formula.output(axes, value, x.dtype, Reducer.SUM, over)


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "Col2Im": _columns_to_image,
    "GlobalLpPool": _global_power_pool,
    "LpPool": _power_pool,
}

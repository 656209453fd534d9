"""Windows over images: convolutions, transposed ones and pooling.

All of them are computed channels last, between transposes which a later phase cancels: an image
[b, c, h, w] of ONNX becomes [b, h, w, c]. One axis counts as an image of one row. What has no name,
as dilated windows and groups, is a program of the same form: a stage that pads, then one sum.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Choice,
    Expression,
    Integer,
    Real,
    Reducer,
    equal,
    smallest,
)
from services.tuner.graph.building import Carried, Formula, Operand, Shape, Site
from services.tuner.graph.onnx_operators.movement import padded, sliced, within

MOST_ADDED = 1.25
"""Entries that a dilated convolution may make for each that is kept."""
MOST_MADE = 4
"""Entries that a depthwise convolution may make for each that is kept. A sum over the windows of
an image of 3×96 entries of 104 channels, two rows and one column apart, took 0.39 ms, and all rows
took 0.04 ms by their own kernel."""


@dataclass(frozen=True, slots=True)
class Window:
    """Along each axis of an image: its extent, stride, dilation, and padding on both sides."""

    size: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape

    @property
    def uniform(self) -> bool:
        """True if one number says how it moves and one how wide the padding is."""
        return len({*self.stride}) == 1 and len({*self.before, *self.after}) == 1

    @property
    def is_column(self) -> bool:
        """Says whether a window over an image has one column, and nothing beside the image."""
        return self.size[1:] == (1,) and self.before[1:] == self.after[1:] == (0,)

    @property
    def rows(self) -> "Window":
        """The window along the first axis alone."""
        fields = (self.size, self.stride, self.dilation, self.before, self.after)
        return Window(*(each[:1] for each in fields))

    def two_axes(self) -> "Window":
        """Returns the window over an image; one axis becomes the columns of one row."""
        if len(self.size) == 2:
            return self
        stride = self.stride[0]
        return Window(
            (1, *self.size), (stride, stride), (1, *self.dilation), (0, *self.before),
            (0, *self.after),
        )  # fmt: skip


def window_of(site: Site, size: Sequence[int], image: Sequence[int], made: Sequence[int]) -> Window:
    """`image` and `made` are extents before and after; what the last window lacks is padding."""
    rank = len(size)
    stride = site.integers("strides") or (1,) * rank
    dilation = site.integers("dilations") or (1,) * rank
    spans = [(n - 1) * d + 1 for n, d in zip(size, dilation, strict=True)]
    if min(made) < 1:
        raise site.refusal(
            f"its window of {list(spans)} does not fit its input of {list(image)}",
            "give it a larger one",
        )
    needed = [
        (o - 1) * s + span - n for o, s, span, n in zip(made, stride, spans, image, strict=True)
    ]
    match site.text("auto_pad", "NOTSET"):
        case "SAME_UPPER":
            before = [max(0, n) // 2 for n in needed]
        case "SAME_LOWER":
            before = [(max(0, n) + 1) // 2 for n in needed]
        case "VALID":
            before = [0] * rank
        case _:
            before = list((site.integers("pads") or (0,) * 2 * rank)[:rank])
    # The last window may end before the padding does; equal sides need no padded image.
    after = [
        b if (n + 2 * b - span) // s + 1 == o else need - b
        for b, n, span, s, o, need in zip(before, image, spans, stride, made, needed, strict=True)
    ]
    return Window(tuple(size), tuple(stride), tuple(dilation), tuple(before), tuple(after))


def _convolution(site: Site) -> Carried:
    x, w, bias = site.needed(0), site.needed(1), site.input(2)
    window = window_of(site, w.shape[2:], x.shape[2:], site.shape[2:])
    return _convolved(site, x, w, bias, site.integer("group", 1), window)


def _convolved(
    site: Site, x: Operand, w: Operand, bias: Operand | None, groups: int, window: Window
) -> Operand:
    """[b, o, …] of an image [b, c, …] and weights [o, c / groups, …]."""
    image = site.transposed(x, to_last(x.rank))
    if x.rank == 3:
        made = _convolved_signal(site, image, w, bias, groups, window)
    elif x.rank == 4 and window.is_column and x.shape[3] == 1:
        # Rows of one pixel fill no tile of a kernel; the column lies in memory as one row does.
        signal, weights = site.view(image, image.shape[:2] + image.shape[3:]), w.shape[:3]
        made = _convolved_signal(site, signal, site.view(w, weights), bias, groups, window.rows)
    else:
        made = _convolved_image(site, image, w, bias, groups, window)
    return site.view(site.transposed(made, to_first(made.rank)), site.shape)


def _convolved_image(
    site: Site, image: Operand, w: Operand, bias: Operand | None, groups: int, window: Window
) -> Operand:
    made = None
    if image.rank == 4 and set(window.dilation) == {1} and image.dtype is w.dtype is DType.F32:
        if _keeps_channels_apart(image, w, groups) and 1 < _left_out(window) <= MOST_MADE:
            return _convolved_evenly(site, image, w, bias, groups, window)
        made = _named_convolution(site, image, w, groups, window)
    made = made or _summed_windows(site, image, w, groups, window)
    return made if bias is None else _with_bias(site, made, bias)


def _left_out(window: Window) -> int:
    """Counts the places of windows that move by the least stride along all axes, for each place of
    these; 1 where strides are no multiples of it."""
    least = min(window.stride)
    return prod(window.stride) // least**2 if not any(n % least for n in window.stride) else 1


def _convolved_evenly(
    site: Site, image: Operand, w: Operand, bias: Operand | None, groups: int, window: Window
) -> Operand:
    """Moves windows by the least stride along both axes, and leaves out what lies between. The bias
    comes before that, next to the convolution that it goes into."""
    least = min(window.stride)
    steps = tuple(stride // least for stride in window.stride)
    even = replace(window, stride=(least, least))
    made = _convolved_image(site, image, w, bias, groups, even)
    b, *places, c = made.shape
    kept = (-(-extent // step) for extent, step in zip(places, steps, strict=True))
    return sliced(site, made, (0, 0, 0, 0), (1, *steps, 1), (b, *kept, c))


def _convolved_signal(
    site: Site, signal: Operand, w: Operand, bias: Operand | None, groups: int, window: Window
) -> Operand:
    """[b, m, o] of [b, n, c], as the one row of an image; where windows are dilated by d, as one of
    d columns, if that adds few entries:

        x0 x1 x2 x3 x4 x5      x0 x1      each column is convolved by itself
                          →    x2 x3
                               x4 x5

    The bias comes before what was added is cut off, next to the convolution that it goes into.
    Groups are summed by a program, which reads dilated rows as they are.
    """
    b, n, c = signal.shape
    (size,), (d,) = window.size, window.dilation
    (before,), (after,), (stride,) = window.before, window.after, window.stride
    length = n + before + after
    rows = -(-length // d)
    made, kept = (rows - size + 1) * d, length - (size - 1) * d
    has_name = groups == 1 or _keeps_channels_apart(signal, w, groups)
    in_columns = has_name and d > 1 and stride == 1 and made <= MOST_ADDED * kept
    if not in_columns or signal.dtype is not DType.F32 or w.dtype is not DType.F32:
        row, weights = site.view(signal, (b, 1, n, c)), _with_row(site, w)
        image = _convolved_image(site, row, weights, bias, groups, window.two_axes())
        return site.view(image, (b, image.shape[2], image.shape[3]))
    whole = padded(site, signal, (0, before, 0), (b, rows * d, c))
    columns = site.view(whole, (b, rows, d, c))
    weights = site.view(w, (*w.shape[:2], size, 1))
    plain = Window((size, 1), (1, 1), (1, 1), (0, 0), (0, 0))
    image = _convolved_image(site, columns, weights, bias, groups, plain)
    found = site.view(image, (b, made, image.shape[3]))
    if made == kept:
        return found
    return sliced(site, found, (0, 0, 0), (1, 1, 1), (b, kept, image.shape[3]))


def _with_row(site: Site, x: Operand) -> Operand:
    return site.view(x, (*x.shape[:2], 1, x.shape[2]))


def to_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


def _named_convolution(
    site: Site, image: Operand, w: Operand, groups: int, window: Window
) -> Operand | None:
    depthwise = _keeps_channels_apart(image, w, groups)
    if (groups > 1 and not depthwise) or len({*window.stride}) > 1:
        return None
    out = w.shape[0]
    if depthwise:
        filters = site.view(site.transposed(w, (2, 3, 0, 1)), (*window.size, out))
    else:
        filters = site.transposed(w, (2, 3, 1, 0))
    padded_image, pad = _within_padding(site, image, window, largest_pad=max(window.size) - 1)
    extents = padded_image.shape if depthwise else (*padded_image.shape, out)
    extents = (*extents, *window.size, window.stride[-1], pad)
    name = "depthwise_conv2d" if depthwise else "conv2d"
    return site.workload(name, extents, padded_image, filters)


def _keeps_channels_apart(image: Operand, w: Operand, groups: int) -> bool:
    return groups == image.shape[-1] == w.shape[0] and groups > 1


def _within_padding(
    site: Site, image: Operand, window: Window, largest_pad: int, outside: float = 0.0
) -> tuple[Operand, int]:
    """An image and the padding that its workload adds: a padded image and none where sides
    differ."""
    if window.uniform and 0 <= window.before[0] <= largest_pad:
        return image, window.before[0]
    b, h, w, c = image.shape
    (top, left), (bottom, right) = window.before, window.after
    shape = (b, h + top + bottom, w + left + right, c)
    value = site.constant(np.array(outside, np.float32)) if outside else None
    return padded(site, image, (0, top, left, 0), shape, value=value), 0


def _with_bias(site: Site, image: Operand, bias: Operand) -> Operand:
    formula = Formula(site)
    axes = formula.axes(image.shape)
    return formula.output(axes, formula.read(image, axes) + formula.read(bias, (axes[-1],)))


def _summed_windows(site: Site, image: Operand, w: Operand, groups: int, window: Window) -> Operand:
    """Any number of axes, dilated, in groups: [b, …, o] of an image [b, …, c]."""
    b, c = image.shape[0], image.shape[-1]
    out, rank = w.shape[0], len(window.size)
    split = site.view(w, (groups, out // groups, c // groups, *window.size))
    order = (*range(3, rank + 3), 2, 0, 1)
    filters = site.transposed(split, order)
    if groups == 1:
        filters = site.view(filters, (*window.size, c, out))
    formula = Formula(site)
    nothing: Expression = Real(0.0) if image.dtype is DType.F32 else Integer(0)
    read = _padded_stage(formula, image, window, nothing)
    made = tuple(
        (n + before + after - (k - 1) * d - 1) // s + 1
        for n, before, after, k, d, s in zip(
            image.shape[1:-1], window.before, window.after, window.size, window.dilation,
            window.stride, strict=True,
        )
    )  # fmt: skip
    last = (groups, out // groups) if groups > 1 else (out,)
    axes = formula.axes((b, *made, *last))
    over = formula.axes((*window.size, c // groups), first=len(axes))
    channel = axes[rank + 1] * (c // groups) + over[-1] if groups > 1 else over[-1]
    places = _window_places(window, axes[1 : rank + 1], over)
    ends = axes[rank + 1 :] if groups > 1 else axes[-1:]
    value = read((axes[0], *places, channel)) * formula.read(filters, (*over, *ends))
    total = formula.output(axes, value, image.dtype, Reducer.SUM, over)
    return site.view(total, (b, *made, out))


def _window_places(
    window: Window, axes: Sequence[Axis], over: Sequence[Axis]
) -> tuple[Expression, ...]:
    def place(axis: Axis, inner: Axis, stride: int, dilation: int) -> Expression:
        start = axis if stride == 1 else axis * stride
        return start + (inner if dilation == 1 else inner * dilation)

    inner = over[: len(axes)]
    return tuple(map(place, axes, inner, window.stride, window.dilation))


def _padded_stage(
    formula: Formula, x: Operand, window: Window, outside: Expression
) -> Callable[[Sequence[Expression]], Expression]:
    """Returns a function that reads an entry of the padded image [b, …, c]."""
    pads = [*window.before, *window.after]
    if not any(pads):
        return lambda at: formula.read(x, at)
    before = (0, *window.before, 0)
    shape = [
        extent + b + a for extent, b, a in zip(x.shape, before, (0, *window.after, 0), strict=True)
    ]
    axes = formula.axes(shape)
    stage = formula.stage(axes, within(formula, x, axes, before, outside), x.dtype)
    return lambda at: stage[tuple(at)]


def _transposed_convolution(site: Site) -> Carried:
    """Windows of weights are laid into the output. Where they do not overlap that is a product of
    matrices; else the image is spread by its stride and convolved with the weights reversed."""
    x, w, bias = site.needed(0), site.needed(1), site.input(2)
    groups, size, rank = site.integer("group", 1), w.shape[2:], w.rank - 2
    stride = site.integers("strides") or (1,) * rank
    dilation = site.integers("dilations") or (1,) * rank
    before = _transposed_pads(site, size, stride, dilation, x.shape[2:])
    apart = stride == size and set(dilation) == {1} and not any(before) and groups == 1
    exact = tuple(n * s for n, s in zip(x.shape[2:], stride, strict=True)) == site.shape[2:]
    if apart and exact and rank == 2 and x.dtype is DType.F32:
        result = _laid_apart(site, x, w, bias)
        if result is not None:
            return result
    spread = _spread(site, x, size, stride, dilation, before)
    reversed_weights = _reversed_weights(site, w, groups)
    window = Window(size, (1,) * rank, tuple(dilation), (0,) * rank, (0,) * rank)
    return _convolved(site, spread, reversed_weights, bias, groups, window)


def _transposed_pads(
    site: Site, size: Shape, stride: Shape, dilation: Shape, image: Shape
) -> tuple[int, ...]:
    rank = len(size)
    told = site.integers("pads")
    auto = site.text("auto_pad", "NOTSET")
    if auto == "NOTSET" and site.integers("output_shape") is None:
        return tuple((told or (0,) * rank)[:rank])
    extra = site.integers("output_padding") or (0,) * rank
    total = [
        s * (n - 1) + e + (k - 1) * d + 1 - made
        for s, n, e, k, d, made in zip(
            stride, image, extra, size, dilation, site.shape[2:], strict=True
        )
    ]
    if auto == "SAME_UPPER":
        return tuple(n // 2 for n in total)
    return tuple(n - n // 2 for n in total)


def _laid_apart(site: Site, x: Operand, w: Operand, bias: Operand | None) -> Operand | None:
    b, c, h, width = x.shape
    _, out, kh, kw = w.shape
    pixels = site.view(site.transposed(x, to_last(4)), (b * h * width, c))
    weights = site.view(site.transposed(w, (0, 2, 3, 1)), (c, kh * kw * out))
    result = site.workload("matmul", (b * h * width, c, kh * kw * out), pixels, weights)
    if result is None:
        return None
    blocks = site.view(result, (b, h, width, kh, kw, out))
    if bias is not None:
        blocks = _with_bias(site, blocks, bias)
    return site.view(site.transposed(blocks, (0, 5, 1, 3, 2, 4)), site.shape)


def _spread(
    site: Site, x: Operand, size: Shape, stride: Shape, dilation: Shape, before: Sequence[int]
) -> Operand:
    """The image with stride - 1 zeros between entries and as many around as windows reach."""
    reach = [(k - 1) * d for k, d in zip(size, dilation, strict=True)]
    starts = [n - b for n, b in zip(reach, before, strict=True)]
    shape = (*x.shape[:2], *(n + r for n, r in zip(site.shape[2:], reach, strict=True)))
    if set(stride) == {1}:
        return padded(site, x, (0, 0, *starts), shape)
    formula = Formula(site)
    axes = formula.axes(shape)
    conditions, at = [], list[Expression](axes[:2])
    for axis, start, step, extent in zip(axes[2:], starts, stride, x.shape[2:], strict=True):
        offset = axis - start
        conditions += [axis >= start, axis < start + (extent - 1) * step + 1]
        if step > 1:
            conditions.append(equal(offset % step, 0))
        at.append(offset // step)
    nothing: Expression = Real(0.0) if x.dtype is DType.F32 else Integer(0)
    value = Choice(tuple(conditions), formula.read(x, at), nothing)
    return formula.output(axes, value, x.dtype)


def _reversed_weights(site: Site, w: Operand, groups: int) -> Operand:
    """[c, o / groups, …] of a transposed convolution as [o, c / groups, …] of one."""
    c, out, *size = w.shape
    if w.constant is not None:
        flipped = np.flip(w.constant, axis=tuple(range(2, w.rank)))
        parts = flipped.reshape(groups, c // groups, out, *size).swapaxes(1, 2)
        return site.constant(np.ascontiguousarray(parts.reshape(groups * out, c // groups, *size)))
    formula = Formula(site)
    axes = formula.axes((groups * out, c // groups, *size))
    channel = axes[0] // out * (c // groups) + axes[1]
    back = [n - 1 - axis for n, axis in zip(size, axes[2:], strict=True)]
    at = (channel, axes[0] % out, *back)
    return formula.output(axes, formula.read(w, at), w.dtype)


def _max_pool(site: Site) -> Carried:
    x = site.needed(0)
    window = window_of(site, site.integers("kernel_shape") or (), x.shape[2:], site.shape[2:])
    largest = _largest_under_windows(site, x, window)
    if len(site.outputs) > 1 and site.outputs[1] is not None:
        return largest, _places_of_largest(site, x, window)
    return largest


def _largest_under_windows(site: Site, x: Operand, window: Window) -> Operand:
    named = _named_pool(site, x, window, "max_pool2d", outside=-inf)
    if named is not None:
        return named
    formula, axes, entry, over = under_windows(site, x, window, _lowest(x.dtype))
    made = formula.output(axes, entry, x.dtype, Reducer.MAX, over)
    return site.transposed(made, to_first(x.rank))


def _places_of_largest(site: Site, x: Operand, window: Window) -> Operand:
    """The number in the whole tensor of the first largest entry under each window, rows first or,
    with storage_order, columns first. Padding is never the largest."""
    image = x.shape[2:]
    formula = Formula(site)
    axes = formula.axes(site.shape)
    over = formula.axes(window.size, first=len(axes))
    places = [
        place - before if before else place
        for place, before in zip(_window_places(window, axes[2:], over), window.before, strict=True)
    ]
    inside = tuple(
        condition
        for place, extent in zip(places, image, strict=True)
        for condition in (place >= 0, place < extent)
    )
    entry = formula.read(x, (*axes[:2], *places))
    lowest = _lowest(x.dtype)
    most = formula.stage(axes, Choice(inside, entry, lowest), x.dtype, Reducer.MAX, over)
    number = flat(places, image)
    found = Choice((*inside, equal(entry, most[axes])), number, Integer(prod(image)))
    first = formula.stage(axes, found, DType.I32, Reducer.MIN, over)
    place = smallest(first[axes], prod(image) - 1)
    if site.integer("storage_order"):
        inner = [place // prod(image[axis + 1 :]) % extent for axis, extent in enumerate(image)]
        place = flat(tuple(reversed(inner)), tuple(reversed(image)))
    start = flat(axes[:2], x.shape[:2]) * prod(image)
    return formula.output(axes, start + place, DType.I32)


def flat(places: Sequence[Expression], shape: Sequence[int]) -> Expression:
    """The number of an entry, counted row by row."""
    number: Expression = Integer(0)
    for place, extent in zip(places, shape, strict=True):
        number = number * extent + place
    return number


def _lowest(dtype: DType) -> Expression:
    return Real(-inf) if dtype is DType.F32 else Integer(DType.I32.value_range[0])


def _average_pool(site: Site) -> Carried:
    x = site.needed(0)
    window = window_of(site, site.integers("kernel_shape") or (), x.shape[2:], site.shape[2:])
    count = _window_counts(site, x, window)
    if np.all(count == prod(window.size)):
        named = _named_pool(site, x, window, "avg_pool2d", outside=0.0)
        if named is not None:
            return named
    formula, axes, entry, over = under_windows(site, x, window, Real(0.0))
    total = formula.stage(axes, entry, reducer=Reducer.SUM, over=over)
    if np.all(count == count.flat[0]):
        made = formula.output(axes, total[axes] * (1.0 / float(count.flat[0])))
    else:
        share = site.constant((1.0 / count).astype(np.float32))
        made = formula.output(axes, total[axes] * formula.read(share, axes[1:-1]))
    return site.transposed(made, to_first(x.rank))


def _window_counts(site: Site, x: Operand, window: Window) -> NDArray[np.int64]:
    """By how many each sum is divided: the entries of its window that lie in the image, or with
    count_include_pad those that lie in the padding that was asked for."""
    included = bool(site.integer("count_include_pad"))
    pads = site.integers("pads") or (0,) * 2 * len(window.size)
    asked = pads if site.text("auto_pad", "NOTSET") == "NOTSET" else (*window.before, *window.after)
    rank = len(window.size)
    counts = np.ones((), np.int64)
    for axis in range(rank):
        starts = np.arange(site.shape[2 + axis]) * window.stride[axis] - window.before[axis]
        places = starts[:, None] + np.arange(window.size[axis]) * window.dilation[axis]
        least, most = 0, x.shape[2 + axis]
        if included:
            least, most = -asked[axis], most + asked[rank + axis]
        own = ((places >= least) & (places < most)).sum(axis=1)
        counts = np.multiply.outer(counts, own)
    return counts


def _named_pool(
    site: Site, x: Operand, window: Window, name: str, outside: float
) -> Operand | None:
    flat = len(window.size) == 2 and set(window.dilation) == {1} and x.dtype is DType.F32
    if not flat or len({*window.stride}) > 1 or min(*window.before, *window.after) < 0:
        return None
    image, pad = _within_padding(
        site, site.transposed(x, to_last(4)), window,
        largest_pad=min(window.size) - 1, outside=outside,
    )  # fmt: skip
    extents = (*image.shape, *window.size, window.stride[0], pad)
    result = site.workload(name, extents, image)
    return None if result is None else site.transposed(result, to_first(4))


def under_windows(
    site: Site, x: Operand, window: Window, outside: Expression
) -> tuple[Formula, tuple[Axis, ...], Expression, tuple[Axis, ...]]:
    """Channels last: the program, axes of the output, the entry under a window, and its axes."""
    image = site.transposed(x, to_last(x.rank))
    formula = Formula(site)
    read = _padded_stage(formula, image, window, outside)
    axes = formula.axes((site.shape[0], *site.shape[2:], site.shape[1]))
    over = formula.axes(window.size, first=len(axes))
    places = _window_places(window, axes[1:-1], over)
    return formula, axes, read((axes[0], *places, axes[-1])), over


def _global_pool(named: str, reducer: Reducer) -> Callable[[Site], Carried]:
    def carry(site: Site) -> Carried:
        x = site.needed(0)
        rows = site.view(x, (x.shape[0] * x.shape[1], prod(x.shape[2:])))
        result = site.workload(named, rows.shape, rows)
        if result is not None:
            return site.view(result, site.shape)
        formula = Formula(site)
        axes = formula.axes(rows.shape[:1])
        (k,) = formula.axes(rows.shape[1:], first=1)
        value = formula.read(rows, (*axes, k))
        if reducer is Reducer.MAX:
            return site.view(formula.output(axes, value, x.dtype, reducer, (k,)), site.shape)
        total = formula.stage(axes, value, reducer=reducer, over=(k,))
        return site.view(formula.output(axes, total[axes] * (1.0 / rows.shape[1])), site.shape)

    return carry


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "AveragePool": _average_pool,
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "GlobalAveragePool": _global_pool("row_mean", Reducer.SUM),
    "GlobalMaxPool": _global_pool("row_max", Reducer.MAX),
    "MaxPool": _max_pool,
}

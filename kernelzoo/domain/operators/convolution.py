"""Windows of kh x kw over an image a[b, h, w, c]: convolutions and pooling.

Windows are `stride` apart. The image has `pad` pixels of padding on every side.
"""

from math import inf

from kernelzoo.domain.operators.expressions import (
    Axis,
    Cast,
    Choice,
    Expression,
    Extent,
    Real,
    Reducer,
    Stage,
    largest,
    read,
)
from kernelzoo.domain.operators.operator import Axes, Derived, Family, Operator

B, H, W, C, O = map(Extent, "bhwco")  # noqa: E741
Y, X = map(Extent, "yx")
KH, KW, STRIDE, PAD = map(Extent, ("kh", "kw", "stride", "pad"))

i, y, x, o, c = Axis("i", B), Axis("y", Y), Axis("x", X), Axis("o", O), Axis("c", C)
r, q = Axis("r", KH), Axis("q", KW)

WINDOWS = (
    Derived(axis="y", extent=(H + 2 * PAD - KH) // largest(STRIDE, 1) + 1),
    Derived(axis="x", extent=(W + 2 * PAD - KW) // largest(STRIDE, 1) + 1),
)


def _padded(outside: float) -> Stage:
    """The image with its padding."""
    i, y, x, j = Axis("i", B), Axis("y", H + 2 * PAD), Axis("x", W + 2 * PAD), Axis("j", C)
    inside = (y >= PAD, y < H + PAD, x >= PAD, x < W + PAD)
    pixel = read("a", i, y - PAD, x - PAD, j)
    return Stage(name="padded", axes=(i, y, x, j), value=Choice(inside, pixel, Real(outside)))


def _pixel(channel: Axis) -> Expression:
    """The one at place r, q of a window."""
    return read("padded", i, y * STRIDE + r, x * STRIDE + q, channel)


def _over_windows(
    name: str, channel: Axis, value: Expression, *over: Axis, reducer: Reducer = Reducer.SUM
) -> Stage:
    return Stage(name=name, axes=(i, y, x, channel), reducer=reducer, value=value, over=over)


def _operator(
    name: str, sentence: str, axes: Axes, stages: tuple[Stage, ...], *weights: tuple[str, Axes]
) -> Operator:
    return Operator(
        name=name,
        sentence=sentence,
        stages=stages,
        family=Family.CONVOLUTION,
        axes=(*axes, "kh", "kw", "stride", "pad"),
        inputs=(("a", ("b", "h", "w", "c")), *weights),
        attributes=("stride", "pad"),
        derived=WINDOWS,
        flops_per_point=2 if weights else 1,
    )


_SUMS = _over_windows("total", c, _pixel(c), r, q)
_PLACES = tuple(Axis(f"i{number}", axis.extent) for number, axis in enumerate(_SUMS.axes))
_MEAN = Stage(name="c", axes=_PLACES, value=_SUMS[_PLACES] * (Real(1.0) / Cast(KH * KW)))

CONVOLUTIONS = (
    _operator(
        "conv2d",
        "c[b, y, x, o] = Σ a[b, y·stride + i − pad, x·stride + j − pad, c] · b[i, j, c, o] over "
        "i < kh, j < kw and c; a is 0 outside of the image",
        ("b", "h", "w", "c", "o"),
        (_padded(0.0), _over_windows("c", o, _pixel(c) * read("b", r, q, c, o), r, q, c)),
        ("b", ("kh", "kw", "c", "o")),
    ),
    _operator(
        "depthwise_conv2d",
        "c[b, y, x, c] = Σ a[b, y·stride + i − pad, x·stride + j − pad, c] · b[i, j, c] over "
        "i < kh and j < kw; a is 0 outside of the image",
        ("b", "h", "w", "c"),
        (_padded(0.0), _over_windows("c", c, _pixel(c) * read("b", r, q, c), r, q)),
        ("b", ("kh", "kw", "c")),
    ),
    _operator(
        "max_pool2d",
        "the largest of a[b, y·stride + i − pad, x·stride + j − pad, c] over i < kh and j < kw, "
        "within the image",
        ("b", "h", "w", "c"),
        (_padded(-inf), _over_windows("c", c, _pixel(c), r, q, reducer=Reducer.MAX)),
    ),
    _operator(
        "avg_pool2d",
        "Σ a[b, y·stride + i − pad, x·stride + j − pad, c] / (kh · kw) over i < kh and j < kw; "
        "a is 0 outside of the image, and what lies outside counts",
        ("b", "h", "w", "c"),
        (_padded(0.0), _SUMS, _MEAN),
    ),
)

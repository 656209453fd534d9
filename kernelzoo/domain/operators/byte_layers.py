"""Layers from bytes to bytes: products of activations of 8 bits with weights of as many, whose sums
become activations again.

The sum of an entry becomes real(total) · (a_scale · b_scale) + bias, as that of an integer product
does, and then the byte of the next layer: the nearest step of `step`, from `start` on, within 0 and
255. What a quantiser finds as ReLU or clip before is what bytes are kept within.
"""

from dataclasses import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.convolution import KH, KW, PAD, STRIDE, WINDOWS, B, C, H, W, X, Y
from kernelzoo.domain.operators.expressions import (
    Axis,
    Cast,
    Choice,
    Extent,
    Integer,
    Reducer,
    Stage,
    read,
)
from kernelzoo.domain.operators.integer_products import (
    ACTIVATION_BITS,
    INTEGER_PRODUCTS,
    PER_WORD,
    ZERO_POINTS,
    N,
    activation_in,
    scaled_total,
)
from kernelzoo.domain.operators.operator import Axes, Derived, Family, Operator
from kernelzoo.domain.operators.quantisation import byte_of, word_of

BYTES_OF_PRODUCT, BYTES_OF_WINDOWS = "matmul_u8i8q", "depthwise_conv2d_u8i8q"
SCALED = "scaled"
_LEAST_WEIGHT = 128


def words_stage(scaled: Stage, outer: tuple[Axis, ...], word: Axis) -> Stage:
    """The output: four entries of `scaled` along its last axis as bytes of a word."""
    entries = (scaled[(*outer, word * PER_WORD + place)] for place in range(PER_WORD))
    step, start = read("step", 0), read("start", 0)
    value = word_of(tuple(byte_of(entry, step, start) for entry in entries))
    return Stage(name="c", axes=(*outer, word), value=value, dtype=DType.I32)


_BIASED: tuple[tuple[str, Axes], ...] = (("step", ("one",)), ("start", ("one",)))


def _product() -> Operator:
    (given,) = (each for each in INTEGER_PRODUCTS if each.name == "matmul_u8i8")
    products, last = given.stages
    i, j = last.axes
    value = scaled_total(products[i, j], i, j, Extent("k")) + read("bias", j)
    scaled = Stage(name=SCALED, axes=(i, j), value=value)
    word = Axis("w", Extent("nw"))
    return replace(
        given,
        name=BYTES_OF_PRODUCT,
        sentence=(
            "the bytes of (Σₖ p[m, k] · b[n, k] − a_zero · b_sum[n]) · (a_scale · b_scale[n]) + "
            "bias[n], min(max(round(… / step) + start, 0), 255), 4 in each word of c as p in those "
            "of a; b is from -128 to 127"
        ),
        stages=(products, scaled, words_stage(scaled, (i,), word)),
        inputs=(*given.inputs, ("bias", ("n",)), *_BIASED),
        derived=(*given.derived, Derived(axis="nw", extent=N // PER_WORD)),
        dtypes=(*given.dtypes, ("start", "i32")),
        limits=(*given.limits, ("start", ZERO_POINTS)),
        multiples=(*given.multiples, ("n", PER_WORD)),
        flops_per_point=2 * PER_WORD,
    )


def _depthwise() -> Operator:
    i, y, x, c = Axis("i", B), Axis("y", Y), Axis("x", X), Axis("o", C)
    row, column = Axis("y", H + 2 * PAD), Axis("x", W + 2 * PAD)
    r, q = Axis("r", KH), Axis("q", KW)
    inside = (row >= PAD, row < H + PAD, column >= PAD, column < W + PAD)
    word, place = c // PER_WORD, c % PER_WORD * ACTIVATION_BITS
    entry = activation_in("a", (i, row - PAD, column - PAD, word), place) - read("a_zero", 0)
    padded = Stage(
        name="padded",
        axes=(i, row, column, c),
        value=Choice(inside, entry, Integer(0)),
        dtype=DType.I32,
    )
    total = Stage(
        name="total",
        axes=(i, y, x, c),
        reducer=Reducer.SUM,
        value=padded[i, y * STRIDE + r, x * STRIDE + q, c] * read("b", r, q, c),
        over=(r, q),
        dtype=DType.I32,
    )
    value = Cast(total[i, y, x, c]) * (read("a_scale", 0) * read("b_scale", c)) + read("bias", c)
    scaled = Stage(name=SCALED, axes=(i, y, x, c), value=value)
    return Operator(
        name=BYTES_OF_WINDOWS,
        sentence=(
            "the bytes of Σ (p[b, y·stride + i − pad, x·stride + j − pad, c] − a_zero) · b[i, j, c]"
            " · (a_scale · b_scale[c]) + bias[c] over i < kh and j < kw within the image, "
            "min(max(round(… / step) + start, 0), 255), 4 in each word of c as p in those of a"
        ),
        stages=(padded, total, scaled, words_stage(scaled, (i, y, x), Axis("w", Extent("cw")))),
        family=Family.CONVOLUTION,
        axes=("b", "h", "w", "c", "kh", "kw", "stride", "pad"),
        inputs=(
            ("a", ("b", "h", "w", "cw")),
            ("b", ("kh", "kw", "c")),
            ("a_scale", ("one",)),
            ("a_zero", ("one",)),
            ("b_scale", ("c",)),
            ("bias", ("c",)),
            *_BIASED,
        ),
        attributes=("stride", "pad"),
        derived=(
            *WINDOWS,
            Derived(axis="cw", extent=C // PER_WORD),
            Derived(axis="one", extent=Integer(1)),
        ),
        dtypes=(("a", "i32"), ("b", "i8"), ("a_zero", "i32"), ("start", "i32")),
        limits=(("a_zero", ZERO_POINTS), ("b", _LEAST_WEIGHT), ("start", ZERO_POINTS)),
        words=("a",),
        multiples=(("c", PER_WORD),),
        flops_per_point=2 * PER_WORD,
    )


BYTE_LAYERS = (_product(), _depthwise())

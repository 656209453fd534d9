"""Products of activations of 8 bits, quantised when a network runs, with weights of 8 or 7 bits.

A word of i32 holds four activations, each from 0 to 255, the first in its lowest bits: the bytes in
memory are those of a row of u8. A weight is an integer q that stands for q · b_scale[n], an
activation an integer p that stands for (p − a_zero) · a_scale, as ONNX's DynamicQuantizeLinear and
MatMulInteger have them. The sum over k of p · q is exact in 32 bits, and what a_zero adds to it is
taken away by `b_sum`, the sum of the weights of each column. Weights with zero points stand for
(q − b_zero[n]) · b_scale[n]; sums of the activations of each row take theirs away.

Weights of 7 bits, from -64 to 63, are what onnxruntime's `reduce_range` makes: two products with
them fit into 16 bits, which instructions of some processors need.
"""

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Cast,
    Expression,
    Extent,
    Integer,
    Read,
    Reducer,
    Stage,
    bits,
    read,
)
from kernelzoo.domain.operators.operator import Derived, Family, Operator

PER_WORD = 4
"""Activations in a word."""
ACTIVATION_BITS = 8
ZERO_POINTS = 1 << ACTIVATION_BITS
SEEDED_SUMS = 1 << 12
"""Seeded sums of columns are below this: those of true weights are a few times as large, and their
products with zero points fit into 32 bits."""
M, K, N = Extent("m"), Extent("k"), Extent("n")


def activation_at(words: str, row: Expression, column: Expression) -> Expression:
    """The activation at a place of a matrix whose words this tensor has."""
    start = column % PER_WORD * ACTIVATION_BITS
    return activation_in(words, (row, column // PER_WORD), start)


def activation_in(words: str, at: tuple[Expression, ...], start: Expression) -> Expression:
    """The activation that begins at a bit of the word at a place."""
    return bits(Read(words, at), start, ACTIVATION_BITS)


def scaled_total(
    products: Expression,
    i: Axis,
    j: Axis,
    k: Expression,
    names: tuple[str, ...] = ("a_zero", "b_sum", "a_scale", "b_scale"),
    zeros: tuple[str, str] | None = None,
) -> Expression:
    """An entry, of which `products` are the sum. `zeros` are the tensors of zero points of weights
    and of sums of rows of activations."""
    a_zero, b_sum, a_scale, b_scale = names
    total = products - read(a_zero, 0) * read(b_sum, j)
    if zeros:
        b_zero, row_sums = zeros
        total = total - read(b_zero, j) * (read(row_sums, i) - k * read(a_zero, 0))
    return Cast(total) * (read(a_scale, 0) * read(b_scale, j))


def _product(width: int, *, zeros: bool) -> Operator:
    i, j, k = Axis("i", M), Axis("j", N), Axis("k", K)
    products = Stage(
        name="products",
        axes=(i, j),
        reducer=Reducer.SUM,
        value=activation_at("a", i, k) * read("b", j, k),
        over=(k,),
        dtype=DType.I32,
    )
    row_sums = Stage(
        name="row_sums",
        axes=(i,),
        reducer=Reducer.SUM,
        value=activation_at("a", i, k),
        over=(k,),
        dtype=DType.I32,
    )
    named = ("b_zero", row_sums.name) if zeros else None
    value = scaled_total(products[i, j], i, j, K, zeros=named)
    least = 1 << (width - 1)
    less = " − b_zero[n] · (Σₖ p[m, k] − k · a_zero)" if zeros else ""
    return Operator(
        name=f"matmul_u8i{width}{'z' * zeros}",
        sentence=(
            f"c[m, n] = (Σₖ p[m, k] · b[n, k] − a_zero · b_sum[n]{less}) · (a_scale · b_scale[n]), "
            "p of 8 bits, from 0 to 255, 4 in each word of a, the first in the lowest bits; sums "
            f"are exact, and b is from {-least} to {least - 1}"
        ),
        stages=(
            products,
            *((row_sums,) if zeros else ()),
            Stage(name="c", axes=(i, j), value=value),
        ),
        family=Family.CONTRACTION,
        axes=("m", "k", "n"),
        inputs=(
            ("a", ("m", "kw")),
            ("b", ("n", "k")),
            ("a_scale", ("one",)),
            ("a_zero", ("one",)),
            ("b_scale", ("n",)),
            ("b_sum", ("n",)),
            *((("b_zero", ("n",)),) if zeros else ()),
        ),
        derived=(
            Derived(axis="kw", extent=K // PER_WORD),
            Derived(axis="one", extent=Integer(1)),
        ),
        dtypes=(
            *(("a", "i32"), ("b", "i8"), ("a_zero", "i32"), ("b_sum", "i32")),
            *((("b_zero", "i32"),) if zeros else ()),
        ),
        limits=(
            *(("a_zero", ZERO_POINTS), ("b_sum", SEEDED_SUMS), ("b", least)),
            *((("b_zero", least),) if zeros else ()),
        ),
        words=("a",),
        multiples=(("k", PER_WORD),),
        flops_per_point=2,
    )


INTEGER_PRODUCTS = tuple(
    _product(width, zeros=zeros) for width in (8, 7) for zeros in (False, True)
)

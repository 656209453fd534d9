"""Weights of 4 and 8 bits with a scale for each block of 32 of them, as language models have them.

A word of i32 holds eight weights of 4 bits or four of 8, the first in its lowest bits. Weights of
one row lie side by side, so that a matrix b[n, k] lies in memory as the `B` of ONNX Runtime's
MatMulNBits does with block_size 32. A weight is (q - zero) · scale; zero is 8, or 128 of 8 bits,
where no zero points are given. Those of a row begin at a word of their own.
"""

from kernelzoo.domain.operators.expressions import (
    Axis,
    Cast,
    Expression,
    Extent,
    Integer,
    Read,
    Real,
    Reducer,
    Stage,
    bits,
    largest,
    read,
    smallest,
)
from kernelzoo.domain.operators.operator import Derived, Family, Operator

BLOCK = 32
"""Weights that share a scale."""
WORD_BITS = 32

M, K, N = Extent("m"), Extent("k"), Extent("n")
KB, NB = "kb", "nb"
_BLOCKS_IN_WORD = WORD_BITS // 4
"""Zero points of 4 bits in a word; the last word of a row may hold fewer."""


def per_word(width: int) -> int:
    """Weights of so many bits in a word."""
    return WORD_BITS // width


def weight(
    words: str,
    scales: str,
    row: Expression,
    column: Expression,
    *,
    width: int = 4,
    zeros: str = "",
) -> Expression:
    """The weight at a place of a quantised matrix whose words and scales are these tensors."""
    count, block = per_word(width), column // BLOCK
    held = Cast(bits(Read(words, (row, column // count)), column % count * width, width))
    zero: Expression = Real(float(1 << (width - 1)))
    if zeros:
        word = Read(zeros, (row, block // _BLOCKS_IN_WORD))
        zero = Cast(bits(word, block % _BLOCKS_IN_WORD * 4, 4))
    return (held - zero) * Read(scales, (row, block))


def _blocks(axis: str, of: Extent) -> Derived:
    return Derived(axis=axis, extent=of // BLOCK)


def _words(axis: str, of: Extent, width: int) -> Derived:
    return Derived(axis=axis, extent=of // per_word(width))


def _matmul(name: str, width: int, *, zeros: bool = False) -> Operator:
    i, j, k = Axis("i", M), Axis("j", N), Axis("k", K)
    entry = weight("b", "block_scales", j, k, width=width, zeros="zeros" if zeros else "")
    zero = "zeros[n, k / 32]" if zeros else str(1 << (width - 1))
    extra = (("zeros", ("n", "kz")),) if zeros else ()
    return Operator(
        name=name,
        sentence=(
            f"c[m, n] = Σₖ a[m, k] · (q[n, k] − {zero}) · block_scales[n, k / 32], q of {width} "
            f"bits, {per_word(width)} in each word of b, the first in the lowest bits"
        ),
        stages=(
            Stage(
                name="c",
                axes=(i, j),
                reducer=Reducer.SUM,
                value=read("a", i, k) * entry,
                over=(k,),
            ),
        ),
        family=Family.CONTRACTION,
        axes=("m", "k", "n"),
        inputs=(("a", ("m", "k")), ("b", ("n", "kw")), ("block_scales", ("n", KB)), *extra),
        derived=(
            _words("kw", K, width),
            _blocks(KB, K),
            *((Derived(axis="kz", extent=(K // BLOCK + 7) // 8),) if zeros else ()),
        ),
        dtypes=(("b", "i32"), *((("zeros", "i32"),) if zeros else ())),
        words=("b", *(("zeros",) if zeros else ())),
        weight_bits=width,
        multiples=(("k", BLOCK),),
        flops_per_point=2,
    )


def _gather() -> Operator:
    i, j = Axis("i", M), Axis("j", N)
    row = largest(smallest(read("indices", i), K - 1), Integer(0))
    return Operator(
        name="gather_q4",
        sentence=(
            "(q[indices[m], n] − 8) · block_scales[indices[m], n / 32], q of 4 bits, 8 in each "
            "word of a, the first in the lowest bits; an index below 0 takes row 0, one of k or "
            "more the last row"
        ),
        stages=(Stage(name="c", axes=(i, j), value=weight("a", "block_scales", row, j)),),
        family=Family.ELEMENTWISE,
        axes=("m", "k", "n"),
        inputs=(("a", ("k", "nw")), ("block_scales", ("k", NB)), ("indices", ("m",))),
        derived=(_words("nw", N, 4), _blocks(NB, N)),
        dtypes=(("a", "i32"), ("indices", "i32")),
        words=("a",),
        weight_bits=4,
        multiples=(("n", BLOCK),),
        indexed="k",
    )


QUANTISED = (
    _matmul("matmul_q4", 4),
    _matmul("matmul_q4z", 4, zeros=True),
    _matmul("matmul_q8", 8),
    _gather(),
)

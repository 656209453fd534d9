"""Weights of 4 and 8 bits with a scale for each block of them, as language models have them.

A word of i32 holds eight weights of 4 bits or four of 8, the first in its lowest bits. Weights of
one row lie side by side, so that a matrix b[n, k] lies in memory as the `B` of ONNX Runtime's
MatMulNBits does. A weight is (q - zero) · scale; zero is 8, or 128 of 8 bits, where no zero points
are given. These have as many bits as weights, and those of a row begin at a word of their own. The
last block of a row may be shorter than the others.
"""

from dataclasses import dataclass

from kernelzoo.domain.operators.expressions import (
    Axis,
    Cast,
    Expression,
    Extent,
    Integer,
    Operand,
    Read,
    Real,
    Reducer,
    Stage,
    bits,
    largest,
    operand,
    read,
    smallest,
)
from kernelzoo.domain.operators.operator import Derived, Family, Operator

WORD_BITS = 32
ROW_STEP = 32
"""A row has a multiple of as many weights: four words of 4 bits each, which a thread reads at
once."""
USUAL_BLOCK = 32
BLOCKS = (16, 32, 64, 128, 256)
"""Weights that share a scale."""
WIDTHS = (4, 8)

M, K, N = Extent("m"), Extent("k"), Extent("n")
BLOCK_EXTENT = Extent("block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form says how a matrix is stored: `width` bits a weight, a scale for each `block` of them,
    and perhaps a zero point of as many bits."""

    width: int = 4
    block: int = USUAL_BLOCK
    zeros: bool = False

    @property
    def name(self) -> str:
        """Names of operators and programs end in this; it tells no block."""
        return f"q{self.width}{'z' * self.zeros}"

    @property
    def middle(self) -> int:
        """The zero point of weights that have none."""
        return 1 << (self.width - 1)

    @property
    def per_word(self) -> int:
        """Weights in a word, and zero points."""
        return per_word(self.width)

    def blocks(self, columns: int) -> int:
        return -(-columns // self.block)

    def zero_words(self, columns: int) -> int:
        return -(-self.blocks(columns) // self.per_word)

    def key(self, operator: str, extents: str) -> str:
        """The key of a workload whose operator's name ends in the form, such as `matmul`, perhaps
        with an epilogue."""
        name, *epilogue = operator.split("+")
        whole = "+".join((f"{name}_{self.name}", *epilogue))
        block = "" if self.block == USUAL_BLOCK else f"block{self.block}"
        return f"{whole}:f32:{extents}{block}"


USUAL_FORM = Form()


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
    block: Operand = USUAL_BLOCK,
    zeros: str = "",
) -> Expression:
    """The weight at a place of a quantised matrix whose words and scales are these tensors."""
    count, own = per_word(width), column // operand(block)
    held = Cast(bits(Read(words, (row, column // count)), column % count * width, width))
    zero: Expression = Real(float(1 << (width - 1)))
    if zeros:
        zero = Cast(bits(Read(zeros, (row, own // count)), own % count * width, width))
    return (held - zero) * Read(scales, (row, own))


def _blocks(axis: str, of: Extent) -> Derived:
    return Derived(axis=axis, extent=(of + (BLOCK_EXTENT - 1)) // BLOCK_EXTENT)


def _zero_words(axis: str, of: Extent, width: int) -> Derived:
    count = per_word(width)
    return Derived(axis=axis, extent=(_blocks(axis, of).extent + (count - 1)) // count)


def _words(axis: str, of: Extent, width: int) -> Derived:
    return Derived(axis=axis, extent=of // per_word(width))


def _matmul(form: Form) -> Operator:
    i, j, k = Axis("i", M), Axis("j", N), Axis("k", K)
    width = form.width
    entry = weight(
        "b", "block_scales", j, k,
        width=width, block=BLOCK_EXTENT, zeros="zeros" if form.zeros else "",
    )  # fmt: skip
    zero = "zeros[n, k / block]" if form.zeros else str(form.middle)
    extra = (("zeros", ("n", "kz")),) if form.zeros else ()
    return Operator(
        name=f"matmul_{form.name}",
        sentence=(
            f"c[m, n] = Σₖ a[m, k] · (q[n, k] − {zero}) · block_scales[n, k / block], q of "
            f"{width} bits, {form.per_word} in each word of b, the first in the lowest bits"
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
        axes=("m", "k", "n", "block"),
        attributes=("block",),
        usual=USUAL_BLOCK,
        choices=(("block", BLOCKS),),
        inputs=(("a", ("m", "k")), ("b", ("n", "kw")), ("block_scales", ("n", "kb")), *extra),
        derived=(
            _words("kw", K, width),
            _blocks("kb", K),
            *((_zero_words("kz", K, width),) if form.zeros else ()),
        ),
        dtypes=(("b", "i32"), *((("zeros", "i32"),) if form.zeros else ())),
        words=("b", *(("zeros",) if form.zeros else ())),
        weight_bits=width,
        multiples=(("k", ROW_STEP),),
        flops_per_point=2,
    )


def _gather(form: Form) -> Operator:
    i, j = Axis("i", M), Axis("j", N)
    width = form.width
    row = largest(smallest(read("indices", i), K - 1), Integer(0))
    entry = weight(
        "a", "block_scales", row, j,
        width=width, block=BLOCK_EXTENT, zeros="zeros" if form.zeros else "",
    )  # fmt: skip
    zero = "zeros[indices[m], n / block]" if form.zeros else str(form.middle)
    extra = (("zeros", ("k", "nz")),) if form.zeros else ()
    return Operator(
        name=f"gather_{form.name}",
        sentence=(
            f"(q[indices[m], n] − {zero}) · block_scales[indices[m], n / block], q of {width} "
            f"bits, {form.per_word} in each word of a, the first in the lowest bits; an index "
            "below 0 takes row 0, one of k or more the last row"
        ),
        stages=(Stage(name="c", axes=(i, j), value=entry),),
        family=Family.ELEMENTWISE,
        axes=("m", "k", "n", "block"),
        attributes=("block",),
        usual=USUAL_BLOCK,
        choices=(("block", BLOCKS),),
        inputs=(
            ("a", ("k", "nw")),
            ("block_scales", ("k", "nb")),
            *extra,
            ("indices", ("m",)),
        ),
        derived=(
            _words("nw", N, width),
            _blocks("nb", N),
            *((_zero_words("nz", N, width),) if form.zeros else ()),
        ),
        dtypes=(
            ("a", "i32"),
            *((("zeros", "i32"),) if form.zeros else ()),
            ("indices", "i32"),
        ),
        words=("a", *(("zeros",) if form.zeros else ())),
        weight_bits=width,
        multiples=(("n", ROW_STEP),),
        indexed="k",
    )


FORMS = tuple(Form(width=width, zeros=zeros) for width in WIDTHS for zeros in (False, True))
QUANTISED = (*map(_matmul, FORMS), *map(_gather, FORMS))

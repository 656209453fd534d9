"""Products of matrices: sums over k of products of two entries."""

from kernelzoo.domain.operators.expressions import Axis, Cast, Extent, Read, Reducer, Stage, read
from kernelzoo.domain.operators.operator import Axes, Family, Operator


def _contraction(
    name: str, axes: Axes, a: Axes, b: Axes, c: Axes, *dtypes: tuple[str, str]
) -> Operator:
    left, right, product = (", ".join(each) for each in (a, b, c))
    return Operator(
        name=name,
        sentence=f"c[{product}] = Σₖ a[{left}] · b[{right}]",
        stages=(_sum_of_products(a, b, c, quantised=bool(dtypes)),),
        family=Family.CONTRACTION,
        axes=axes,
        inputs=(("a", a), ("b", b)),
        dtypes=dtypes,
        flops_per_point=2,
    )


def _sum_of_products(a: Axes, b: Axes, c: Axes, *, quantised: bool) -> Stage:
    """Places along the axes of c are i0, i1 and so on."""
    axes = {name: Axis(f"i{number}", Extent(name)) for number, name in enumerate(c)}
    axes["k"] = Axis("k", Extent("k"))

    def entry(tensor: str, of: Axes) -> Read:
        return read(tensor, *(axes[name] for name in of))

    right = Cast(entry("b", b)) if quantised else entry("b", b)
    return Stage(
        name="c",
        axes=tuple(axes[name] for name in c),
        reducer=Reducer.SUM,
        value=entry("a", a) * right,
        over=(axes["k"],),
    )


CONTRACTIONS = (
    _contraction("matmul", ("m", "k", "n"), ("m", "k"), ("k", "n"), ("m", "n")),
    _contraction(
        "batch_matmul", ("b", "m", "k", "n"), ("b", "m", "k"), ("b", "k", "n"), ("b", "m", "n")
    ),
    _contraction("matmul_nt", ("m", "k", "n"), ("m", "k"), ("n", "k"), ("m", "n")),
    _contraction("matmul_tn", ("m", "k", "n"), ("k", "m"), ("k", "n"), ("m", "n")),
    _contraction(
        "batch_matmul_nt", ("b", "m", "k", "n"), ("b", "m", "k"), ("b", "n", "k"), ("b", "m", "n")
    ),
    _contraction("matmul_i8", ("m", "k", "n"), ("m", "k"), ("k", "n"), ("m", "n"), ("b", "i8")),
    _contraction("matmul_nt_i8", ("m", "k", "n"), ("m", "k"), ("n", "k"), ("m", "n"), ("b", "i8")),
)

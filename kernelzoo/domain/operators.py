"""The operators as a table: axes, attributes, and the tensors as functions of both.

Keys name each axis before its extent. Attributes stand behind the axes in a key and count nothing:
stride and padding, where a slice starts. A derived extent follows from the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

Extents = Mapping[str, int]
Axes = tuple[str, ...]


class Family(StrEnum):
    """Operators that are computed, scheduled and checked alike."""

    CONTRACTION = "contraction"
    CONVOLUTION = "convolution"
    ROWS = "rows"
    MAP = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """An extent that others give; no workload has it below 1."""

    axis: str
    extent: Callable[[Extents], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """`axes` are the names in a key in their order, `attributes` those that are no extents.

    `definition` says for people what an output entry is, in the names of tensors and axes.

    `dtypes` are those of inputs that do not have the workload's; the entries of an index lie below
    the extent that `indexed` names. Every output entry takes `flops_per_point` operations for each
    combination of `summed` axes.
    """

    name: str
    definition: str
    family: Family
    axes: Axes
    inputs: tuple[tuple[str, Axes], ...]
    output: tuple[str, Axes]
    summed: Axes = ()
    attributes: Axes = ()
    derived: tuple[Derived, ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()
    indexed: str = ""
    flops_per_point: int = 1

    @property
    def may_be_constant(self) -> Axes:
        """Inputs that a kernel gains from when a page never changes them."""
        return ("b",) if self.family is Family.CONTRACTION or self.name == "conv2d" else ()

    @property
    def strided(self) -> bool:
        """Whether windows move over its input."""
        return "stride" in self.attributes

    @property
    def takes_weights(self) -> bool:
        return len(self.inputs) > 1

    @property
    def takes_epilogue(self) -> bool:
        return self.family is Family.CONTRACTION or self.name == "conv2d"


class EpilogueKind(StrEnum):
    """What an epilogue reads besides the entry: nothing, or an input of a certain shape, which is
    added (COLUMN, ENTRY) or multiplied by (FACTOR, SCALAR)."""

    UNARY = "unary"
    COLUMN = "column"
    ENTRY = "entry"
    FACTOR = "factor"
    SCALAR = "scalar"


EPILOGUES = {
    "bias": EpilogueKind.COLUMN,
    "residual": EpilogueKind.ENTRY,
    "scale": EpilogueKind.SCALAR,
    "scales": EpilogueKind.FACTOR,
    "relu": EpilogueKind.UNARY,
    "gelu": EpilogueKind.UNARY,
    "silu": EpilogueKind.UNARY,
    "sigmoid": EpilogueKind.UNARY,
    "tanh": EpilogueKind.UNARY,
}
"""bias adds a value for each column, residual one for each entry; scale multiplies by one value,
scales by one for each column."""


def _windows(size: str, kernel: str) -> Callable[[Extents], int]:
    """How often a window of `kernel` fits, with padding on both sides."""
    return lambda e: (e[size] + 2 * e["pad"] - e[kernel]) // max(1, e["stride"]) + 1


_WINDOWS = (
    Derived(axis="y", extent=_windows("h", "kh")),
    Derived(axis="x", extent=_windows("w", "kw")),
)


def _contraction(
    name: str, axes: Axes, a: Axes, b: Axes, c: Axes, *dtypes: tuple[str, str]
) -> Operator:
    left, right, product = (", ".join(each) for each in (a, b, c))
    return Operator(
        name=name,
        definition=f"c[{product}] = Σₖ a[{left}] · b[{right}]",
        family=Family.CONTRACTION,
        axes=axes,
        inputs=(("a", a), ("b", b)),
        output=("c", c),
        summed=("k",),
        dtypes=dtypes,
        flops_per_point=2,
    )


def _image(name: str, definition: str, axes: Axes, *weights: tuple[str, Axes]) -> Operator:
    """Windows of kh x kw over an image a[b, h, w, c]; channel by channel without an axis o."""
    channels = "o" if "o" in axes else "c"
    return Operator(
        name=name,
        definition=definition,
        family=Family.CONVOLUTION,
        axes=(*axes, "kh", "kw", "stride", "pad"),
        inputs=(("a", ("b", "h", "w", "c")), *weights),
        output=("c", ("b", "y", "x", channels)),
        summed=("kh", "kw", "c") if channels == "o" else ("kh", "kw"),
        attributes=("stride", "pad"),
        derived=_WINDOWS,
        flops_per_point=2 if weights else 1,
    )


def _rows(
    name: str,
    definition: str,
    parameters: Axes,
    flops_per_point: int,
    output: Axes = ("m", "n"),
) -> Operator:
    """Each row of a[m, n] by itself; `parameters` are inputs with a value for each column."""
    return Operator(
        name=name,
        definition=definition,
        family=Family.ROWS,
        axes=("m", "n"),
        inputs=(("a", ("m", "n")), *((parameter, ("n",)) for parameter in parameters)),
        output=("c", output),
        summed=() if "n" in output else ("n",),
        flops_per_point=flops_per_point,
    )


def _map(
    name: str,
    definition: str,
    axes: Axes,
    inputs: tuple[Axes, ...],
    output: Axes,
    *derived: Derived,
) -> Operator:
    """Every entry from a few others; moving one counts as one operation."""
    return Operator(
        name=name,
        definition=definition,
        family=Family.MAP,
        axes=axes,
        inputs=tuple(zip("ab", inputs, strict=False)),
        output=("c", output),
        derived=derived,
        attributes=tuple(axis for axis in axes if axis in ("start", "pad")),
    )


_UNARY = {
    "relu": "max(a, 0)",
    "gelu": "a · (1 + erf(a / √2)) / 2, not its approximation by tanh",
    "silu": "a / (1 + exp(−a))",
    "sigmoid": "1 / (1 + exp(−a))",
    "tanh": "tanh(a)",
    "erf": "erf(a)",
    "exp": "exp(a)",
}
_BINARY = {"add": "a + b", "sub": "a − b", "mul": "a · b", "max": "max(a, b)"}
UNARY = tuple(_UNARY)
BINARY = tuple(_BINARY)

_TABLE = (
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
    _image(
        "conv2d",
        "c[b, y, x, o] = Σ a[b, y·stride + i − pad, x·stride + j − pad, c] · b[i, j, c, o] over "
        "i < kh, j < kw and c; a is 0 outside of the image",
        ("b", "h", "w", "c", "o"),
        ("b", ("kh", "kw", "c", "o")),
    ),
    _image(
        "depthwise_conv2d",
        "c[b, y, x, c] = Σ a[b, y·stride + i − pad, x·stride + j − pad, c] · b[i, j, c] over "
        "i < kh and j < kw; a is 0 outside of the image",
        ("b", "h", "w", "c"),
        ("b", ("kh", "kw", "c")),
    ),
    _image(
        "max_pool2d",
        "the largest of a[b, y·stride + i − pad, x·stride + j − pad, c] over i < kh and j < kw, "
        "within the image",
        ("b", "h", "w", "c"),
    ),
    _image(
        "avg_pool2d",
        "Σ a[b, y·stride + i − pad, x·stride + j − pad, c] / (kh · kw) over i < kh and j < kw; "
        "a is 0 outside of the image, and what lies outside counts",
        ("b", "h", "w", "c"),
    ),
    _rows("softmax", "exp(a[m, n] − maxₙ a) / Σₙ exp(a[m, n] − maxₙ a)", (), 5),
    _rows(
        "layer_norm",
        "(a[m, n] − meanₙ a) / √(varₙ a + 1e-5) · gamma[n] + beta[n]; the variance is divided by n",
        ("gamma", "beta"),
        8,
    ),
    _rows("rms_norm", "a[m, n] / √(meanₙ a² + 1e-5) · gamma[n]", ("gamma",), 5),
    _rows("row_sum", "Σₙ a[m, n]", (), 1, ("m",)),
    _rows("row_mean", "Σₙ a[m, n] / n", (), 1, ("m",)),
    _rows("row_max", "maxₙ a[m, n]", (), 1, ("m",)),
    *(_map(name, text, ("n",), (("n",),), ("n",)) for name, text in _UNARY.items()),
    *(_map(name, text, ("n",), (("n",), ("n",)), ("n",)) for name, text in _BINARY.items()),
    Operator(
        name="gather",
        definition="a[indices[m], n]; an index below 0 takes row 0, one of k or more the last row",
        family=Family.MAP,
        axes=("m", "k", "n"),
        inputs=(("a", ("k", "n")), ("indices", ("m",))),
        output=("c", ("m", "n")),
        dtypes=(("indices", "i32"),),
        indexed="k",
    ),
    _map("transpose", "c[n, m] = a[m, n]", ("m", "n"), (("m", "n"),), ("n", "m")),
    _map(
        "concat",
        "the n columns of a, then the k columns of b",
        ("m", "n", "k"),
        (("m", "n"), ("m", "k")),
        ("m", "x"),
        Derived(axis="x", extent=lambda e: e["n"] + e["k"]),
    ),
    _map(
        "slice",
        "the columns of a from start on, size of them, or as many as there are",
        ("m", "n", "start", "size"),
        (("m", "n"),),
        ("m", "x"),
        Derived(axis="x", extent=lambda e: min(e["size"], e["n"] - e["start"])),
    ),
    _map(
        "pad",
        "a with pad zeros on every side",
        ("m", "n", "pad"),
        (("m", "n"),),
        ("y", "x"),
        Derived(axis="y", extent=lambda e: e["m"] + 2 * e["pad"]),
        Derived(axis="x", extent=lambda e: e["n"] + 2 * e["pad"]),
    ),
)

OPERATORS = {operator.name: operator for operator in _TABLE}

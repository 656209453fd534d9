"""Operators stated in TVM's tensor expressions, plainly: what each computes and nothing else.

Inputs come in the order of the workload's tensors. `stated` builds a function that any lowering
may take; the families state contractions, convolutions and rows anew, in the way they schedule.
"""

from collections.abc import Callable, Mapping

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import EPILOGUES, EpilogueKind
from kernelzoo.domain.workload import Role, Workload
from kernelzoo.errors import UnsupportedProgram
from services.tuner.tir.tvm import Node, te, tirx

VARIANCE_FLOOR = 1e-5
"""Added to a variance or a mean square before its root, as in PyTorch's layer norm."""

LOWEST = -3.4028234663852886e38
"""The smallest f32: what the largest of no values is."""

DTYPES = {DType.F32: "float32", DType.F16: "float32", DType.I32: "int32", DType.I8: "int8"}
"""What TVM calls them. It is not told that tensors are kept as f16: what is computed is f32."""

Extents = Mapping[str, int]
Inputs = tuple[Node, ...]
Definition = Callable[[Extents, Inputs], Node]


def stated(workload: Workload) -> Node:
    """The PrimFunc of a workload. Raises UnsupportedProgram for an operator without definition."""
    inputs = placeholders(workload)
    count = len(workload.operator.inputs)
    result = _definition(workload.operator.name)(workload.extent, inputs[:count])
    if workload.epilogue:
        result = finished(workload.epilogue, result, inputs[count:])
    return te.create_prim_func([*inputs, result])


def placeholders(workload: Workload) -> Inputs:
    return tuple(
        te.placeholder(tensor.shape, name=tensor.name, dtype=DTYPES[tensor.dtype])
        for tensor in workload.tensors
        if tensor.role is Role.INPUT
    )


def finished(epilogue: tuple[str, ...], entries: Node, extra: Inputs) -> Node:
    """Every entry with the epilogue applied in its order; `extra` are the inputs of its parts."""

    def entry(*at: Node) -> Node:
        return applied(epilogue, entries(*at), at, extra)

    return te.compute(entries.shape, entry, name="c")


def applied(epilogue: tuple[str, ...], value: Node, at: tuple[Node, ...], extra: Inputs) -> Node:
    remaining = list(extra)
    for name in epilogue:
        match EPILOGUES[name]:
            case EpilogueKind.UNARY:
                value = UNARY[name](value)
            case EpilogueKind.COLUMN:
                value = value + remaining.pop(0)(at[-1])
            case EpilogueKind.ENTRY:
                value = value + remaining.pop(0)(*at)
            case EpilogueKind.FACTOR:
                value = value * remaining.pop(0)(at[-1])
            case EpilogueKind.SCALAR:
                value = value * remaining.pop(0)(0)
    return value


def _constant(value: float) -> Node:
    return tirx.const(value, "float32")


def _gelu(x: Node) -> Node:
    """x·Φ(x), by erf."""
    return _constant(0.5) * x * (_constant(1) + te.erf(x * _constant(0.7071067811865476)))


UNARY: dict[str, Callable[[Node], Node]] = {
    "relu": lambda x: te.max(x, _constant(0)),
    "gelu": _gelu,
    "silu": lambda x: x * te.sigmoid(x),
    "sigmoid": te.sigmoid,
    "tanh": te.tanh,
    "erf": te.erf,
    "exp": te.exp,
}
_BINARY: dict[str, Callable[[Node, Node], Node]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "max": te.max,
}


def _definition(name: str) -> Definition:
    if name in UNARY:
        return lambda e, x: te.compute((e["n"],), lambda i: UNARY[name](x[0][i]), name="c")
    if name in _BINARY:
        return lambda e, x: te.compute(
            (e["n"],), lambda i: _BINARY[name](x[0][i], x[1][i]), name="c"
        )
    if name not in _DEFINITIONS:
        raise UnsupportedProgram(f"operator {name} has no definition; use one of the table")
    return _DEFINITIONS[name]


def contracted(
    a: Node,
    b: Node,
    shape: tuple[int, ...],
    k: Node,
    *,
    a_turned: bool,
    b_turned: bool,
    panels: int = 0,
    name: str = "c",
) -> Node:
    """c[…, m, n] = Σ a[…, m, k]·b[…, k, n]; a turned matrix has its last two axes the other way.

    b may come in panels of so many columns, turned or not, and as another type than a.
    """

    def entry(*at: Node) -> Node:
        *outer, m, n = at
        left = a[(*outer, k, m)] if a_turned else a[(*outer, m, k)]
        if panels:
            right = b[(*outer, n // panels, k, n % panels)]
        else:
            right = b[(*outer, n, k)] if b_turned else b[(*outer, k, n)]
        return te.sum(left * right.astype("float32"), axis=k)

    return te.compute(shape, entry, name=name)


def _contraction(*, a_turned: bool = False, b_turned: bool = False) -> Definition:
    def define(e: Extents, x: Inputs) -> Node:
        batch = (e["b"],) if "b" in e else ()
        k = te.reduce_axis((0, e["k"]), name="k")
        shape = (*batch, e["m"], e["n"])
        return contracted(x[0], x[1], shape, k, a_turned=a_turned, b_turned=b_turned)

    return define


def padded(image: Node, e: Extents, outside: float, rows: int, columns: int) -> Node:
    """The image[b, h, w, c] with padding p on the upper left, cut or filled to rows x columns."""
    b, h, w, c = image.shape
    p = e["pad"]

    def entry(i: Node, y: Node, x: Node, j: Node) -> Node:
        inside = tirx.all(y >= p, y < h + p, x >= p, x < w + p)
        return tirx.if_then_else(inside, image[i, y - p, x - p, j], _constant(outside))

    return te.compute((b, rows, columns, c), entry, name="padded")


def _whole(image: Node, e: Extents, outside: float = 0.0) -> Node:
    if not e["pad"]:
        return image
    return padded(image, e, outside, e["h"] + 2 * e["pad"], e["w"] + 2 * e["pad"])


def _conv2d(e: Extents, x: Inputs) -> Node:
    image, weights = _whole(x[0], e), x[1]
    r, q = te.reduce_axis((0, e["kh"]), name="r"), te.reduce_axis((0, e["kw"]), name="q")
    c, s = te.reduce_axis((0, e["c"]), name="c"), e["stride"]
    return te.compute(
        (e["b"], e["y"], e["x"], e["o"]),
        lambda i, y, x, o: te.sum(
            image[i, y * s + r, x * s + q, c] * weights[r, q, c, o], axis=[r, q, c]
        ),
        name="c",
    )


def _window(
    reduce: Callable[..., Node], e: Extents, image: Node, weights: Node | None = None
) -> Node:
    """Windows over each channel by itself."""
    r, q = te.reduce_axis((0, e["kh"]), name="r"), te.reduce_axis((0, e["kw"]), name="q")
    s = e["stride"]

    def entry(i: Node, y: Node, x: Node, c: Node) -> Node:
        value = image[i, y * s + r, x * s + q, c]
        return reduce(value if weights is None else value * weights[r, q, c], axis=[r, q])

    return te.compute((e["b"], e["y"], e["x"], e["c"]), entry, name="c")


def _avg_pool2d(e: Extents, x: Inputs) -> Node:
    """Padding counts as zeros."""
    total = _window(te.sum, e, _whole(x[0], e))
    share = _constant(1 / (e["kh"] * e["kw"]))
    return te.compute(total.shape, lambda *at: total(*at) * share, name="c")


def _over_columns(reduce: Callable[..., Node], e: Extents, value: Callable[..., Node]) -> Node:
    k = te.reduce_axis((0, e["n"]), name="k")
    return te.compute((e["m"],), lambda i: reduce(value(i, k), axis=k), name="c")


def _softmax(e: Extents, x: Inputs) -> Node:
    a, shape = x[0], (e["m"], e["n"])
    largest = _over_columns(te.max, e, lambda i, k: a[i, k])
    power = te.compute(shape, lambda i, j: te.exp(a[i, j] - largest[i]), name="power")
    total = _over_columns(te.sum, e, lambda i, k: power[i, k])
    return te.compute(shape, lambda i, j: power[i, j] / total[i], name="c")


def _layer_norm(e: Extents, x: Inputs) -> Node:
    a, gamma, beta = x
    n = _constant(1 / e["n"])
    total = _over_columns(te.sum, e, lambda i, k: a[i, k])
    rest = te.compute((e["m"], e["n"]), lambda i, j: a[i, j] - total[i] * n, name="rest")
    square = _over_columns(te.sum, e, lambda i, k: rest[i, k] * rest[i, k])
    root = te.compute(
        (e["m"],), lambda i: te.rsqrt(square[i] * n + _constant(VARIANCE_FLOOR)), name="factor"
    )
    return te.compute(
        (e["m"], e["n"]), lambda i, j: rest[i, j] * root[i] * gamma[j] + beta[j], name="c"
    )


def _rms_norm(e: Extents, x: Inputs) -> Node:
    a, gamma = x
    square = _over_columns(te.sum, e, lambda i, k: a[i, k] * a[i, k])
    n = _constant(1 / e["n"])
    root = te.compute(
        (e["m"],), lambda i: te.rsqrt(square[i] * n + _constant(VARIANCE_FLOOR)), name="factor"
    )
    return te.compute((e["m"], e["n"]), lambda i, j: a[i, j] * root[i] * gamma[j], name="c")


def _row_mean(e: Extents, x: Inputs) -> Node:
    total = _over_columns(te.sum, e, lambda i, k: x[0][i, k])
    return te.compute((e["m"],), lambda i: total[i] * _constant(1 / e["n"]), name="c")


def _gather(e: Extents, x: Inputs) -> Node:
    """Rows of a table; an index outside of it takes the nearest row."""
    table, indices = x

    def entry(i: Node, j: Node) -> Node:
        return table[te.max(te.min(indices[i], e["k"] - 1), 0), j]

    return te.compute((e["m"], e["n"]), entry, name="c")


def _concat(e: Extents, x: Inputs) -> Node:
    a, b = x
    n = e["n"]
    return te.compute(
        (e["m"], e["x"]),
        lambda i, j: tirx.if_then_else(j < n, a[i, j], b[i, j - n]),
        name="c",
    )


def _pad(e: Extents, x: Inputs) -> Node:
    m, n, p = e["m"], e["n"], e["pad"]

    def entry(i: Node, j: Node) -> Node:
        inside = tirx.all(i >= p, i < m + p, j >= p, j < n + p)
        return tirx.if_then_else(inside, x[0][i - p, j - p], _constant(0))

    return te.compute((e["y"], e["x"]), entry, name="c")


_DEFINITIONS: dict[str, Definition] = {
    "matmul": _contraction(),
    "matmul_nt": _contraction(b_turned=True),
    "matmul_tn": _contraction(a_turned=True),
    "matmul_i8": _contraction(),
    "matmul_nt_i8": _contraction(b_turned=True),
    "batch_matmul": _contraction(),
    "batch_matmul_nt": _contraction(b_turned=True),
    "conv2d": _conv2d,
    "depthwise_conv2d": lambda e, x: _window(te.sum, e, _whole(x[0], e), x[1]),
    "max_pool2d": lambda e, x: _window(te.max, e, _whole(x[0], e, LOWEST)),
    "avg_pool2d": _avg_pool2d,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "row_sum": lambda e, x: _over_columns(te.sum, e, lambda i, k: x[0][i, k]),
    "row_max": lambda e, x: _over_columns(te.max, e, lambda i, k: x[0][i, k]),
    "row_mean": _row_mean,
    "gather": _gather,
    "transpose": lambda e, x: te.compute((e["n"], e["m"]), lambda i, j: x[0][j, i], name="c"),
    "concat": _concat,
    "slice": lambda e, x: te.compute(
        (e["m"], e["x"]), lambda i, j: x[0][i, j + e["start"]], name="c"
    ),
    "pad": _pad,
}

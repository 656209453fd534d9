"""Finds what the layers of a language model consist of in the dataflow of a file of ONNX.

Each function is given a value and says what made it, or raises UnsupportedModel with the node that
stands where something else is expected.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelzoo.domain.operators.quantised import USUAL_FORM
from kernelzoo.errors import UnsupportedModel
from services.tuner.graph.dataflow import Dataflow, Made
from services.tuner.graph.reading import Array, told_node
from services.tuner.language.packed import DenseMatrix, Matrix, packed_matrix

SHAPES = "models of the shapes of Gemma, Llama, Mistral, Phi-3, Qwen2 and Qwen3 are known"
_PRODUCTS = ("Gemm", "MatMul", "MatMulNBits")
_NORMS = ("RMSNormalization", "SimplifiedLayerNormalization")
_SKIPPING = "SkipSimplifiedLayerNormalization"


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """`source`: the value that is multiplied."""

    source: str
    matrix: Matrix
    bias: Array | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """An RMS norm. `source`: the value, or the two whose sum is normalised."""

    gamma: Array
    epsilon: float
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """`cosines` and `sines`: [places, head_dim / 2]."""

    cosines: Array
    sines: Array

    def equals(self, other: "Rotation") -> bool:
        return np.array_equal(self.cosines, other.cosines) and np.array_equal(
            self.sines, other.sines
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """`window`: the last tokens that are seen, 0 for all. `scale`: what scores are multiplied by,
    head_dim^-½ where it is 0. `cap`: that of scores, 0 for none."""

    heads: int
    kv_heads: int
    scale: float
    cap: float
    queries: Linear
    keys: Linear
    values: Linear
    query_norm: Norm | None
    key_norm: Norm | None
    rotation: Rotation
    window: int


def refusal(made: Made | None, value: str, what: str) -> UnsupportedModel:
    stands = told_node(made.node) if made is not None else f"the value {value!r}"
    return UnsupportedModel(f"{stands} stands where {what} is expected; {SHAPES}")


def sum_of(flow: Dataflow, value: str) -> tuple[str, str] | None:
    """The two values that are added; None where a value is something else."""
    made = flow.made(value)
    if made is None or _constant_operand(flow, made) is not None:
        return None
    if made.op == "Add" or (made.op == _SKIPPING and made.place == 3):
        return flow.origin(made.input(0)), flow.origin(made.input(1))
    return None


def source_of(flow: Dataflow, value: str) -> tuple[str, ...]:
    """Names a value so that equal sums have equal names, whichever node adds."""
    both = sum_of(flow, value)
    return (flow.origin(value),) if both is None else tuple(sorted(both))


def is_norm(flow: Dataflow, value: str) -> bool:
    made = flow.made(value)
    return made is not None and made.op in _NORMS


def norm(flow: Dataflow, value: str, what: str) -> Norm:
    made = flow.made(value)
    match made.op if made is not None else "":
        case op if made is not None and op in _NORMS:
            gamma, usual, source = made.input(1), 1e-5, source_of(flow, made.input(0))
        case op if made is not None and op == _SKIPPING and made.place == 0:
            if made.input(3):
                raise refusal(made, value, f"{what} without a bias")
            both = sorted(flow.origin(made.input(place)) for place in (0, 1))
            gamma, usual, source = made.input(2), 1e-12, tuple(both)
        case _:
            raise refusal(made, value, what)
    return Norm(
        gamma=flow.demanded(gamma, made, "gamma"),
        epsilon=_written(made.attribute("epsilon", usual)),
        source=source,
    )


def _written(number: float) -> float:
    """The shortest number that is this one in f32, as people wrote it."""
    return float(str(np.float32(number)))


def is_linear(flow: Dataflow, value: str) -> bool:
    made = flow.made(value)
    return made is not None and (made.op in _PRODUCTS or _constant_operand(flow, made) is not None)


def linear(flow: Dataflow, value: str, what: str) -> Linear:
    """A product with weights, or a part of one, and the bias that is added to it."""
    made = flow.made(value)
    if made is None:
        raise refusal(made, value, what)
    added = _constant_operand(flow, made)
    if added is not None:
        whole = linear(flow, made.input(1 - added), what)
        more = flow.demanded(made.input(added), made, "bias").reshape(-1)
        return replace(whole, bias=more if whole.bias is None else whole.bias + more)
    match made.op:
        case "Split" | "Slice":
            whole = linear(flow, made.input(0), what)
            return _part(whole, *_bounds(flow, made, whole.matrix.rows))
        case "MatMulNBits":
            matrix: Matrix = _of_bits(flow, made)
            bias = made.input(5)
        case "MatMul":
            entries = flow.demanded(made.input(1), made, "weights")
            matrix = DenseMatrix(entries=entries.T)
            bias = ""
        case "Gemm":
            entries = flow.demanded(made.input(1), made, "weights")
            matrix = DenseMatrix(entries=entries if made.attribute("transB", 0) else entries.T)
            bias = made.input(2)
        case _:
            raise refusal(made, value, what)
    return Linear(
        source=flow.origin(made.input(0)),
        matrix=matrix,
        bias=flow.demanded(bias, made, "bias") if bias else None,
    )


def _constant_operand(flow: Dataflow, made: Made) -> int | None:
    """The place of what is added, where that is a constant."""
    if made.op != "Add":
        return None
    return next((n for n in (0, 1) if flow.constant(made.input(n)) is not None), None)


def _part(whole: Linear, start: int, stop: int) -> Linear:
    bias = None if whole.bias is None else whole.bias[start:stop]
    return replace(whole, matrix=whole.matrix.part(start, stop), bias=bias)


def _bounds(flow: Dataflow, made: Made, rows: int) -> tuple[int, int]:
    """The entries of a row that a node takes."""
    if made.op == "Split":
        if made.attribute("axis", 0) not in (-1, 2):
            raise refusal(made, "", "a part of a row")
        if made.input(1):
            sizes = flow.demanded(made.input(1), made, "sizes").tolist()
        else:
            sizes = [rows // len(made.node.output)] * len(made.node.output)
        start = sum(sizes[: made.place])
        return start, start + sizes[made.place]
    starts, ends, axes = (
        flow.demanded(made.input(place), made, "places").reshape(-1).tolist() for place in (1, 2, 3)
    )
    if len(axes) != 1 or axes[0] == 0:
        raise refusal(made, "", "a part of a row")
    start, stop, _ = slice(starts[0], ends[0]).indices(rows)
    return start, stop


def _of_bits(flow: Dataflow, made: Made) -> Matrix:
    told = told_node(made.node)
    if made.input(4) and np.any(np.diff(flow.demanded(made.input(4), made, "order")) < 0):
        raise UnsupportedModel(
            f"{told} has its columns in another order; quantise it without act_order"
        )
    shape = (made.attribute("N"), made.attribute("K"))
    width, block = made.attribute("bits", USUAL_FORM.width), made.attribute("block_size")
    return packed_matrix(told, _packed(flow, made, (1, 2, 3)), shape, width=width, block=block)


def _packed(flow: Dataflow, made: Made, places: Sequence[int]) -> tuple[Array, Array, Array | None]:
    weights, scales, zeros = places
    return (
        flow.demanded(made.input(weights), made, "weights"),
        flow.demanded(made.input(scales), made, "scales"),
        flow.demanded(made.input(zeros), made, "zero points") if made.input(zeros) else None,
    )


def embedding(flow: Dataflow, value: str) -> tuple[Matrix, float]:
    """The table of tokens, and what its rows are multiplied by."""
    factored = _factored(flow, value)
    source, factor = (value, 1.0) if factored is None else factored
    return _table(flow, source), factor


def _factored(flow: Dataflow, value: str) -> tuple[str, float] | None:
    """Returns the value that is multiplied or divided by one constant, and the factor; None for
    another value."""
    made = flow.made(value)
    if made is None or made.op not in ("Mul", "Div"):
        return None
    for place in (0, 1) if made.op == "Mul" else (1,):
        held = flow.constant(made.input(place))
        if held is not None and held.size == 1:
            factor = _written(held.reshape(-1)[0])
            return made.input(1 - place), factor if made.op == "Mul" else 1 / factor
    return None


def capped(flow: Dataflow, value: str) -> tuple[str, float]:
    """Returns the value that becomes cap · tanh(entry / cap), and the cap; the value itself and 0
    where none does."""
    outer = _factored(flow, value)
    bent = None if outer is None else flow.made(outer[0])
    if outer is None or bent is None or bent.op != "Tanh":
        return value, 0.0
    inner = _factored(flow, bent.input(0))
    if inner is None or not np.isclose(inner[1] * outer[1], 1.0, rtol=1e-3):
        raise refusal(bent, "", "a cap of the logits")
    return inner[0], outer[1]


def _table(flow: Dataflow, value: str) -> Matrix:
    made = flow.made(value)
    match made.op if made is not None else "":
        case "Gather" if made is not None:
            return DenseMatrix(entries=flow.demanded(made.input(0), made, "table"))
        case "GatherBlockQuantized" if made is not None:
            told = told_node(made.node)
            width, block = (
                made.attribute(name, usual)
                for name, usual in (("bits", USUAL_FORM.width), ("block_size", 128))
            )
            if made.attribute("gather_axis", 0):
                raise refusal(made, value, "a table whose rows are gathered")
            tensors = _packed(flow, made, (0, 2, 3))
            rows, columns = len(tensors[0]), tensors[0].shape[1] * 8 // width
            return packed_matrix(told, tensors, (rows, columns), width=width, block=block)
    raise refusal(made, value, "the embedding of tokens")


def gated(flow: Dataflow, value: str) -> tuple[str, Linear, Linear]:
    """Returns what a gate goes through, the gate before that, and what it lets through."""
    made = flow.made(value)
    if made is not None and made.op == "Mul":
        for place, other in ((0, 1), (1, 0)):
            for name, inside in (("silu", _silu), ("gelu_tanh", _gelu_tanh)):
                held = inside(flow, made.input(place))
                if held is not None:
                    up = linear(flow, made.input(other), "the product that a gate lets through")
                    return name, linear(flow, held, "the product of a gate"), up
    raise refusal(made, value, "a product gated by SiLU, or by GELU with tanh,")


def _gelu_tanh(flow: Dataflow, value: str) -> str | None:
    """Returns the value of which GELU is taken, with tanh in the place of erf; None for another
    value."""
    made = flow.made(value)
    match made.op if made is not None else "":
        case "FastGelu" if made is not None:
            return None if made.input(1) else made.input(0)
        case "Gelu" if made is not None:
            return made.input(0) if made.attribute("approximate", b"none") == b"tanh" else None
    return None


def _silu(flow: Dataflow, value: str) -> str | None:
    """Returns the value of which SiLU is taken; None for another value."""
    made = flow.made(value)
    match made.op if made is not None else "":
        case "QuickGelu" | "Swish" if made is not None:
            usual = 1.702 if made.op == "QuickGelu" else 1.0
            return made.input(0) if made.attribute("alpha", usual) == 1.0 else None
        case "Mul" if made is not None:
            for gate, other in ((0, 1), (1, 0)):
                inner, of = flow.made(made.input(gate)), flow.origin(made.input(other))
                if inner is None or inner.op != "Sigmoid":
                    continue
                if flow.origin(inner.input(0)) == of:
                    return of
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Projected:
    """The rows that attention reads, before what it does to them by itself. `rotations` are the
    nodes that rotate queries and keys."""

    queries: Linear
    keys: Linear
    values: Linear
    norms: tuple[Norm | None, Norm | None] = (None, None)
    rotations: tuple[Made | None, Made | None] = (None, None)


def attention(flow: Dataflow, value: str) -> Attention:
    made = flow.made(value)
    if made is None or made.op != "GroupQueryAttention":
        raise refusal(made, value, "GroupQueryAttention")
    _refuse_variants(made)
    heads, kv_heads = made.attribute("num_heads"), made.attribute("kv_num_heads")
    projected = _projected(flow, made, heads, kv_heads)
    head_dim = projected.queries.matrix.rows // heads
    scale = made.attribute("scale", 0.0)
    own = (_own_norm(flow, made, place) for place in (14, 15))
    norms = [apart or inside for apart, inside in zip(projected.norms, own, strict=True)]
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        scale=0.0 if np.isclose(scale, head_dim**-0.5) else _written(scale),
        cap=_written(made.attribute("softcap", 0.0)),
        queries=projected.queries,
        keys=projected.keys,
        values=projected.values,
        query_norm=norms[0],
        key_norm=norms[1],
        rotation=_rotation(flow, made, projected.rotations, head_dim),
        window=max(0, made.attribute("local_window_size", -1)),
    )


def _refuse_variants(attention: Made) -> None:
    for name in ("smooth_softmax", "rotary_interleaved"):
        if attention.attribute(name, 0) > 0:
            raise refusal(attention, "", f"attention without {name}")
    if any(attention.input(place) for place in range(10, 14)):
        raise refusal(attention, "", "attention without biases, sinks and a quantised cache")


def _projected(flow: Dataflow, attention: Made, heads: int, kv_heads: int) -> _Projected:
    queries, keys, values = (attention.input(place) for place in range(3))
    if not keys:
        whole = linear(flow, queries, "the product of queries, keys and values")
        width = whole.matrix.rows // (heads + 2 * kv_heads)
        ends = (0, heads * width, (heads + kv_heads) * width, whole.matrix.rows)
        q, k, v = (_part(whole, ends[n], ends[n + 1]) for n in range(3))
        return _Projected(queries=q, keys=k, values=v)
    rotated = [_rotated(flow, each) for each in (queries, keys)]
    normed = [_normed(flow, each) for each, _ in rotated]
    return _Projected(
        queries=linear(flow, normed[0][0], "the product of queries"),
        keys=linear(flow, normed[1][0], "the product of keys"),
        values=linear(flow, values, "the product of values"),
        norms=(normed[0][1], normed[1][1]),
        rotations=(rotated[0][1], rotated[1][1]),
    )


def _normed(flow: Dataflow, value: str) -> tuple[str, Norm | None]:
    """Returns the value that is normalised head by head, and how; the value itself where it is
    not."""
    made = flow.made(value)
    if made is None or made.op != "SimplifiedLayerNormalization":
        return value, None
    return made.input(0), norm(flow, value, "the norm of a head")


def _own_norm(flow: Dataflow, attention: Made, place: int) -> Norm | None:
    """The norm of queries or keys that attention does by itself."""
    if not attention.input(place):
        return None
    gamma = flow.demanded(attention.input(place), attention, "gamma")
    epsilon = _written(attention.attribute("qk_norm_epsilon", 1e-6))
    return Norm(gamma=gamma, epsilon=epsilon, source=())


def _rotated(flow: Dataflow, value: str) -> tuple[str, Made | None]:
    """Returns the value that is rotated, and the node that does it."""
    made = flow.made(value)
    if made is None or made.op != "RotaryEmbedding":
        return value, None
    if made.attribute("interleaved", 0) or made.attribute("scale", 1.0) != 1.0:
        raise refusal(made, value, "a rotary embedding of halves that is not scaled")
    return made.input(0), made


def _rotation(
    flow: Dataflow, attention: Made, nodes: Sequence[Made | None], head_dim: int
) -> Rotation:
    rotating = [node for node in nodes if node is not None]
    inside = bool(attention.attribute("do_rotary", 0))
    if len(rotating) != (0 if inside else len(nodes)):
        raise refusal(attention, "", "attention with one rotary embedding of queries and keys")
    first = 7 if inside else 2
    found = [
        Rotation(
            cosines=flow.demanded(node.input(first), node, "table of cosines"),
            sines=flow.demanded(node.input(first + 1), node, "table of sines"),
        )
        for node in ([attention] if inside else rotating)
    ]
    if not all(each.equals(found[0]) for each in found):
        raise refusal(attention, "", "attention with one rotary embedding of queries and keys")
    if found[0].cosines.shape[1] * 2 != head_dim:
        raise refusal(attention, "", f"a rotary embedding of all {head_dim} entries of a head")
    return found[0]

"""Attention as com.microsoft has it, with caches of keys and values, in ONNX's own operators.

Scores are products of queries[b, h, s, d] and keys[b, h, l, d], scaled, with masks added; the
softmax of a row weighs the values. Names of extents: `batch`, `heads`, `queries` new positions,
`past` positions of a cache, `keys` positions in all, `width` of a head.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import TypeAlias

import numpy as np

from services.tuner.graph.functions import Body

FILTERED = -10_000.0
"""Scores of positions that a mask leaves out get this added, unless an attribute says otherwise."""


def _heads(body: Body, x: str, batch: int, positions: int, heads: int) -> str:
    """x[b, s, h · d] as [b, h, s, d]."""
    return body.transposed(body.reshaped(x, batch, positions, heads, -1), 0, 2, 1, 3)


def _joined(body: Body, x: str, batch: int, positions: int) -> str:
    """x[b, h, s, d] as [b, s, h · d]."""
    return body.reshaped(body.transposed(x, 0, 2, 1, 3), batch, positions, -1)


def _weighed(
    body: Body, queries: str, keys: str, values: str, scale: float, added: Sequence[str]
) -> str:
    scores = body.node("MatMul", queries, body.swapped(keys, 4))
    scores = body.node("Mul", scores, body.number(scale))
    for each in filter(None, added):
        scores = body.node("Add", scores, each)
    return body.node("MatMul", body.node("Softmax", scores, axis=-1), values)


def _lowest(body: Body) -> float:
    return float(np.finfo(body.dtype(0)).min) if body.dtype(0).kind == "f" else -1e30


def _causal(body: Body, queries: int, keys: int) -> str:
    """0 for positions up to one's own, of which the last is that of the last key."""
    later = np.arange(keys) > np.arange(queries)[:, None] + (keys - queries)
    return body.weight(np.where(later, _lowest(body), 0).astype(body.dtype(0)))


def _where(body: Body, condition: str, then: float, otherwise: float) -> str:
    return body.node("Where", condition, body.number(then), body.number(otherwise))


def _padding(body: Body, place: int, batch: int, queries: int, keys: int) -> str:
    """Makes what a mask adds to scores: of each key, of each query and key, or of lengths."""
    if not body.has(place):
        return ""
    filtered = body.real("mask_filter_value", FILTERED)
    shape = body.shape(place)
    if shape == (batch,):
        lengths = body.node("Cast", body.reshaped(f"i{place}", batch, 1, 1, 1), to=body.I32)
        positions = body.weight(np.arange(keys, dtype=np.int32))
        return _where(body, body.node("Less", positions, lengths), 0, filtered)
    wanted = {(batch, keys): (batch, 1, 1, keys), (batch, queries, keys): (batch, 1, queries, keys)}
    if shape not in wanted:
        raise body.refusal(
            f"its mask has the shape {list(shape)}", "give one of each key, or the lengths of texts"
        )
    mask = body.reshaped(f"i{place}", *wanted[shape])
    nothing = body.weight(np.zeros((), body.dtype(place)))
    return _where(body, body.node("Equal", mask, nothing), filtered, 0)


def _concatenated(body: Body, past: str, new: str) -> str:
    return body.node("Concat", past, new, axis=2)


def _attention(body: Body) -> tuple[str, ...]:
    """Queries, keys and values are one product of the input."""
    for name in ("do_rotary", "past_present_share_buffer"):
        if body.integer(name):
            raise body.refusal(f"it has {name}", "export the model without it")
    batch, queries, _ = body.shape(0)
    heads, columns = body.integer("num_heads"), body.shape(1)[-1]
    sizes = tuple(body.value("qkv_hidden_sizes") or (columns // 3,) * 3)
    product = body.node("MatMul", "i0", "i1")
    if body.has(2):
        product = body.node("Add", product, "i2")
    ends = np.cumsum((0, *sizes))
    q, k, v = (
        _heads(body, body.sliced(product, 2, int(ends[n]), int(ends[n + 1])), batch, queries, heads)
        for n in range(3)
    )
    keys = queries
    if body.has(4):
        keys += body.shape(4)[3]
        parts = (body.node("Gather", "i4", body.integers(n, shape=()), axis=0) for n in (0, 1))
        k, v = (_concatenated(body, past, new) for past, new in zip(parts, (k, v), strict=True))
    added = [
        _padding(body, 3, batch, queries, keys),
        _causal(body, queries, keys) if body.integer("unidirectional") else "",
        "i5" if body.has(5) else "",
    ]
    scale = body.real("scale") or 1 / sqrt(sizes[0] // heads)
    made = _joined(body, _weighed(body, q, k, v, scale, added), batch, queries)
    if body.outputs < 2:
        return (made,)
    both = (body.node("Unsqueeze", each, body.integers(0)) for each in (k, v))
    return made, body.node("Concat", *both, axis=0)


def _unpacked(body: Body) -> tuple[str, str, str]:
    """Queries, keys and values. All of them may be one tensor [b, s, h, 3, d], or the last two one
    [b, l, h, 2, d]; they are [b, s, h · d] then."""
    ranks = tuple(len(body.shape(place)) if body.has(place) else 0 for place in range(3))

    def part(place: int, number: int) -> str:
        batch, positions, heads, _, width = body.shape(place)
        one = body.sliced(f"i{place}", 3, number, number + 1)
        return body.reshaped(one, batch, positions, heads * width)

    match ranks:
        case (5, 0, 0) if body.shape(0)[3] == 3:
            return part(0, 0), part(0, 1), part(0, 2)
        case (3, 5, 0) if body.shape(1)[3] == 2:
            return "i0", part(1, 0), part(1, 1)
        case (3, key, value) if key and value:
            return "i0", "i1", "i2"
    raise body.refusal(
        f"its queries, keys and values have {ranks} axes", "export them apart, or packed as 3 or 2"
    )


def _multi_head_attention(body: Body) -> tuple[str, ...]:
    """Keys and values may be those of a cache, with their heads apart."""
    q, k, v = _unpacked(body)
    if body.has(8) or body.has(9):
        raise body.refusal("its cache is a buffer or of beams", "export it with past and present")
    batch, queries = body.shape(0)[:2]
    columns, heads = prod(body.shape(0)[2:3] + body.shape(0)[4:]), body.integer("num_heads")
    apart = body.has(2) and len(body.shape(1)) == 4
    if body.has(3):
        last = body.shape(3)[0]
        ends = (0, columns, 2 * columns, last)
        parts = [body.sliced("i3", 0, ends[n], ends[n + 1]) for n in range(3)]
        q = body.node("Add", q, parts[0])
        if not apart:
            k, v = body.node("Add", k, parts[1]), body.node("Add", v, parts[2])
    q = _heads(body, q, batch, queries, heads)
    keys = body.shape(1)[2 if apart else 1] if body.has(1) else queries
    if not apart:
        k, v = (_heads(body, each, batch, keys, heads) for each in (k, v))
    if body.has(6):
        k, v = _concatenated(body, "i6", k), _concatenated(body, "i7", v)
        keys += body.shape(6)[2]
    added = [
        _padding(body, 4, batch, queries, keys),
        _causal(body, queries, keys) if body.integer("unidirectional") else "",
        "i5" if body.has(5) else "",
    ]
    scale = body.real("scale") or 1 / sqrt(columns // heads)
    made = _joined(body, _weighed(body, q, k, v, scale, added), batch, queries)
    return made, k, v


def _rotary(body: Body) -> tuple[str, ...]:
    x, places = body.shape(0), body.shape(1)
    batch, sequence = x[0], x[-2]
    if body.real("scale", 1.0) != 1.0 or body.integer("is_packed_batching"):
        raise body.refusal("it scales or is packed", "export it without")
    positions = body.node("Cast", "i1", to=body.I64)
    if places != (batch, sequence):
        positions = body.node("Add", positions, body.integers(*range(sequence)))
        positions = body.node("Expand", positions, body.integers(batch, sequence))
    return (_rotated(body, "i0", x, positions, "i2", "i3", body.shape(2)[1]),)


def _rotated(
    body: Body, x: str, shape: Sequence[int], positions: str, cosines: str, sines: str, half: int
) -> str:
    """Each pair of entries of a head, rotated by the angle of its position. `positions`:
    int64[b, s]; `half`: the number of angles."""
    width = body.integer("rotary_embedding_dim")
    number = body.integer("num_heads") if width else shape[-1] // (2 * half)
    heads = {} if len(shape) == 4 else {"num_heads": number}
    interleaved = body.integer("interleaved") or body.integer("rotary_interleaved")
    return body.node(
        "RotaryEmbedding", x, cosines, sines, positions,
        interleaved=interleaved, rotary_embedding_dim=width, **heads,
    )  # fmt: skip


def _group_query_attention(body: Body) -> tuple[str, ...]:
    """Several heads of queries to one of keys and values. New keys stand in the cache behind those
    that `seqlens_k` says are there; the cache may be longer, so that a plan serves every step."""
    for name in ("smooth_softmax", "qk_output", "k_quant_type", "v_quant_type"):
        if body.value(name):
            raise body.refusal(f"it has {name}", "export the model without it")
    if any(body.has(place) for place in range(11, 16)):
        raise body.refusal(
            "it has sinks, norms of its own or a quantised cache", "export the model without them"
        )
    total = body.known(6)
    if total is None:
        raise body.refusal(
            "its total length depends on inputs", "derive it from the shape of the attention mask"
        )
    batch, queries, columns = body.shape(0)
    heads, groups = body.integer("num_heads"), body.integer("kv_num_heads")
    q, k, v = "i0", "i1", "i2"
    width = columns // heads if body.has(1) else columns // (heads + 2 * groups)
    if not body.has(1):
        ends = (0, heads * width, (heads + groups) * width, columns)
        q, k, v = (body.sliced("i0", 2, ends[n], ends[n + 1]) for n in range(3))
    past = body.shape(3)[2] if body.has(3) else 0
    keys = max(past, int(total.reshape(-1)[0]))
    sizes = _Sizes(batch, heads, groups, queries, past, keys, width)
    if int(total.reshape(-1)[0]) == queries:
        start = body.weight(np.zeros((batch, 1), np.int64))
    else:
        count = body.reshaped(body.node("Cast", "i5", to=body.I64), batch, 1)
        start = body.node("Add", count, body.integers(1 - queries))
        # So that an empty cache is as one that ends, whatever the lengths say.
        start = body.node("Max", body.node("Min", start, body.integers(past)), body.integers(0))
    if body.integer("do_rotary"):
        positions = body.node("Add", start, body.integers(*range(queries)))
        if body.has(9):
            positions = body.node("Cast", "i9", to=body.I64)
        half = body.shape(7)[1]
        q, k = (
            _rotated(body, x, (batch, queries, n * width), positions, "i7", "i8", half)
            for x, n in ((q, heads), (k, groups))
        )
    k, v = (_heads(body, each, batch, queries, groups) for each in (k, v))
    if keys > queries or past:
        k, v = (_stored(body, new, f"i{place}", start, sizes) for new, place in ((k, 3), (v, 4)))
    # Attention of many rows is one program, which reads what heads share where it is once.
    weighed = _by_head if queries > 1 and not body.real("softcap") else _by_group
    made = weighed(body, (_heads(body, q, batch, queries, heads), k, v), start, sizes)
    return _joined(body, made, batch, queries), k, v


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Extents of an attention whose `heads` share the keys and values of as many `groups`: there
    are those of `past` positions before the new ones of `queries`, and room for `keys`."""

    batch: int
    heads: int
    groups: int
    queries: int
    past: int
    keys: int
    width: int

    @property
    def shared(self) -> int:
        return self.heads // self.groups


_Operands: TypeAlias = tuple[str, str, str]
"""Queries [b, h, s, d], and keys and values [b, g, l, d], of which several heads read one."""


def _by_head(body: Body, operands: _Operands, start: str, sizes: _Sizes) -> str:
    """Mixes values for each head by itself, [b, h, s, d]."""
    q, *cached = operands
    k, v = (_repeated(body, each, sizes) for each in cached)
    reachable = _reachable(body, start, sizes)
    added = body.reshaped(reachable, sizes.batch, 1, sizes.queries, sizes.keys)
    scale = body.real("scale") or 1 / sqrt(sizes.width)
    return _weighed(body, q, k, v, scale, (added, "i10" if body.has(10) else ""))


def _by_group(body: Body, operands: _Operands, start: str, sizes: _Sizes) -> str:
    """Mixes values with the queries of a group below one another: one product has all of them."""
    q, k, v = operands
    batch, groups, shared, queries = sizes.batch, sizes.groups, sizes.shared, sizes.queries
    keys, width = sizes.keys, sizes.width
    q = body.reshaped(q, batch, groups, shared * queries, width)
    scores = body.node("MatMul", q, body.swapped(k, 4))
    scores = body.node("Mul", scores, body.number(body.real("scale") or 1 / sqrt(width)))
    cap = body.real("softcap")
    if cap:
        small = body.node("Tanh", body.node("Mul", scores, body.number(1 / cap)))
        scores = body.node("Mul", small, body.number(cap))
    scores = body.reshaped(scores, batch, groups, shared, queries, keys)
    scores = body.node("Add", scores, _reachable(body, start, sizes))
    if body.has(10):
        outer, own, *rest = body.shape(10)
        split = (1, 1) if own == 1 else (groups, shared)
        scores = body.node("Add", scores, body.reshaped("i10", outer, *split, *rest))
    shares = body.reshaped(body.node("Softmax", scores, axis=-1), batch, groups, -1, keys)
    return body.reshaped(body.node("MatMul", shares, v), batch, sizes.heads, queries, width)


def _repeated(body: Body, x: str, sizes: _Sizes) -> str:
    """Keys or values [b, g, l, d] for as many heads as share them, [b, h, l, d]."""
    if sizes.shared == 1:
        return x
    apart = (sizes.batch, sizes.groups, sizes.shared, sizes.keys, sizes.width)
    made = body.node("Expand", body.node("Unsqueeze", x, body.integers(2)), body.integers(*apart))
    return body.reshaped(made, sizes.batch, sizes.heads, sizes.keys, sizes.width)


def _stored(body: Body, new: str, past: str, start: str, sizes: _Sizes) -> str:
    """The cache [b, g, l, d] with new entries from the place `start` of each text on."""
    batch, groups, queries, held = sizes.batch, sizes.groups, sizes.queries, sizes.past
    keys, width = sizes.keys, sizes.width
    places = body.weight(np.arange(keys, dtype=np.int64))
    own = body.node("Sub", places, start)
    first, last = body.integers(0), body.integers(queries - 1)
    inside = body.node(
        "And", body.node("GreaterOrEqual", own, first), body.node("LessOrEqual", own, last)
    )
    if queries > 1 and batch == 1:
        index = body.node("Min", body.node("Max", own, first), last)
        new = body.node("Gather", new, body.reshaped(index, keys), axis=2)
    elif queries > 1:
        index = body.node("Min", body.node("Max", own, first), last)
        index = body.reshaped(index, batch, 1, keys, 1)
        index = body.node("Expand", index, body.integers(batch, groups, keys, width))
        new = body.node("GatherElements", new, index, axis=2)
    if not held:
        past = body.weight(np.zeros((1, 1, 1, 1), body.dtype(0)))
    elif held < keys:
        past = body.node("Pad", past, body.integers(0, 0, 0, 0, 0, 0, keys - held, 0))
    made = body.node("Where", body.reshaped(inside, batch, 1, keys, 1), new, past)
    return body.node("Expand", made, body.integers(batch, groups, keys, width))


def _reachable(body: Body, start: str, sizes: _Sizes) -> str:
    """Makes what is added to scores [b, 1, 1, s, l]: nothing for positions up to a query's own,
    and, in a window, for those not too far before it."""
    batch, queries, keys = sizes.batch, sizes.queries, sizes.keys
    place = body.integers(*range(keys), shape=(1, 1, keys))
    own = body.node("Add", start, body.integers(*range(queries)))
    own = body.reshaped(own, batch, queries, 1)
    seen = body.node("LessOrEqual", place, own)
    window = body.integer("local_window_size", -1)
    if window > 0:
        reach = body.node("Sub", own, body.integers(window))
        seen = body.node("And", seen, body.node("Greater", place, reach))
    added = _where(body, seen, 0, _lowest(body))
    return body.reshaped(added, batch, 1, 1, queries, keys)


OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {
    "Attention": _attention,
    "GroupQueryAttention": _group_query_attention,
    "MultiHeadAttention": _multi_head_attention,
    "RotaryEmbedding": _rotary,
}

"""Programs of language models that take a block of a prompt's tokens at once.

The rows of a block are the tokens from the position on. Rows behind the prompt's end are computed
like all others: what they leave in the cache is written again before anything reads it.
"""

from functools import lru_cache

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.binding import bound
from kernelzoo.domain.operators.decoding import (
    LANES,
    LOWEST,
    STATE,
    AttentionShape,
    norm,
    position_within,
)
from kernelzoo.domain.operators.expressions import (
    Axis,
    Call,
    Choice,
    Function,
    Input,
    Integer,
    Program,
    Real,
    Reducer,
    Stage,
    Update,
    equal,
    largest,
    read,
    smallest,
)


@lru_cache(maxsize=64)
def block_tokens(length: int, rows: int) -> Program:
    """c i32[rows]: the tokens of a prompt from the position on.

    Inputs: prompt i32[length], position i32[4]. Rows that have no room repeat the last place.
    """
    i = Axis("i", Integer(rows))
    place = smallest(position_within(length) + i, length - 1)
    return Program(
        inputs=(Input("prompt", "i32", (length,)), Input("position", "i32", (STATE,))),
        stages=(Stage("c", (i,), read("prompt", place), dtype=DType.I32),),
    )


@lru_cache(maxsize=64)
def advance_block(length: int, rows: int) -> Program:
    """Goes on behind a block, to the prompt's last token at most, as the next one comes of that.
    c i32[1] is the token there.

    Inputs: prompt i32[length]. States: position i32[4], whose first word is the place of the
    block's first row and whose second is the end of the prompt; token i32[1].
    """
    i, w = Axis("i", Integer(1)), Axis("w", Integer(STATE))
    last = largest(smallest(read("position", 1), length) - 1, Integer(0))
    after = smallest(position_within(length) + rows, last)
    moved = Choice((equal(w, 0),), after, read("position", w))
    return Program(
        inputs=(
            Input("prompt", "i32", (length,)),
            Input("position", "i32", (STATE,)),
            Input("token", "i32", (1,)),
        ),
        stages=(
            Stage("new_position", (w,), moved, dtype=DType.I32),
            Stage("c", (i,), read("prompt", after), dtype=DType.I32),
        ),
        updates=(Update("position", "new_position"), Update("token", "c")),
    )


@lru_cache(maxsize=64)
def normed_rows(m: int, k: int, epsilon: float) -> Program:
    """normed[m, k]: each row of a[m, k] by the root of its mean square, times gamma[k]."""
    inputs = (Input("a", "f32", (m, k)), Input("gamma", "f32", (k,)))
    return Program(inputs=inputs, stages=norm(m, k, epsilon))


@lru_cache(maxsize=64)
def block_attention(shape: AttentionShape, rows: int, cache: DType = DType.F32) -> Program:
    """The attention of the tokens of a block, each over itself and all before it, whose keys and
    values they join: c[rows, heads · head_dim].

    Inputs and states are those of `decode_attention`, with a row of `projected` for each token; the
    position is that of the first. Rows that have no room in the cache do not join it.
    """
    heads, kv_heads, head_dim, length = shape.heads, shape.kv_heads, shape.head_dim, shape.length
    half, width = head_dim // 2, (heads + 2 * kv_heads) * head_dim
    i, r, d = (
        Axis(name, Integer(extent))
        for name, extent in (("i", rows), ("r", heads + kv_heads), ("d", head_dim))
    )
    h, g = Axis("h", Integer(heads)), Axis("g", Integer(kv_heads))
    t, q, x = (
        Axis("t", Integer(length)),
        Axis("q", Integer(head_dim // LANES)),
        Axis("x", Integer(4)),
    )
    n = Axis("n", Integer(heads * head_dim))
    here = read("here")
    # 1. Queries and keys of the block, rotated.
    place = smallest(here + i, length - 1)
    entry = read("projected", i, r * head_dim + d)
    partner = Choice(
        (d < half,),
        Real(0.0) - read("projected", i, r * head_dim + d + half),
        read("projected", i, r * head_dim + d - half),
    )
    rotated = entry * read("cosines", place, d % half) + partner * read("sines", place, d % half)
    # 2. The cache with the block's keys and values.
    row = largest(smallest(t - here, rows - 1), 0)
    joins = (here <= t, t < here + rows)
    new_key = read("rotated", row, g + heads, q * LANES + x)
    new_value = read("projected", row, g * head_dim + d + (heads + kv_heads) * head_dim)
    # 3. Scores, softmax, values.
    score = read("rotated", i, h, d) * read("new_keys", h // shape.shared, d // LANES, t, d % LANES)
    seen = shape.seen(t, here + i)
    scored = shape.scored(read("scores", i, h, t))
    power = Call(Function.EXP, scored - read("most", i, h))
    head = n // head_dim
    mixed = read("power", i, head, t) * read("new_values", head // shape.shared, t, n % head_dim)
    return Program(
        inputs=(
            Input("projected", "f32", (rows, width)),
            Input("cosines", "f32", (length, half)),
            Input("sines", "f32", (length, half)),
            Input("position", "i32", (STATE,)),
            Input("keys", cache, (kv_heads, head_dim // LANES, length, LANES)),
            Input("values", cache, (kv_heads, length, head_dim)),
        ),
        stages=(
            Stage("here", (), position_within(length), dtype=DType.I32),
            Stage("rotated", (i, r, d), rotated),
            Stage("new_keys", (g, q, t, x), Choice(joins, new_key, read("keys", g, q, t, x))),
            Stage("new_values", (g, t, d), Choice(joins, new_value, read("values", g, t, d))),
            Stage("scores", (i, h, t), score, Reducer.SUM, (d,)),
            Stage("most", (i, h), Choice(seen, scored, Real(LOWEST)), Reducer.MAX, (t,)),
            Stage("power", (i, h, t), Choice(seen, power, Real(0.0))),
            Stage("total", (i, h), read("power", i, h, t), Reducer.SUM, (t,)),
            Stage("mixed", (i, n), mixed, Reducer.SUM, (t,)),
            Stage("c", (i, n), read("mixed", i, n) / read("total", i, head)),
        ),
        updates=(Update("keys", "new_keys"), Update("values", "new_values")),
    )


def block_attention_shape(program: Program) -> tuple[AttentionShape, int] | None:
    """The shape and the rows of the `block_attention` that a normalised program is; None for any
    other."""
    shapes = [each.shape for each in program.inputs]
    match shapes:
        case [(rows, width), (length, half), _, _, (kv_heads, _, _, _), _] if program.updates:
            head_dim = 2 * half
            heads = width // head_dim - 2 * kv_heads
        case _:
            return None
    if heads < kv_heads or heads % kv_heads or head_dim % LANES:
        return None
    shape = AttentionShape(heads=heads, kv_heads=kv_heads, head_dim=head_dim, length=length)
    shape = shape.as_stated(program)
    return (shape, rows) if _normalised(shape, rows) == program.in_f32 else None


@lru_cache(maxsize=64)
def _normalised(shape: AttentionShape, rows: int) -> Program:
    return bound(block_attention(shape, rows), {}).normalised()

"""Programs of language models that decode token by token, with quantised weights.

An RMS norm before a product is a prologue of it: each workgroup normalises the row again, which
costs less than a dispatch.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.binding import bound
from kernelzoo.domain.operators.elementwise import UNARY
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Choice,
    Comparison,
    Expression,
    Function,
    Input,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Stage,
    Update,
    equal,
    largest,
    read,
    smallest,
)
from kernelzoo.domain.operators.quantised import USUAL_FORM, Form, weight


def normed_product(
    m: int,
    k: int,
    n: int,
    *,
    epsilon: float,
    form: Form = USUAL_FORM,
    bias: bool = False,
    cap: float = 0.0,
) -> Program:
    """c[m, n] = rms_norm(a)[m, k] · weights[n, k]ᵀ (+ bias[n]), and of that cap · tanh(c / cap)
    with a cap.

    Inputs: a[m, k], gamma[k], words, scales and zero points of weights[n, k] as the operators of
    their form have them, and bias[n] where asked for. Weights of several projections of the same
    row are one matrix, one below the other.
    """
    i, j = _places(m, n)
    added = (Input("bias", "f32", (n,)),) if bias else ()
    made = _product("sum", "normed", i, j, k, form)
    value = made[i, j] + read("bias", j) if bias else made[i, j]
    if cap:
        value = Call(Function.TANH, value * Real(1.0 / cap)) * Real(cap)
    return Program(
        inputs=(*_normed_inputs(m, k), *_weights(n, k, form), *added),
        stages=(*norm(m, k, epsilon), made, Stage("c", (i, j), value)),
    )


def gated_product(
    m: int,
    k: int,
    n: int,
    *,
    epsilon: float | None = None,
    form: Form = USUAL_FORM,
    gate: str = "silu",
) -> Program:
    """c[m, n] = silu(gate) · up, of two products of the same row, or of its norm with an epsilon;
    `gate` names another function in the place of silu.

    Inputs: a[m, k], gamma[k] where normalised, words, scales and zero points of weights[2n, k] as
    `normed_product` has them: the n rows of the gate, then those of up.
    """
    i, j = _places(m, n)
    source = "a" if epsilon is None else "normed"
    gated = _product("gate", source, i, j, k, form)
    up = _product("up", source, i, j, k, form, first_row=n)
    _, activated = UNARY[gate]
    value = activated(gated[i, j]) * up[i, j]
    before = () if epsilon is None else norm(m, k, epsilon)
    given = (_row_input(m, k),) if epsilon is None else _normed_inputs(m, k)
    return Program(
        inputs=(*given, *_weights(2 * n, k, form)),
        stages=(*before, gated, up, Stage("c", (i, j), value)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """`heads` queries share the keys and values of `kv_heads`; a head has `head_dim` entries, and
    the cache room for `length` tokens.

    Scores are multiplied by `scale`, which is head_dim^-½ where it is 0, and with a `cap` become
    cap · tanh(score / cap). Each token sees the last `window` of them, itself among them, or with 0
    all. Where they are `biased`, something is added to scores that depends on how long ago the
    token is.
    """

    heads: int
    kv_heads: int
    head_dim: int
    length: int
    scale: float = 0.0
    cap: float = 0.0
    window: int = 0
    biased: bool = False

    @property
    def shared(self) -> int:
        """Heads that share one key."""
        return self.heads // self.kv_heads

    @property
    def factor(self) -> float:
        """Scores are multiplied by this."""
        return self.scale or float(self.head_dim**-0.5)

    @property
    def span(self) -> int:
        """Tokens that one sees, at most."""
        return min(self.length, self.window or self.length)

    def scored(self, product: Expression) -> Expression:
        """The score that a product of a query and a key is."""
        score = product * Real(self.factor)
        if not self.cap:
            return score
        return Call(Function.TANH, score * Real(1.0 / self.cap)) * Real(self.cap)

    def seen(self, token: Expression, place: Expression) -> tuple[Comparison, ...]:
        """States the conditions under which a token is seen from a place."""
        if not self.window:
            return (token <= place,)
        return (token <= place, place < token + self.window)

    def as_stated(self, program: Program) -> "AttentionShape":
        """Returns this shape with the scale, the cap and the window that the scores of a program
        have; they stand where it says which tokens are seen."""
        shape = self
        for stage in program.stages:
            match stage.value:
                case Choice(seen, score, Real(least)) if least == LOWEST:
                    scale, cap = _scale_and_cap(score)
                    shape = replace(shape, scale=scale, cap=cap, window=_window(seen))
        return replace(shape, scale=0.0) if shape.scale == self.factor else shape


def _scale_and_cap(score: Expression) -> tuple[float, float]:
    match score:
        case Binary(
            BinaryOp.MUL,
            Call(Function.TANH, Binary(BinaryOp.MUL, Binary(BinaryOp.MUL, _, Real(scale)), _)),
            Real(cap),
        ):
            return scale, cap
        case Binary(BinaryOp.MUL, _, Real(scale)):
            return scale, 0.0
    return 0.0, 0.0


def _window(seen: tuple[Comparison, ...]) -> int:
    match seen:
        case (_, Comparison(_, _, Binary(BinaryOp.ADD, _, Integer(window)))):
            return window
    return 0


LOWEST = -(2.0**127)
"""A number of f32 below any score."""

LANES = 4
"""Entries of a key that lie side by side, so that threads of neighbouring tokens read vectors."""
STATE = 4
"""Words of the state of a decoder; the first is the position, the tokens in the cache."""


def position_within(length: int) -> Expression:
    """The first word of the state, held to the places that there are."""
    return largest(smallest(read("position", 0), length - 1), Integer(0))


@lru_cache(maxsize=64)
def decode_attention(shape: AttentionShape, cache: DType = DType.F32) -> Program:
    """The attention of one token over itself and all tokens before it, whose keys and values it
    joins: c[1, heads · head_dim].

    Inputs: projected[1, (heads + 2 kv_heads) · head_dim] has the queries, then the keys, then the
    values of the token; cosines and sines[length, head_dim / 2] of the rotary embedding, which
    turns entry d with entry d + head_dim / 2; position i32[4], whose first word is the token's
    position; where scores are biased, biases[heads, length] by how many tokens ago. States:
    keys[kv_heads, head_dim / 4, length, 4] and values[kv_heads, length, head_dim], both of
    `cache`; keys are kept rotated.
    """
    heads, kv_heads, head_dim, length = shape.heads, shape.kv_heads, shape.head_dim, shape.length
    half = head_dim // 2
    r, d = Axis("r", Integer(heads + kv_heads)), Axis("d", Integer(head_dim))
    h, g = Axis("h", Integer(heads)), Axis("g", Integer(kv_heads))
    t, q, x = (
        Axis("t", Integer(length)),
        Axis("q", Integer(head_dim // LANES)),
        Axis("x", Integer(4)),
    )
    i, n = Axis("i", Integer(1)), Axis("n", Integer(heads * head_dim))
    here = read("here")
    entry = read("projected", 0, r * head_dim + d)
    partner = Choice(
        (d < half,),
        Real(0.0) - read("projected", 0, r * head_dim + d + half),
        read("projected", 0, r * head_dim + d - half),
    )
    rotated = entry * read("cosines", here, d % half) + partner * read("sines", here, d % half)
    new_key = read("rotated", g + heads, q * LANES + x)
    new_value = read("projected", 0, g * head_dim + d + (heads + kv_heads) * head_dim)
    score = read("rotated", h, d) * read("new_keys", h // shape.shared, d // LANES, t, d % LANES)
    seen = shape.seen(t, here)
    scored = shape.scored(read("scores", h, t))
    if shape.biased:
        scored = scored + read("biases", h, largest(here - t, Integer(0)))
    power = Call(Function.EXP, read("masked", h, t) - read("most", h))
    head = n // head_dim
    mixed = read("power", head, t) * read("new_values", head // shape.shared, t, n % head_dim)
    return Program(
        inputs=(
            Input("projected", "f32", (1, (heads + 2 * kv_heads) * head_dim)),
            Input("cosines", "f32", (length, half)),
            Input("sines", "f32", (length, half)),
            Input("position", "i32", (STATE,)),
            *((Input("biases", "f32", (heads, length)),) if shape.biased else ()),
            Input("keys", cache, (kv_heads, head_dim // LANES, length, LANES)),
            Input("values", cache, (kv_heads, length, head_dim)),
        ),
        stages=(
            Stage("here", (), position_within(length), dtype=DType.I32),
            Stage("rotated", (r, d), rotated),
            Stage(
                "new_keys",
                (g, q, t, x),
                Choice((equal(t, here),), new_key, read("keys", g, q, t, x)),
            ),
            Stage(
                "new_values",
                (g, t, d),
                Choice((equal(t, here),), new_value, read("values", g, t, d)),
            ),
            Stage("scores", (h, t), score, Reducer.SUM, (d,)),
            Stage("masked", (h, t), Choice(seen, scored, Real(LOWEST))),
            Stage("most", (h,), read("masked", h, t), Reducer.MAX, (t,)),
            Stage("power", (h, t), Choice(seen, power, Real(0.0))),
            Stage("total", (h,), read("power", h, t), Reducer.SUM, (t,)),
            Stage("mixed", (i, n), mixed, Reducer.SUM, (t,)),
            Stage("c", (i, n), read("mixed", i, n) / read("total", head)),
        ),
        updates=(Update("keys", "new_keys"), Update("values", "new_values")),
    )


def attention_shape(program: Program) -> AttentionShape | None:
    """The shape of the `decode_attention` that a normalised program is, over a cache of f32 or
    f16; None for any other."""
    shapes = [each.shape for each in program.inputs]
    match shapes:
        case [(1, width), (length, half), _, _, (kv_heads, _, _, _), _] if program.updates:
            head_dim = 2 * half
            heads = width // head_dim - 2 * kv_heads
        case _:
            return None
    if heads < kv_heads or heads % kv_heads or head_dim % LANES:
        return None
    shape = AttentionShape(heads=heads, kv_heads=kv_heads, head_dim=head_dim, length=length)
    shape = shape.as_stated(program)
    return shape if _normalised(shape) == program.in_f32 else None


@lru_cache(maxsize=64)
def _normalised(shape: AttentionShape) -> Program:
    return bound(decode_attention(shape), {}).normalised()


@lru_cache(maxsize=64)
def argmax(count: int) -> Program:
    """c i32[1]: the place of the largest of a[1, count], the first of several."""
    i, k = Axis("i", Integer(1)), Axis("k", Integer(count))
    entry = read("a", i, k)
    place = Choice((equal(entry, read("most", i)),), k, Integer(count - 1))
    return Program(
        inputs=(Input("a", "f32", (1, count)),),
        stages=(
            Stage("most", (i,), entry, Reducer.MAX, (k,)),
            Stage("c", (i,), place, Reducer.MIN, (k,), dtype=DType.I32),
        ),
    )


def argmax_count(program: Program) -> int | None:
    """The entries of which a normalised program is `argmax`; None for any other."""
    match program.inputs:
        case (Input(_, "f32", (1, count)),) if len(program.stages) == 2:
            return count if _normalised_argmax(count) == program else None
    return None


@lru_cache(maxsize=64)
def _normalised_argmax(count: int) -> Program:
    return bound(argmax(count), {}).normalised()


@lru_cache(maxsize=64)
def advance(length: int) -> Program:
    """Goes on to the next place of a text: its token is the prompt's, or behind the prompt's end
    the chosen one. c i32[1] is that token.

    Inputs: chosen i32[1], prompt i32[length] by places. States: position i32[4], whose first word
    is the place that was decoded and whose second is the end of the prompt; token i32[1].
    """
    i, w = Axis("i", Integer(1)), Axis("w", Integer(STATE))
    after = position_within(length) + 1
    there = smallest(after, length - 1)
    given = Choice((after < read("position", 1),), read("prompt", there), read("chosen", i))
    moved = Choice((equal(w, 0),), after, read("position", w))
    return Program(
        inputs=(
            Input("chosen", "i32", (1,)),
            Input("prompt", "i32", (length,)),
            Input("position", "i32", (STATE,)),
            Input("token", "i32", (1,)),
        ),
        stages=(
            Stage("new_position", (w,), moved, dtype=DType.I32),
            Stage("c", (i,), given, dtype=DType.I32),
        ),
        updates=(Update("position", "new_position"), Update("token", "c")),
    )


@lru_cache(maxsize=64)
def normed_heads(
    heads: int, kv_heads: int, head_dim: int, epsilon: float, rows: int = 1
) -> Program:
    """c[rows, (heads + 2 kv_heads) · head_dim]: a token's queries and keys as RMS norms of their
    own, its values as they are.

    Inputs: projected, of c's shape; query_gamma[head_dim], key_gamma[head_dim].
    """
    width = (heads + 2 * kv_heads) * head_dim
    i, n = Axis("i", Integer(rows)), Axis("n", Integer(width))
    r, d = Axis("r", Integer(heads + kv_heads)), Axis("d", Integer(head_dim))
    entry = read("projected", i, r * head_dim + d)
    mean = read("square", i, r) * Real(1.0 / head_dim)
    head = smallest(n // head_dim, heads + kv_heads - 1)
    normed = read("projected", i, n) * read("factor", i, head)
    query = normed * read("query_gamma", n % head_dim)
    key = normed * read("key_gamma", n % head_dim)
    rest = Choice((n < (heads + kv_heads) * head_dim,), key, read("projected", i, n))
    return Program(
        inputs=(
            Input("projected", "f32", (rows, width)),
            Input("query_gamma", "f32", (head_dim,)),
            Input("key_gamma", "f32", (head_dim,)),
        ),
        stages=(
            Stage("square", (i, r), entry * entry, Reducer.SUM, (d,)),
            Stage("factor", (i, r), Call(Function.RSQRT, mean + Real(epsilon))),
            Stage("c", (i, n), Choice((n < heads * head_dim,), query, rest)),
        ),
    )


def scaled_rows(m: int, n: int, factor: float) -> Program:
    """c[m, n] = a[m, n] · factor, as models have it that scale their embedding."""
    i, j = _places(m, n)
    return Program(
        inputs=(_row_input(m, n),), stages=(Stage("c", (i, j), read("a", i, j) * Real(factor)),)
    )


def _places(m: int, n: int) -> tuple[Axis, Axis]:
    return Axis("i", Integer(m)), Axis("j", Integer(n))


def _row_input(m: int, k: int) -> Input:
    return Input("a", "f32", (m, k))


def _normed_inputs(m: int, k: int) -> tuple[Input, ...]:
    return _row_input(m, k), Input("gamma", "f32", (k,))


def _weights(rows: int, k: int, form: Form) -> tuple[Input, ...]:
    told = (Input("zeros", "i32", (rows, form.zero_words(k))),) if form.zeros else ()
    return (
        Input("words", "i32", (rows, k // form.per_word)),
        Input("scales", "f32", (rows, form.blocks(k))),
        *told,
    )


def norm(m: int, k: int, epsilon: float) -> tuple[Stage, ...]:
    """`normed`: each row of `a` by the root of its mean square, times `gamma`."""
    i, j, over = Axis("i", Integer(m)), Axis("j", Integer(k)), Axis("k", Integer(k))
    square = read("a", i, over) * read("a", i, over)
    mean = read("square", i) * Real(1.0 / k)
    return (
        Stage("square", (i,), square, Reducer.SUM, (over,)),
        Stage("factor", (i,), Call(Function.RSQRT, mean + Real(epsilon))),
        Stage("normed", (i, j), read("a", i, j) * read("factor", i) * read("gamma", j)),
    )


def normed_sum(m: int, k: int, epsilon: float) -> Program:
    """c[m, k] = residual[m, k] + rms_norm(a)[m, k].

    Inputs: a[m, k], gamma[k], residual[m, k].
    """
    i, j = _places(m, k)
    total = read("residual", i, j) + read("normed", i, j)
    return Program(
        inputs=(*_normed_inputs(m, k), Input("residual", "f32", (m, k))),
        stages=(*norm(m, k, epsilon), Stage("c", (i, j), total)),
    )


def _product(
    name: str, source: str, i: Axis, j: Axis, k: int, form: Form, *, first_row: int = 0
) -> Stage:
    over = Axis("k", Integer(k))
    row: Expression = j + first_row if first_row else j
    told = "zeros" if form.zeros else ""
    entry = weight("words", "scales", row, over, width=form.width, block=form.block, zeros=told)
    value = Read(source, (i, over)) * entry
    return Stage(name, (i, j), value, Reducer.SUM, (over,))

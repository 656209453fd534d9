"""Attention over a cache for wasm, of one token or of the tokens of a block: `heads` that share a
key and a value are a slice, which goes through everything for them.

Shapes, named by the settings of `WasmDecodeAttentionConfig`:

    range     kv_heads, each in shared / heads slices
    queries   [heads, head_dim], rotated and scaled
    scores    [heads, seen + 4], then e to them, of all tokens or of those that a window may hold
    shares    [heads]              1 / the sum of a row

    here = the position
    for row < rows:                                         1. keys and values join the cache
      keys[…, here + row, …] = rotated key, values[here + row, …] = value
    for row < rows:
      queries[…] = rotated query · scale                    2.
      for quad, while 4·quad ≤ here + row:                  3. four tokens at once
        sums[heads · 4 vectors] += queries[…] · keys[…]        for entries < head_dim / 4
        scores[…, 4·quad …] = the sums of their lanes, capped
      for head < heads:                                     4. softmax, but for its division
        scores[head, …] = exp(scores[head, …] − most), shares[head] = 1 / Σ scores[head, …]
      for token, while token ≤ here + row:                  5.
        sums[heads · vectors] += scores[…, token] · values[token, …]
      c[row, …] = sums[…] · shares[…]

With a window quads begin with that of the first token which is seen, and tokens with that itself;
scores of those before it in its quad are the lowest, as are those behind the last.

Slices of one key write the same entries of it, so that none waits for another.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.decoding import LOWEST, AttentionShape
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    all_lanes,
    binary,
    constant,
    f32_buffer,
    loop,
    number,
    numbers,
    plus,
    serial,
    splat,
    store_vector,
    times,
    total,
    under,
    vector,
    vector_at,
    whole,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Call,
    Expression,
    ExtractLane,
    IndexValue,
    Load,
    Loop,
    LoopKind,
    MathFunction,
    Program,
    Scope,
    Store,
)
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.cache import (
    before,
    first_seen,
    key_at,
    position,
    score_of,
    value_at,
)
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.decode_attention.config import (
    WasmDecodeAttentionConfig,
    attended_rows,
)

LOWEST_EXPONENT = -87.0
"""e to it is a normal number, and nothing beside the 1 that every row has."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmDecodeAttentionConfig.of(candidate)
    shape, rows = attended_rows(candidate.workload)
    parameters = parameters_of(candidate.workload)
    nest = _Nest(config=config, shape=shape, rows=rows, parameters=parameters)
    program = Program(parameters=parameters, body=nest.body())
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The tokens that the row at `place` sees. `first` is `skipped` behind `begin`, where a quad
    begins; `last`, the place within the cache, is `behind` it."""

    place: Affine
    begin: Affine
    first: Affine
    skipped: Affine
    last: Affine
    behind: Affine


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    """`parameters`: projected, cosines, sines, position, keys, values and the output."""

    config: WasmDecodeAttentionConfig
    shape: AttentionShape
    rows: int
    parameters: tuple[Buffer, ...]

    def body(self) -> Loop:
        shape, config, frame = self.shape, self.config, Frame()
        chunks = shape.shared // config.heads
        place = frame.variable("slice", shape.kv_heads * chunks)
        group, chunk = frame.delinearize(place, (("group", shape.kv_heads), ("chunk", chunks)))
        here = position(frame, self.parameters[3], shape)
        row = frame.variable("row", self.rows)
        first = group.times(shape.shared).plus(chunk.times(config.heads))
        body: Block = (
            *serial("row", self.rows, self._joined(frame, group, here, row)),
            *serial("row", self.rows, self._attended(frame, group, first, here, row)),
        )
        for buffer in (self._queries, self._scores, self._shares):
            body = (Allocate(buffer=buffer, body=body),)
        slices = shape.kv_heads * chunks
        return loop("slice", slices, LoopKind.RANGE, frame.enclose(body))

    @property
    def _queries(self) -> Buffer:
        return f32_buffer("queries", self.config.heads * self.shape.head_dim, Scope.GLOBAL)

    @property
    def _most_quads(self) -> int:
        """Quads of the tokens that are seen, of which a window may begin with the last of one."""
        if not self.shape.window:
            return self.shape.length // LANES
        return -(-(self.shape.span + LANES - 1) // LANES)

    @property
    def _ahead(self) -> int:
        """Scores before those of the first quad, which are written and count for nothing."""
        return LANES if self.shape.window else 0

    @property
    def _pitch(self) -> int:
        """Scores of a head: those of four more tokens are written, and count for nothing."""
        return self._ahead + self._most_quads * LANES + LANES

    @property
    def _scores(self) -> Buffer:
        return f32_buffer("scores", self.config.heads * self._pitch, Scope.GLOBAL)

    @property
    def _shares(self) -> Buffer:
        return f32_buffer("shares", self.config.heads, Scope.GLOBAL)

    # Steps 1 and 2.

    def _joined(self, frame: Frame, group: Affine, here: Affine, row: Affine) -> Block:
        """The key and the value of a row, where the cache has room for it."""
        shape, (_, _, _, _, keys, values, _) = self.shape, self.parameters
        inside = frame.nested()
        place = here.plus(row)
        own = self._projected(row, group.plus(constant(shape.heads)))
        has_room = inside.undecided((Bound(index=place, limit=shape.length),))
        token = inside.clamped("token", place, shape.length, 1)
        quad = Affine.variable("quad")
        value = self._projected(row, group.plus(constant(shape.heads + shape.kv_heads)))
        body: Block = (
            *self._rotated(own, token, keys, lambda quad: key_at(shape, group, quad, token), 1.0),
            *serial(
                "quad",
                shape.head_dim // LANES,
                (
                    Store(
                        buffer=values,
                        index=value_at(shape, group, quad, token),
                        value=self._vector(0, value.plus(quad.times(LANES))),
                    ),
                ),
            ),
        )
        return inside.enclose(under(has_room, body))

    def _projected(self, row: Affine, head: Affine) -> Affine:
        shape = self.shape
        width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        return row.times(width).plus(head.times(shape.head_dim))

    def _vector(self, parameter: int, index: Affine) -> Load:
        return Load(buffer=self.parameters[parameter], index=index, lanes=LANES)

    def _rotated(
        self,
        source: Affine,
        place: Affine,
        target: Buffer,
        index: Callable[[Affine], Affine],
        scale: float,
    ) -> Block:
        """A head of the projected row, as at a place of the text; `index` is that of a quad."""
        half = self.shape.head_dim // 2
        quad = Affine.variable("quad")
        entry = quad.times(LANES)
        low = self._vector(0, source.plus(entry))
        high = self._vector(0, source.plus(entry).plus(constant(half)))
        cosine, sine = (self._vector(table, place.times(half).plus(entry)) for table in (1, 2))
        rotated = (
            binary(BinaryOp.SUB, times(low, cosine), times(high, sine)),
            plus(times(high, cosine), times(low, sine)),
        )
        quads = (quad, quad.plus(constant(half // LANES)))
        stores = tuple(
            Store(
                buffer=target,
                index=index(each),
                value=value if scale == 1 else times(value, numbers(scale)),
            )
            for each, value in zip(quads, rotated, strict=True)
        )
        return serial("quad", half // LANES, stores)

    def _attended(
        self, frame: Frame, group: Affine, first: Affine, here: Affine, row: Affine
    ) -> Block:
        shape, config = self.shape, self.config
        inside = frame.nested()
        seen = self._seen(inside, here.plus(row))
        head = inside.variable("head", config.heads)
        source = self._projected(row, first.plus(head))
        queries = head.times(shape.head_dim)
        rotated = self._rotated(
            source,
            seen.last,
            self._queries,
            lambda quad: queries.plus(quad.times(LANES)),
            shape.factor,
        )
        body: Block = (
            *serial("head", config.heads, rotated),
            *self._scored(group, seen),
            *(serial("head", config.heads, self._capped(head, seen)) if shape.cap else ()),
            *self._padded(seen),
            *serial("head", config.heads, self._softmax(head, seen)),
            *self._mixed(group, first, seen, row),
        )
        return inside.enclose(body)

    def _seen(self, frame: Frame, place: Affine) -> _Seen:
        shape = self.shape
        last = frame.clamped("rotated_at", place, shape.length, 1)
        first = first_seen(frame, place, shape)
        most = frame.upper_bound(first)
        if not most:
            return _Seen(place=place, begin=ZERO, first=ZERO, skipped=ZERO, last=last, behind=last)
        quad = binary(BinaryOp.FLOOR_DIV, IndexValue(index=first), whole(LANES))
        begin = frame.let("first_quad", quad, most // LANES).times(LANES)
        skipped = IndexValue(index=first.plus(begin.times(-1)))
        behind = IndexValue(index=last.plus(begin.times(-1)))
        return _Seen(
            place=place,
            begin=begin,
            first=first,
            skipped=frame.let("skipped", skipped, LANES - 1),
            last=last,
            behind=frame.let("behind", behind, shape.span + LANES - 2),
        )

    # Step 3: scores of four tokens at once.

    def _scored(self, group: Affine, seen: _Seen) -> Block:
        shape, heads = self.shape, self.config.heads
        entry, quad = Affine.variable("entry"), Affine.variable("quad")
        sums = f32_buffer("sums", heads * LANES * LANES, Scope.LOCAL)
        terms = []
        for t in range(LANES):
            token = seen.begin.plus(quad.times(LANES)).plus(constant(t))
            key = self._vector(4, key_at(shape, group, entry, token))
            for head in range(heads):
                query = Load(
                    buffer=self._queries,
                    index=entry.times(LANES).plus(constant(head * shape.head_dim)),
                    lanes=LANES,
                )
                terms.append(_added(sums, head * LANES + t, times(query, key)))
        stores = tuple(
            Store(
                buffer=self._scores,
                index=quad.times(LANES).plus(constant(head * self._pitch + self._ahead + t)),
                value=all_lanes(vector_at(sums, head * LANES + t)),
            )
            for head in range(heads)
            for t in range(LANES)
        )
        body: Block = (
            *(store_vector(sums, n, numbers(0.0)) for n in range(heads * LANES)),
            *serial("entry", shape.head_dim // LANES, tuple(terms)),
            *stores,
        )
        return self._quads(seen, (Allocate(buffer=sums, body=body),))

    def _quads(self, seen: _Seen, body: Block) -> Block:
        """For each four tokens of which the first is not behind the row's own."""
        first = seen.begin.plus(Affine.variable("quad").times(LANES))
        bounds = [before(first, seen.place.plus(constant(1)))]
        if self.shape.window:
            bounds.append(Bound(index=first, limit=self.shape.length))
        return serial("quad", self._most_quads, under(tuple(bounds), body))

    def _padded(self, seen: _Seen) -> Block:
        """The scores behind the last token, up to a whole vector, and those of its quad before the
        first: the lowest."""
        behind = [seen.behind.plus(constant(1 + t)) for t in range(LANES - 1)]
        ahead = [seen.skipped.plus(constant(-1 - t)) for t in range(LANES - 1)]
        return tuple(
            Store(
                buffer=self._scores,
                index=place.plus(constant(head * self._pitch + self._ahead)),
                value=number(LOWEST),
            )
            for head in range(self.config.heads)
            for place in (*behind, *(ahead if self._ahead else ()))
        )

    # Step 4: the softmax of a head.

    def _capped(self, head: Affine, seen: _Seen) -> Block:
        lane = self._quad_of(head).plus(Affine.variable("lane"))
        capped = score_of(Load(buffer=self._scores, index=lane), self.shape)
        each = vector("lane", Store(buffer=self._scores, index=lane, value=capped))
        return self._quads(seen, (each,))

    def _quad_of(self, head: Affine) -> Affine:
        """Four scores of a head."""
        quad = Affine.variable("quad").times(LANES).plus(constant(self._ahead))
        return head.times(self._pitch).plus(quad)

    def _softmax(self, head: Affine, seen: _Seen) -> Block:
        most, sums = (f32_buffer(name, LANES, Scope.LOCAL) for name in ("most", "sum"))
        index = self._quad_of(head)
        score = Load(buffer=self._scores, index=index, lanes=LANES)
        larger = binary(BinaryOp.MAX, vector_at(most, 0), score)
        above = binary(BinaryOp.SUB, score, vector_at(most, 0))
        # Within these bounds e to it needs no choices.
        bounded = binary(BinaryOp.MAX, above, numbers(LOWEST_EXPONENT))
        bounded = binary(BinaryOp.MIN, bounded, numbers(0.0))
        power = Call(function=MathFunction.EXP, argument=bounded)
        stored = Store(buffer=self._scores, index=index, value=power)
        w, x, y, z = (ExtractLane(value=vector_at(most, 0), lane=lane) for lane in range(LANES))
        largest = binary(BinaryOp.MAX, binary(BinaryOp.MAX, w, x), binary(BinaryOp.MAX, y, z))
        share = binary(BinaryOp.DIV, number(1.0), all_lanes(vector_at(sums, 0)))
        body: Block = (
            store_vector(most, 0, numbers(LOWEST)),
            store_vector(sums, 0, numbers(0.0)),
            *self._quads(seen, (store_vector(most, 0, larger),)),
            store_vector(most, 0, splat(largest)),
            *self._quads(seen, (stored, _added(sums, 0, score))),
            Store(buffer=self._shares, index=head, value=share),
        )
        for buffer in (most, sums):
            body = (Allocate(buffer=buffer, body=body),)
        return body

    # Step 5: values, mixed.

    def _mixed(self, group: Affine, first: Affine, seen: _Seen, row: Affine) -> Block:
        shape, config = self.shape, self.config
        heads, vectors = config.heads, config.vectors
        part, place = Affine.variable("part"), Affine.variable("token")
        token, scored = seen.first.plus(place), seen.skipped.plus(place)
        sums = f32_buffer("mixed", heads * vectors * LANES, Scope.LOCAL)
        terms = []
        for head in range(heads):
            at = constant(head * self._pitch + self._ahead)
            power = Load(buffer=self._scores, index=scored.plus(at))
            for n in range(vectors):
                quad = part.times(vectors).plus(constant(n))
                value = self._vector(5, value_at(shape, group, quad, token))
                terms.append(_added(sums, head * vectors + n, times(splat(power), value)))
        inside = before(token, seen.place.plus(constant(1)))
        stores = []
        for head in range(heads):
            share = splat(Load(buffer=self._shares, index=constant(head)))
            own = first.plus(constant(head)).times(shape.head_dim)
            for n in range(vectors):
                index = total(
                    row.times(shape.heads * shape.head_dim),
                    own,
                    part.times(LANES * vectors),
                    constant(LANES * n),
                )
                mixed = times(vector_at(sums, head * vectors + n), share)
                stores.append(Store(buffer=self.parameters[-1], index=index, value=mixed))
        body: Block = (
            *(store_vector(sums, n, numbers(0.0)) for n in range(heads * vectors)),
            *serial("token", shape.span, under((inside,), tuple(terms))),
            *stores,
        )
        parts = shape.head_dim // (LANES * vectors)
        return serial("part", parts, (Allocate(buffer=sums, body=body),))


def _added(buffer: Buffer, place: int, value: Expression) -> Store:
    return store_vector(buffer, place, plus(vector_at(buffer, place), value))

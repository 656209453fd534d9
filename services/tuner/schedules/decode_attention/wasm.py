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
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.cache import (
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
    program = ir.Program(parameters=parameters, body=nest.body())
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The tokens that the row at `place` sees. `first` is `skipped` behind `begin`, where a quad
    begins; `last`, the place within the cache, is `behind` it."""

    place: ir.Affine
    begin: ir.Affine
    first: ir.Affine
    skipped: ir.Affine
    last: ir.Affine
    behind: ir.Affine


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    """`parameters`: projected, cosines, sines, position, keys, values and the output."""

    config: WasmDecodeAttentionConfig
    shape: AttentionShape
    rows: int
    parameters: tuple[ir.Buffer, ...]

    def body(self) -> ir.Loop:
        shape, config, frame = self.shape, self.config, ir.Frame()
        chunks = shape.shared // config.heads
        place = frame.variable("slice", shape.kv_heads * chunks)
        group, chunk = frame.delinearize(place, (("group", shape.kv_heads), ("chunk", chunks)))
        here = position(frame, self.parameters[3], shape)
        row = frame.variable("row", self.rows)
        first = group * shape.shared + chunk * config.heads
        body: ir.Block = (
            *ir.serial("row", self.rows, self._joined(frame, group, here, row)),
            *ir.serial("row", self.rows, self._attended(frame, group, first, here, row)),
        )
        body = ir.allocated((self._queries, self._scores, self._shares), body)
        slices = shape.kv_heads * chunks
        return ir.loop("slice", slices, frame.enclose(body), ir.LoopKind.RANGE)

    @property
    def _queries(self) -> ir.Buffer:
        return ir.scratch("queries", self.config.heads * self.shape.head_dim)

    @property
    def _most_quads(self) -> int:
        """Quads of the tokens that are seen, of which a window may begin with the last of one."""
        if not self.shape.window:
            return self.shape.length // ir.LANES
        return -(-(self.shape.span + ir.LANES - 1) // ir.LANES)

    @property
    def _ahead(self) -> int:
        """Scores before those of the first quad, which are written and count for nothing."""
        return ir.LANES if self.shape.window else 0

    @property
    def _pitch(self) -> int:
        """Scores of a head: those of four more tokens are written, and count for nothing."""
        return self._ahead + self._most_quads * ir.LANES + ir.LANES

    @property
    def _scores(self) -> ir.Buffer:
        return ir.scratch("scores", self.config.heads * self._pitch)

    @property
    def _shares(self) -> ir.Buffer:
        return ir.scratch("shares", self.config.heads)

    # Steps 1 and 2.

    def _joined(
        self, frame: ir.Frame, group: ir.Affine, here: ir.Affine, row: ir.Affine
    ) -> ir.Block:
        """The key and the value of a row, where the cache has room for it."""
        shape, (_, _, _, _, keys, values, _) = self.shape, self.parameters
        inside = frame.nested()
        place = here + row
        own = self._projected(row, group + shape.heads)
        has_room = inside.undecided((place.below(shape.length),))
        token = inside.clamped("token", place, shape.length, 1)
        quad = ir.variable("quad")
        value = self._projected(row, group + shape.heads + shape.kv_heads)
        body: ir.Block = (
            *self._rotated(own, token, keys, lambda quad: key_at(shape, group, quad, token), 1.0),
            *ir.serial(
                "quad",
                shape.head_dim // ir.LANES,
                (
                    values.store(
                        value_at(shape, group, quad, token),
                        self._vector(0, value + quad * ir.LANES),
                    ),
                ),
            ),
        )
        return inside.enclose(ir.under(has_room, body))

    def _projected(self, row: ir.Affine, head: ir.Affine) -> ir.Affine:
        shape = self.shape
        width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        return row * width + head * shape.head_dim

    def _vector(self, parameter: int, index: ir.Affine) -> ir.Load:
        return self.parameters[parameter].vector(index)

    def _rotated(
        self,
        source: ir.Affine,
        place: ir.Affine,
        target: ir.Buffer,
        index: Callable[[ir.Affine], ir.Affine],
        scale: float,
    ) -> ir.Block:
        """A head of the projected row, as at a place of the text; `index` is that of a quad."""
        half = self.shape.head_dim // 2
        quad = ir.variable("quad")
        entry = quad * ir.LANES
        low = self._vector(0, source + entry)
        high = self._vector(0, source + entry + half)
        cosine, sine = (self._vector(table, place * half + entry) for table in (1, 2))
        rotated = (low * cosine - high * sine, high * cosine + low * sine)
        quads = (quad, quad + half // ir.LANES)
        stores = tuple(
            target.store(index(each), value if scale == 1 else value * ir.numbers(scale))
            for each, value in zip(quads, rotated, strict=True)
        )
        return ir.serial("quad", half // ir.LANES, stores)

    def _attended(
        self, frame: ir.Frame, group: ir.Affine, first: ir.Affine, here: ir.Affine, row: ir.Affine
    ) -> ir.Block:
        shape, config = self.shape, self.config
        inside = frame.nested()
        seen = self._seen(inside, here + row)
        head = inside.variable("head", config.heads)
        source = self._projected(row, first + head)
        queries = head * shape.head_dim
        rotated = self._rotated(
            source, seen.last, self._queries, lambda quad: queries + quad * ir.LANES, shape.factor
        )
        body: ir.Block = (
            *ir.serial("head", config.heads, rotated),
            *self._scored(group, seen),
            *(ir.serial("head", config.heads, self._capped(head, seen)) if shape.cap else ()),
            *self._padded(seen),
            *ir.serial("head", config.heads, self._softmax(head, seen)),
            *self._mixed(group, first, seen, row),
        )
        return inside.enclose(body)

    def _seen(self, frame: ir.Frame, place: ir.Affine) -> _Seen:
        shape = self.shape
        last = frame.clamped("rotated_at", place, shape.length, 1)
        first = first_seen(frame, place, shape)
        most = frame.upper_bound(first)
        if not most:
            return _Seen(
                place=place, begin=ir.ZERO, first=ir.ZERO, skipped=ir.ZERO, last=last, behind=last
            )
        quad = ir.value(first) // ir.LANES
        begin = frame.let("first_quad", quad, most // ir.LANES) * ir.LANES
        skipped = ir.value(first - begin)
        behind = ir.value(last - begin)
        return _Seen(
            place=place,
            begin=begin,
            first=first,
            skipped=frame.let("skipped", skipped, ir.LANES - 1),
            last=last,
            behind=frame.let("behind", behind, shape.span + ir.LANES - 2),
        )

    # Step 3: scores of four tokens at once.

    def _scored(self, group: ir.Affine, seen: _Seen) -> ir.Block:
        shape, heads = self.shape, self.config.heads
        entry, quad = ir.variable("entry"), ir.variable("quad")
        sums = ir.local("sums", heads * ir.LANES * ir.LANES)
        terms = []
        for t in range(ir.LANES):
            token = seen.begin + quad * ir.LANES + t
            key = self._vector(4, key_at(shape, group, entry, token))
            for head in range(heads):
                query = self._queries.vector(entry * ir.LANES + head * shape.head_dim)
                terms.append(_added(sums, head * ir.LANES + t, query * key))
        stores = tuple(
            self._scores.store(
                quad * ir.LANES + head * self._pitch + self._ahead + t,
                ir.all_lanes(sums.vector(ir.LANES * (head * ir.LANES + t))),
            )
            for head in range(heads)
            for t in range(ir.LANES)
        )
        body: ir.Block = (
            *(sums.store(ir.LANES * n, ir.numbers(0.0)) for n in range(heads * ir.LANES)),
            *ir.serial("entry", shape.head_dim // ir.LANES, tuple(terms)),
            *stores,
        )
        return self._quads(seen, (ir.Allocate(buffer=sums, body=body),))

    def _quads(self, seen: _Seen, body: ir.Block) -> ir.Block:
        """For each four tokens of which the first is not behind the row's own."""
        first = seen.begin + ir.variable("quad") * ir.LANES
        bounds = [first.below(seen.place + 1)]
        if self.shape.window:
            bounds.append(first.below(self.shape.length))
        return ir.serial("quad", self._most_quads, ir.under(tuple(bounds), body))

    def _padded(self, seen: _Seen) -> ir.Block:
        """The scores behind the last token, up to a whole vector, and those of its quad before the
        first: the lowest."""
        behind = [seen.behind + 1 + t for t in range(ir.LANES - 1)]
        ahead = [seen.skipped + -1 - t for t in range(ir.LANES - 1)]
        return tuple(
            self._scores.store(place + head * self._pitch + self._ahead, ir.number(LOWEST))
            for head in range(self.config.heads)
            for place in (*behind, *(ahead if self._ahead else ()))
        )

    # Step 4: the softmax of a head.

    def _capped(self, head: ir.Affine, seen: _Seen) -> ir.Block:
        lane = self._quad_of(head) + ir.variable("lane")
        capped = score_of(self._scores[lane], self.shape)
        each = ir.vector("lane", self._scores.store(lane, capped))
        return self._quads(seen, (each,))

    def _quad_of(self, head: ir.Affine) -> ir.Affine:
        """Four scores of a head."""
        quad = ir.variable("quad") * ir.LANES + self._ahead
        return head * self._pitch + quad

    def _softmax(self, head: ir.Affine, seen: _Seen) -> ir.Block:
        most, sums = (ir.local(name, ir.LANES) for name in ("most", "sum"))
        index = self._quad_of(head)
        score = self._scores.vector(index)
        larger = most.vector(0).max(score)
        above = score - most.vector(0)
        # Within these bounds e to it needs no choices.
        bounded = above.max(ir.numbers(LOWEST_EXPONENT))
        bounded = bounded.min(0.0)
        power = ir.call(ir.MathFunction.EXP, bounded)
        stored = self._scores.store(index, power)
        w, x, y, z = (most.vector(0).extract(lane) for lane in range(ir.LANES))
        largest = w.max(x).max(y.max(z))
        share = ir.number(1.0) / ir.all_lanes(sums.vector(0))
        body: ir.Block = (
            most.store(0, ir.numbers(LOWEST)),
            sums.store(0, ir.numbers(0.0)),
            *self._quads(seen, (most.store(0, larger),)),
            most.store(0, ir.splat(largest)),
            *self._quads(seen, (stored, _added(sums, 0, score))),
            self._shares.store(head, share),
        )
        return ir.allocated((most, sums), body)

    # Step 5: values, mixed.

    def _mixed(self, group: ir.Affine, first: ir.Affine, seen: _Seen, row: ir.Affine) -> ir.Block:
        shape, config = self.shape, self.config
        heads, vectors = config.heads, config.vectors
        part, place = ir.variable("part"), ir.variable("token")
        token, scored = seen.first + place, seen.skipped + place
        sums = ir.local("mixed", heads * vectors * ir.LANES)
        terms = []
        for head in range(heads):
            at = ir.constant(head * self._pitch + self._ahead)
            power = self._scores[scored + at]
            for n in range(vectors):
                quad = part * vectors + n
                value = self._vector(5, value_at(shape, group, quad, token))
                terms.append(_added(sums, head * vectors + n, ir.splat(power) * value))
        inside = token.below(seen.place + 1)
        stores = []
        for head in range(heads):
            share = ir.splat(self._shares[head])
            own = (first + head) * shape.head_dim
            for n in range(vectors):
                index = (
                    row * (shape.heads * shape.head_dim)
                    + own
                    + part * (ir.LANES * vectors)
                    + ir.LANES * n
                )
                mixed = sums.vector(ir.LANES * (head * vectors + n)) * share
                stores.append(self.parameters[-1].store(index, mixed))
        body: ir.Block = (
            *(sums.store(ir.LANES * n, ir.numbers(0.0)) for n in range(heads * vectors)),
            *ir.serial("token", shape.span, ir.under((inside,), tuple(terms))),
            *stores,
        )
        parts = shape.head_dim // (ir.LANES * vectors)
        return ir.serial("part", parts, (ir.Allocate(buffer=sums, body=body),))


def _added(buffer: ir.Buffer, place: int, value: ir.Expression) -> ir.Store:
    return buffer.store(ir.LANES * place, buffer.vector(ir.LANES * place) + value)

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
from kernelzoo.domain.operators.decoding import LOWEST
from kernelzoo.domain.workload import Workload
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
    program = _DecodeAttentionNest(candidate.workload, config).program()
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


class _DecodeAttentionNest:
    """The slice has the heads from `first` on, of those that share the key and value of number
    `group`; `here` is the position, `row` that of the block."""

    def __init__(self, workload: Workload, config: WasmDecodeAttentionConfig) -> None:
        self.shape, self.rows = attended_rows(workload)
        shape, frame = self.shape, ir.Frame()
        self.config, self.frame, self.parameters = config, frame, parameters_of(workload)
        self.projected, self.cosines, self.sines, state, self.keys, self.values, self.output = (
            self.parameters
        )
        chunks = shape.shared // config.heads
        self.slices, self.quads = shape.kv_heads * chunks, shape.head_dim // ir.LANES
        place = frame.variable("slice", self.slices)
        self.group, chunk = frame.delinearize(place, (("group", shape.kv_heads), ("chunk", chunks)))
        self.first = self.group * shape.shared + chunk * config.heads
        self.here = position(frame, state, shape)
        self.row = frame.variable("row", self.rows)
        # Quads of the tokens that are seen, of which a window may begin with the last of one. Then
        # scores before those of the first quad are written and count for nothing, as do those of
        # four more tokens at the end of a head.
        seen = shape.span + ir.LANES - 1 if shape.window else shape.length
        self.most_quads = -(-seen // ir.LANES)
        self.ahead = ir.LANES if shape.window else 0
        self.pitch = self.ahead + self.most_quads * ir.LANES + ir.LANES
        self.queries = ir.scratch("queries", config.heads * shape.head_dim)
        self.scores = ir.scratch("scores", config.heads * self.pitch)
        self.shares = ir.scratch("shares", config.heads)

    def program(self) -> ir.Program:
        body: ir.Block = (
            *ir.serial("row", self.rows, self.joined()),
            *ir.serial("row", self.rows, self.attended()),
        )
        body = ir.allocated((self.queries, self.scores, self.shares), body)
        return ir.program(self.parameters, "slice", self.slices, self.frame.enclose(body))

    # Steps 1 and 2.

    def joined(self) -> ir.Block:
        """The key and the value of a row, where the cache has room for it."""
        shape, inside, quad = self.shape, self.frame.nested(), ir.variable("quad")
        place = self.here + self.row
        has_room = inside.undecided((place.below(shape.length),))
        token = inside.clamped("token", place, shape.length, 1)
        key = self.of_head(self.group + shape.heads)
        value = self.of_head(self.group + shape.heads + shape.kv_heads)
        entries = self.projected.vector(value + quad * ir.LANES)
        kept = self.values.store(value_at(shape, self.group, quad, token), entries)
        body: ir.Block = (
            *self.rotated(key, token, self.keys, lambda q: key_at(shape, self.group, q, token)),
            *ir.serial("quad", self.quads, (kept,)),
        )
        return inside.enclose(ir.under(has_room, body))

    def of_head(self, head: ir.Affine) -> ir.Affine:
        """Places the beginning of a head of the projected row."""
        shape = self.shape
        width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        return self.row * width + head * shape.head_dim

    def rotated(
        self,
        source: ir.Affine,
        place: ir.Affine,
        target: ir.Buffer,
        index: Callable[[ir.Affine], ir.Affine],
        scale: float = 1,
    ) -> ir.Block:
        """A head of the projected row, as at a place of the text; `index` is that of a quad."""
        half, quad = self.shape.head_dim // 2, ir.variable("quad")
        entry = quad * ir.LANES
        low, high = (self.projected.vector(source + entry + at) for at in (0, half))
        cosine, sine = (table.vector(place * half + entry) for table in (self.cosines, self.sines))
        halves = (low * cosine - high * sine, high * cosine + low * sine)
        stores = tuple(
            target.store(index(each), value if scale == 1 else value * scale)
            for each, value in zip((quad, quad + half // ir.LANES), halves, strict=True)
        )
        return ir.serial("quad", half // ir.LANES, stores)

    def attended(self) -> ir.Block:
        shape, heads, inside = self.shape, self.config.heads, self.frame.nested()
        seen = self.seen(inside, self.here + self.row)
        head = inside.variable("head", heads)
        query = head * shape.head_dim
        rotated = self.rotated(
            self.of_head(self.first + head),
            seen.last,
            self.queries,
            lambda quad: query + quad * ir.LANES,
            shape.factor,
        )
        body: ir.Block = (
            *ir.serial("head", heads, rotated),
            *self.scored(seen),
            *(ir.serial("head", heads, self.capped(head, seen)) if shape.cap else ()),
            *self.padded(seen),
            *ir.serial("head", heads, self.softmax(head, seen)),
            *self.mixed(seen),
        )
        return inside.enclose(body)

    def seen(self, frame: ir.Frame, place: ir.Affine) -> _Seen:
        shape = self.shape
        last = frame.clamped("rotated_at", place, shape.length, 1)
        first = first_seen(frame, place, shape)
        most = frame.upper_bound(first)
        begin, skipped, behind = ir.ZERO, ir.ZERO, last
        if most:
            quad = ir.value(first) // ir.LANES
            begin = frame.let("first_quad", quad, most // ir.LANES) * ir.LANES
            skipped = frame.let("skipped", ir.value(first - begin), ir.LANES - 1)
            behind = frame.let("behind", ir.value(last - begin), shape.span + ir.LANES - 2)
        return _Seen(
            place=place, begin=begin, first=first, skipped=skipped, last=last, behind=behind
        )

    # Step 3: scores of four tokens at once.

    def scored(self, seen: _Seen) -> ir.Block:
        shape, heads = self.shape, range(self.config.heads)
        entry, quad = ir.variable("entry"), ir.variable("quad")
        sums = ir.tile("sums", self.config.heads, ir.LANES)
        terms = []
        for t in range(ir.LANES):
            token = seen.begin + quad * ir.LANES + t
            key = self.keys.vector(key_at(shape, self.group, entry, token))
            for head in heads:
                query = self.queries.vector(entry * ir.LANES + head * shape.head_dim)
                terms.append(sums.add((head, t), query * key))
        scores = (
            self.scores.store(self.quad_of(head) + t, ir.all_lanes(sums[head, t]))
            for head in heads
            for t in range(ir.LANES)
        )
        body = (*sums.fill(0.0), *ir.serial("entry", self.quads, tuple(terms)), *scores)
        return self.over_quads(seen, ir.allocated((sums,), body))

    def over_quads(self, seen: _Seen, body: ir.Block) -> ir.Block:
        """For each four tokens of which the first is not behind the row's own."""
        first = seen.begin + ir.affine(quad=ir.LANES)
        bounds = [first.below(seen.place + 1)]
        if self.shape.window:
            bounds.append(first.below(self.shape.length))
        return ir.serial("quad", self.most_quads, ir.under(bounds, body))

    def quad_of(self, head: ir.Affine | int) -> ir.Affine:
        """Four scores of a head."""
        return head * self.pitch + ir.affine(self.ahead, quad=ir.LANES)

    def padded(self, seen: _Seen) -> ir.Block:
        """The scores behind the last token, up to a whole vector, and those of its quad before the
        first: the lowest."""
        behind = [seen.behind + 1 + t for t in range(ir.LANES - 1)]
        before = [seen.skipped - 1 - t for t in range(ir.LANES - 1)] if self.ahead else []
        return tuple(
            self.scores.store(place + head * self.pitch + self.ahead, ir.number(LOWEST))
            for head in range(self.config.heads)
            for place in (*behind, *before)
        )

    # Step 4: the softmax of a head.

    def capped(self, head: ir.Affine, seen: _Seen) -> ir.Block:
        at = self.quad_of(head) + ir.variable("lane")
        capped = self.scores.store(at, score_of(self.scores[at], self.shape))
        return self.over_quads(seen, (ir.vector("lane", capped),))

    def softmax(self, head: ir.Affine, seen: _Seen) -> ir.Block:
        most, sums = ir.tile("most", 1), ir.tile("sum", 1)
        score = self.scores.vector(self.quad_of(head))
        # Within these bounds e to it needs no choices.
        bounded = (score - most[0]).max(ir.numbers(LOWEST_EXPONENT)).min(0.0)
        power = ir.call(ir.MathFunction.EXP, bounded)
        body: ir.Block = (
            *most.fill(LOWEST),
            *sums.fill(0.0),
            *self.over_quads(seen, (most.store(0, most[0].max(score)),)),
            most.store(0, ir.splat(ir.all_lanes(most[0], ir.BinaryOp.MAX))),
            *self.over_quads(seen, (self.scores.store(score.index, power), sums.add(0, score))),
            self.shares.store(head, ir.number(1.0) / ir.all_lanes(sums[0])),
        )
        return ir.allocated((most, sums), body)

    # Step 5: values, mixed.

    def mixed(self, seen: _Seen) -> ir.Block:
        shape, heads, vectors = self.shape, self.config.heads, self.config.vectors
        part, place = ir.variable("part"), ir.variable("token")
        token, scored = seen.first + place, seen.skipped + place
        sums = ir.tile("mixed", heads, vectors)
        terms, stores = [], []
        for head in range(heads):
            power = ir.splat(self.scores[scored + (head * self.pitch + self.ahead)])
            row = self.row * shape.heads + self.first + head
            share = ir.splat(self.shares[head])
            for n in range(vectors):
                quad = part * vectors + n
                value = self.values.vector(value_at(shape, self.group, quad, token))
                terms.append(sums.add((head, n), power * value))
                index = row * shape.head_dim + quad * ir.LANES
                stores.append(self.output.store(index, sums[head, n] * share))
        seen_terms = ir.under((token.below(seen.place + 1),), tuple(terms))
        body = (*sums.fill(0.0), *ir.serial("token", shape.span, seen_terms), *stores)
        return ir.serial("part", self.quads // vectors, ir.allocated((sums,), body))

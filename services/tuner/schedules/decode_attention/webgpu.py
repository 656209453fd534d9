"""Attention of one token over itself and the cache for WebGPU (`operators.decoding`).

    dispatch    heads × parts workgroups, then heads where there are several parts
    workgroup   one head, and `tokens` of the cache: those of its part
    thread      tokens thread, thread + threads, … for the scores; then four entries of the output,
                of every (4 · threads / head_dim)-th token

    workgroup memory
      query, key, value [head_dim]     the head's query, and what the token adds to the cache
      scores [tokens]               of the part's tokens, then their powers
      mixed [threads] vec4          parts of the output

Nothing waits for the cache to be written: a workgroup has the token's own key and value in
workgroup memory, and the first head of a group writes them into the cache, where all read only
tokens before. The position is read once; a loop over tokens ends at it
(`codegen/wgsl/statements.py`), and begins at the first that a window still has.

The steps are numbered as they follow one another below:

    query[thread] = (projected[…] * cosines[…] + partner * sines[…]) * 0.125     // 1 rotary
    for (step; step < 8 && step * 256 + thread < here) scores[…] = Σ query · keys  // 2
    most = max over all threads; scores[…] = exp(scores[…] - most); total = Σ      // 3
    for (round …) acc += scores[…] * values[…]                                     // 4, × 4
    c[…] = Σ mixed[…] / total                                                      // 5
"""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.decoding import LANES, LOWEST
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.cache import (
    exp_of_difference,
    first_seen,
    key_at,
    position,
    score_of,
    value_at,
)
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.parts import OutputParts
from services.tuner.schedules.base.row_threads import RowThreads, reduced
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.decode_attention.webgpu_config import (
    WebgpuDecodeAttentionConfig,
    shape_of,
)

AT_ONCE = 4
"""Tokens whose values a thread reads before it waits for the first of them."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuDecodeAttentionConfig.of(candidate)
    return ScheduledProgram(nests=_DecodeAttentionKernel(candidate.workload, config).programs())


class _DecodeAttentionKernel:
    """All steps know these. `first` is the first of the `tokens` of the workgroup's part, `here`
    the position: variables of the frame."""

    def __init__(self, workload: Workload, config: WebgpuDecodeAttentionConfig) -> None:
        shape, frame = shape_of(workload), ir.Frame()
        self.config, self.shape, self.frame = config, shape, frame
        parameters = parameters_of(workload)
        self.projected, self.cosines, self.sines, state, self.keys, self.values, self.output = (
            parameters
        )
        self.tokens, self.quads = config.tokens(shape), shape.head_dim // LANES
        place = frame.variable("group", shape.heads * config.parts)
        self.head, self.part = frame.delinearize(
            place, (("head", shape.heads), ("part", config.parts))
        )
        self.group, self.among = frame.delinearize(
            self.head, (("shared", shape.kv_heads), ("among", shape.shared))
        )
        self.thread = frame.variable("thread", config.threads)
        self.here = position(frame, state, shape)
        self.first = self.part * self.tokens + first_seen(frame, self.here, shape)
        self.parts = None
        if config.parts > 1:
            self.parts = OutputParts.of(shape.heads, config.parts, shape.head_dim)
        self.parameters = (*parameters, *((self.parts.held,) if self.parts else ()))
        self.query, self.key, self.value = (
            ir.shared(name, shape.head_dim) for name in ("query", "own_key", "own_value")
        )
        self.scores = ir.shared("scores", self.tokens)
        self.mixed = ir.shared("mixed", LANES * config.threads)
        self.best, self.sum = ir.local("best", 1), ir.local("sum", 1)
        self.dot, self.acc = ir.tile("dot", 1), ir.tile("acc", 1)

    def programs(self) -> tuple[ir.Program, ...]:
        """One dispatch, and with several parts a second one that joins them."""
        config, shape = self.config, self.shape
        sharing = RowThreads(
            threads=config.threads,
            rows=1,
            own=ir.ZERO,
            lane=self.thread,
            subgroups=config.subgroups,
        )
        token = self.frame.strided("of_head", "entry", shape.head_dim, config.threads, self.rotated)
        scores = self.scored()
        most = reduced(sharing, [self.best[0]], "most", ir.BinaryOp.MAX)
        powers = self.powers(most.values[0])
        total = reduced(sharing, [self.sum[0]], "total")
        mixed, stored = self.mix(), self.stored(most.values[0], total.values[0])
        own = (self.best, self.sum, self.dot, self.acc)
        shared = (self.query, self.key, self.value, self.scores, self.mixed)
        body: ir.Block = (
            *token,
            ir.Barrier(),
            *self.kept(),
            *scores,
            *most.body,
            *powers,
            *total.body,
            *mixed,
            ir.Barrier(),
            *stored,
        )
        main = self.frame.dispatch(
            self.parameters,
            (shape.heads * config.parts, config.threads),
            body,
            local=(*own, *most.local, *total.local),
            shared=(*shared, *most.shared, *total.shared),
        )
        return (main, self.joined(self.parts)) if self.parts else (main,)

    # Step 1: the query, the key and the value of the token, the first two rotated.

    def rotated(self, inside: ir.Frame, entry: ir.Affine) -> ir.Block:
        shape, half = self.shape, self.shape.head_dim // 2
        opposite = inside.let(
            "opposite", ir.value(entry + half) % shape.head_dim, shape.head_dim - 1
        )
        place = self.here * half + inside.let("angle", ir.value(entry) % half, half - 1)
        cosine, sine = self.cosines[place], self.sines[place]

        def rotary(head: ir.Affine) -> ir.Expression:
            row = head * shape.head_dim
            partner = self.projected[row + opposite]
            negative = ir.number(-1.0) * partner
            other = ir.select(ir.value(entry).less(half), negative, partner)
            return self.projected[row + entry] * cosine + other * sine

        key = self.group + shape.heads
        value = (key + shape.kv_heads) * shape.head_dim
        return (
            self.query.store(entry, rotary(self.head) * shape.factor),
            self.key.store(entry, rotary(key)),
            self.value.store(entry, self.projected[value + entry]),
        )

    def kept(self) -> ir.Block:
        """The first head of a group keeps the token in the cache, in its first part's workgroup."""
        quad = self.thread
        stores = (
            self.keys.store(self.key_at(quad, self.here), self.key.vector(quad * LANES)),
            self.values.store(self.value_at(quad, self.here), self.value.vector(quad * LANES)),
        )
        bounds = (quad.below(self.quads), self.among.below(1), self.part.below(1))
        return self.frame.where(bounds, stores)

    def key_at(self, quad: ir.Affine, token: ir.Affine) -> ir.Affine:
        return key_at(self.shape, self.group, quad, token)

    def value_at(self, quad: ir.Affine, token: ir.Affine) -> ir.Affine:
        return value_at(self.shape, self.group, quad, token)

    # Step 2: a thread has the scores of whole tokens.

    def scored(self) -> ir.Block:
        def score(at: ir.Affine, keys: list[ir.Load]) -> ir.Block:
            products: list[ir.Statement] = []
            for quad, key in enumerate(keys):
                product = self.query.vector(LANES * quad) * key
                products.append((self.dot.add if quad else self.dot.store)(0, product))
            return (
                *products,
                self.scores.store(at, score_of(ir.all_lanes(self.dot[0]), self.shape)),
                self.best.store(0, self.best[0].max(self.scores[at])),
            )

        at = ir.affine(step=self.config.threads) + self.thread
        token, quads = self.first + at, range(self.quads)
        cached = [self.keys.vector(self.key_at(ir.constant(quad), token)) for quad in quads]
        own = [self.key.vector(LANES * quad) for quad in quads]
        steps = -(-self.tokens // self.config.threads)
        return (
            self.best.store(0, ir.number(LOWEST)),
            *self.here_in_part(score(self.here - self.first, own)),
            *self.each(self.frame, "step", steps, at, score(at, cached)),
        )

    def each(
        self, frame: ir.Frame, var: str, steps: int, at: ir.Affine, body: ir.Block
    ) -> ir.Block:
        """The body for each token of the part that stands before the position, from the one `at` a
        place of the part on. The loop is one even where it has one step: its condition ends it."""
        token, inside = self.first + at, frame.nested()
        inside.ranges[var] = (0, steps - 1)
        ends = inside.undecided((at.below(self.tokens), token.below(self.shape.length)))
        return (ir.loop(var, steps, ir.under((token.below(self.here), *ends), body)),)

    def here_in_part(self, body: ir.Block, *, all_threads: bool = False) -> ir.Block:
        """The body where the position lies in the part, of all threads or of the last one, which
        has the fewest tokens of the cache."""
        from_last = self.config.threads - 1 - self.thread
        bounds = [] if all_threads else [from_last.below(1)]
        if self.config.parts > 1 or self.shape.span < self.shape.length:
            after = self.here - self.first
            bounds += [after.below(self.tokens), after.at_least(0)]
        return ir.under(bounds, body)

    # Step 3: their powers, and the sum of these.

    def powers(self, most: ir.Expression) -> ir.Block:
        def power(at: ir.Affine) -> ir.Block:
            return (
                self.scores.store(at, exp_of_difference(self.scores[at], most)),
                self.sum.add(0, self.scores[at]),
            )

        steps = -(-self.tokens // self.config.threads)
        at = ir.affine(turn=self.config.threads) + self.thread
        return (
            self.sum.store(0, 0.0),
            *self.here_in_part(power(self.here - self.first)),
            *self.each(self.frame, "turn", steps, at, power(at)),
        )

    # Step 4: a thread has four entries of the output, of every so many tokens.

    def mix(self) -> ir.Block:
        rows, inside = self.config.threads // self.quads, self.frame.nested()
        row, quad = inside.delinearize(self.thread, (("row", rows), ("quad", self.quads)))
        # The last token of the part that stands before the position.
        after = self.here - self.first
        before_it = ir.value(after).min(self.tokens) - 1
        last = inside.let("last", before_it.max(0), self.tokens - 1)
        at_once = min(AT_ONCE, -(-self.tokens // rows))
        turns = -(-self.tokens // (rows * at_once))
        first = ir.affine(round=rows * at_once) + row
        turn = ir.Frame(ranges={**inside.ranges, "round": (0, turns - 1)})
        cached: list[ir.Statement] = []
        for number_ in range(at_once):
            own = ir.value(first + number_ * rows)
            at = turn.let(f"at{number_}", own.min(last), self.tokens - 1)
            power = ir.select(own.at_most(last), self.scores[at], ir.number(0))
            token = turn.clamped(f"token{number_}", self.first + at, self.shape.length, 1)
            value = self.values.vector(self.value_at(quad, token))
            cached.append(self.acc.add(0, ir.splat(power) * value))
        own_value = ir.splat(self.scores[after]) * self.value.vector(quad * LANES)
        own_part = self.here_in_part((self.acc.add(0, own_value),), all_threads=True)
        body: ir.Block = (
            *self.acc.fill(0),
            *inside.where((row.below(1),), own_part),
            *self.each(inside, "round", turns, first, turn.enclose(tuple(cached))),
            self.mixed.store(self.thread * LANES, self.acc[0]),
        )
        return inside.enclose(body)

    # Step 5: the rows of threads added up, and the entries of the output or of the part.

    def stored(self, most: ir.Expression, total: ir.Expression) -> ir.Block:
        shape, place = self.shape, self.thread * LANES
        rows = range(self.config.threads // self.quads)
        value = ir.pairwise([self.mixed.vector(place + row * shape.head_dim) for row in rows])
        exists, parts = (self.thread.below(self.quads),), self.parts
        if parts is None:
            index = self.head * shape.head_dim + place
            return self.frame.where(exists, (self.output.store(index, value / ir.splat(total)),))
        told = parts.told(self.head, self.part, most, total)
        return (
            *self.frame.where(exists, (parts.mixed(self.head, self.part, place, value),)),
            *self.frame.where((self.thread.below(1),), (told,)),
        )

    def joined(self, parts: OutputParts) -> ir.Program:
        shape, frame = self.shape, ir.Frame()
        threads = max(32, 1 << (self.quads - 1).bit_length())
        head, thread = frame.variable("group", shape.heads), frame.variable("thread", threads)
        place = thread * LANES
        entries = parts.joined(head, place, self.output, head * shape.head_dim + place)
        body = frame.where((thread.below(self.quads),), entries)
        return frame.dispatch(self.parameters, (shape.heads, threads), body)

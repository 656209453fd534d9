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

from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.decoding import LANES, LOWEST, AttentionShape
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


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuDecodeAttentionConfig.of(candidate)
    return ScheduledProgram(nests=attention_programs(candidate.workload, config))


def attention_programs(
    workload: Workload, config: WebgpuDecodeAttentionConfig
) -> tuple[ir.Program, ...]:
    """One dispatch, and with several parts a second one that joins them."""
    kernel = _Kernel.of(workload, config)
    shape, frame = kernel.shape, kernel.frame
    body: ir.Block = (*_token(kernel), ir.Barrier(), *_kept(kernel), *_scores(kernel))
    most = reduced(kernel.sharing, [kernel.largest], "most", ir.BinaryOp.MAX)
    body = (*body, *most.body, *_powers(kernel, most.values[0]))
    sums = reduced(kernel.sharing, [kernel.power], "total")
    body = (*body, *sums.body, *_mixed(kernel))
    body = (*body, *_stored(kernel, most.values[0], sums.values[0]))
    body = ir.allocated((*kernel.local, *most.local, *sums.local), body)
    block: ir.Block = (ir.threads(config.threads, frame.enclose(body)),)
    block = ir.allocated((*kernel.shared, *most.shared, *sums.shared), block)
    main = ir.program(kernel.parameters, "group", shape.heads * config.parts, block)
    return (main, _joined(kernel, kernel.parts)) if kernel.parts else (main,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """All steps know these. `first` is the first token of the workgroup's part, `here` the
    position, `seen_from` the first token that is seen: variables of the frame."""

    config: WebgpuDecodeAttentionConfig
    shape: AttentionShape
    parameters: tuple[ir.Buffer, ...]
    parts: OutputParts | None
    frame: ir.Frame
    thread: ir.Affine
    head: ir.Affine
    part: ir.Affine
    group: ir.Affine
    among: ir.Affine
    here: ir.Affine
    seen_from: ir.Affine
    query: ir.Buffer
    key: ir.Buffer
    value: ir.Buffer
    scores: ir.Buffer
    mixed: ir.Buffer
    best: ir.Buffer
    sum: ir.Buffer
    dot: ir.Buffer
    acc: ir.Buffer

    @classmethod
    def of(cls, workload: Workload, config: WebgpuDecodeAttentionConfig) -> "_Kernel":
        shape, frame = shape_of(workload), ir.Frame()
        parameters = parameters_of(workload)
        place = frame.variable("group", shape.heads * config.parts)
        head, part = frame.delinearize(place, (("head", shape.heads), ("part", config.parts)))
        group, among = frame.delinearize(
            head, (("shared", shape.kv_heads), ("among", shape.shared))
        )
        thread = frame.variable("thread", config.threads)
        here = position(frame, parameters[3], shape)
        parts = None
        if config.parts > 1:
            parts = OutputParts.of(shape.heads, config.parts, shape.head_dim)
        return cls(
            config=config,
            shape=shape,
            parameters=(*parameters, *((parts.held,) if parts else ())),
            parts=parts,
            frame=frame,
            thread=thread,
            head=head,
            part=part,
            group=group,
            among=among,
            here=here,
            seen_from=first_seen(frame, here, shape),
            query=ir.shared("query", shape.head_dim),
            key=ir.shared("own_key", shape.head_dim),
            value=ir.shared("own_value", shape.head_dim),
            scores=ir.shared("scores", config.tokens(shape)),
            mixed=ir.shared("mixed", LANES * config.threads),
            best=ir.local("best", 1),
            sum=ir.local("sum", 1),
            dot=ir.local("dot", LANES),
            acc=ir.local("acc", LANES),
        )

    @property
    def local(self) -> tuple[ir.Buffer, ...]:
        return self.best, self.sum, self.dot, self.acc

    @property
    def shared(self) -> tuple[ir.Buffer, ...]:
        return self.query, self.key, self.value, self.scores, self.mixed

    @property
    def sharing(self) -> RowThreads:
        return RowThreads(
            threads=self.config.threads,
            rows=1,
            own=ir.ZERO,
            lane=self.thread,
            subgroups=self.config.subgroups,
        )

    @property
    def largest(self) -> ir.Load:
        return self.best[0]

    @property
    def power(self) -> ir.Load:
        return self.sum[0]

    @property
    def first(self) -> ir.Affine:
        return self.part * self.config.tokens(self.shape) + self.seen_from

    def key_at(self, quad: ir.Affine, token: ir.Affine) -> ir.Affine:
        return key_at(self.shape, self.group, quad, token)

    def value_at(self, quad: ir.Affine, token: ir.Affine) -> ir.Affine:
        return value_at(self.shape, self.group, quad, token)


# Step 1: the query, the key and the value of the token, the first two rotated.


def _token(kernel: _Kernel) -> ir.Block:
    shape, threads = kernel.shape, kernel.config.threads
    inside = kernel.frame.nested()
    turns = -(-shape.head_dim // threads)
    own = inside.variable("of_head", turns) * threads + kernel.thread
    exists = inside.undecided((own.below(shape.head_dim),))
    entry = inside.clamped("entry", own, shape.head_dim, 1)
    half = shape.head_dim // 2
    opposite, angle = (
        inside.let(name, ir.value(index) % size, size - 1)
        for name, index, size in (
            ("opposite", entry + half, shape.head_dim),
            ("angle", entry, half),
        )
    )
    place = kernel.here * half + angle
    cosine, sine = (kernel.parameters[n][place] for n in (1, 2))

    def projected(row: ir.Affine, at: ir.Affine) -> ir.Expression:
        return kernel.parameters[0][row * shape.head_dim + at]

    def rotated(row: ir.Affine) -> ir.Expression:
        partner = projected(row, opposite)
        negative = ir.number(-1.0) * partner
        low = ir.value(entry).less(half)
        other = ir.select(low, negative, partner)
        return projected(row, entry) * cosine + other * sine

    keys = kernel.group + shape.heads
    values = keys + shape.kv_heads
    scale = ir.number(shape.factor)
    stores = (
        kernel.query.store(entry, rotated(kernel.head) * scale),
        kernel.key.store(entry, rotated(keys)),
        kernel.value.store(entry, projected(values, entry)),
    )
    return ir.serial("of_head", turns, inside.enclose(ir.under(exists, stores)))


def _kept(kernel: _Kernel) -> ir.Block:
    """The first head of a group keeps the token in the cache, in its first part's workgroup."""
    thread, quads = kernel.thread, kernel.shape.head_dim // LANES
    bounds = kernel.frame.undecided(
        (thread.below(quads), kernel.among.below(1), kernel.part.below(1))
    )
    own = [buffer.vector(thread * LANES) for buffer in (kernel.key, kernel.value)]
    stores = (
        kernel.parameters[4].store(kernel.key_at(thread, kernel.here), own[0]),
        kernel.parameters[5].store(kernel.value_at(thread, kernel.here), own[1]),
    )
    return ir.under(bounds, stores)


# Step 2: a thread has the scores of whole tokens.


def _scores(kernel: _Kernel) -> ir.Block:
    config, shape = kernel.config, kernel.shape
    tokens = config.tokens(shape)

    def scored(at: ir.Affine, key: ir.Buffer, place: list[ir.Affine]) -> ir.Block:
        found: list[ir.Statement] = []
        for quad, index in enumerate(place):
            query = kernel.query.vector(LANES * quad)
            product = query * key.vector(index)
            so_far = kernel.dot.vector(0)
            value = so_far + product if quad else product
            found.append(kernel.dot.store(0, value))
        score = score_of(ir.all_lanes(kernel.dot.vector(0)), shape)
        found.append(kernel.scores.store(at, score))
        best = kernel.largest.max(kernel.scores[at])
        return (*found, kernel.best.store(0, best))

    quads = range(shape.head_dim // LANES)
    step = ir.variable("step")
    at = step * config.threads + kernel.thread
    token = kernel.first + at
    cached = scored(at, kernel.parameters[4], [kernel.key_at(ir.constant(q), token) for q in quads])
    own = scored(kernel.here - kernel.first, kernel.key, [ir.constant(LANES * q) for q in quads])
    steps = -(-tokens // config.threads)
    ranges = {**kernel.frame.ranges, "step": (0, steps - 1)}
    return (
        kernel.best.store(0, ir.number(LOWEST)),
        *_here_in_part(kernel, own),
        *_each(kernel, "step", steps, at, token, cached, ranges),
    )


def _each(
    kernel: _Kernel,
    var: str,
    steps: int,
    at: ir.Affine,
    token: ir.Affine,
    body: ir.Block,
    ranges: dict[str, tuple[int, int]],
) -> ir.Block:
    """The body for each token of the part that stands before the position. The loop is one even
    where it has one step: its condition ends it."""
    tokens = kernel.config.tokens(kernel.shape)
    bounds = [token.below(kernel.here)]
    if at.bounds(ranges)[1] >= tokens:
        bounds.append(at.below(tokens))
    if token.bounds(ranges)[1] >= kernel.shape.length:
        bounds.append(token.below(kernel.shape.length))
    return (ir.loop(var, steps, ir.under(bounds, body)),)


def _here_in_part(kernel: _Kernel, body: ir.Block, *, all_threads: bool = False) -> ir.Block:
    """The body where the position lies in the part, of all threads or of the last one, which has
    the fewest tokens of the cache."""
    tokens = kernel.config.tokens(kernel.shape)
    from_last = kernel.config.threads - 1 - kernel.thread
    bounds = [] if all_threads else [from_last.below(1)]
    if kernel.config.parts > 1 or kernel.shape.span < kernel.shape.length:
        after = kernel.here - kernel.first
        bounds += [after.below(tokens), after.at_least(0)]
    return ir.under(bounds, body)


# Step 3: their powers, and the sum of these.


def _powers(kernel: _Kernel, most: ir.Expression) -> ir.Block:
    config = kernel.config

    def powered(at: ir.Affine) -> ir.Block:
        score = kernel.scores[at]
        return (
            kernel.scores.store(at, exp_of_difference(score, most)),
            kernel.sum.store(0, kernel.power + kernel.scores[at]),
        )

    steps = -(-config.tokens(kernel.shape) // config.threads)
    at = ir.variable("turn") * config.threads + kernel.thread
    ranges = {**kernel.frame.ranges, "turn": (0, steps - 1)}
    own = powered(kernel.here - kernel.first)
    return (
        kernel.sum.store(0, 0.0),
        *_here_in_part(kernel, own),
        *_each(kernel, "turn", steps, at, kernel.first + at, powered(at), ranges),
    )


# Step 4: a thread has four entries of the output, of every so many tokens.


AT_ONCE = 4
"""Tokens whose values a thread reads before it waits for the first of them."""


def _mixed(kernel: _Kernel) -> ir.Block:
    config, shape = kernel.config, kernel.shape
    quads = shape.head_dim // LANES
    rows = config.threads // quads
    inside = kernel.frame.nested()
    row, quad = inside.delinearize(kernel.thread, (("row", rows), ("quad", quads)))
    tokens = config.tokens(shape)
    # The last token of the part that stands before the position.
    after = kernel.here - kernel.first
    within = ir.value(after).min(tokens)
    before_it = within - 1
    last = inside.let("last", before_it.max(0), tokens - 1)

    def added(value: ir.Load, power: ir.Expression) -> ir.Block:
        so_far = kernel.acc.vector(0)
        whole_ = so_far + ir.splat(power) * value
        return (kernel.acc.store(0, whole_),)

    at_once = min(AT_ONCE, -(-tokens // rows))
    turns = -(-tokens // (rows * at_once))
    first = ir.variable("round") * (rows * at_once) + row
    ranges = {**inside.ranges, "round": (0, turns - 1)}
    turn = ir.Frame(ranges=ranges)
    cached: ir.Block = ()
    for number_ in range(at_once):
        own = first + number_ * rows
        at = turn.let(f"at{number_}", ir.value(own).min(last), tokens - 1)
        exists = ir.value(own).at_most(last)
        power = ir.select(exists, kernel.scores[at], ir.number(0))
        token = turn.clamped(f"token{number_}", kernel.first + at, shape.length, 1)
        index = kernel.value_at(quad, token)
        value = kernel.parameters[5].vector(index)
        cached = (*cached, *added(value, power))
    own_value = kernel.value.vector(quad * LANES)
    among_first = inside.undecided((row.below(1),))
    score = kernel.scores[after]
    own_part = _here_in_part(kernel, added(own_value, score), all_threads=True)
    sums = kernel.acc.vector(0)
    begins = kernel.first + first
    body: ir.Block = (
        kernel.acc.store(0, ir.numbers(0)),
        *ir.under(among_first, own_part),
        *_each(kernel, "round", turns, first, begins, turn.enclose(cached), ranges),
        kernel.mixed.store(kernel.thread * LANES, sums),
    )
    return (*inside.enclose(body), ir.Barrier())


# Step 5: the rows of threads added up, and the entries of the output or of the part.


def _stored(kernel: _Kernel, most: ir.Expression, sum_: ir.Expression) -> ir.Block:
    config, shape, thread = kernel.config, kernel.shape, kernel.thread
    quads = shape.head_dim // LANES
    rows = [
        kernel.mixed.vector((thread + row * quads) * LANES)
        for row in range(config.threads // quads)
    ]
    value = ir.pairwise(rows)
    first = kernel.frame.undecided((thread.below(1),))
    exists = kernel.frame.undecided((thread.below(quads),))
    place = thread * LANES
    parts = kernel.parts
    if parts is None:
        output, quotient = kernel.parameters[6], value / ir.splat(sum_)
        index = kernel.head * shape.head_dim + place
        return ir.under(exists, (output.store(index, quotient),))
    return (
        *ir.under(exists, (parts.mixed(kernel.head, kernel.part, place, value),)),
        *ir.under(first, (parts.told(kernel.head, kernel.part, most, sum_),)),
    )


def _joined(kernel: _Kernel, parts: OutputParts) -> ir.Program:
    shape, frame = kernel.shape, ir.Frame()
    quads = shape.head_dim // LANES
    threads = max(32, 1 << (quads - 1).bit_length())
    head, thread = frame.variable("group", shape.heads), frame.variable("thread", threads)
    place = thread * LANES
    index = head * shape.head_dim + place
    exists = frame.undecided((thread.below(quads),))
    block = ir.under(exists, parts.joined(head, place, kernel.parameters[6], index))
    inner = ir.threads(threads, frame.enclose(block))
    return ir.program(kernel.parameters, "group", shape.heads, (inner,))

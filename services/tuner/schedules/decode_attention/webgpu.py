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
    times,
    under,
    whole,
)
from services.tuner.ir.nodes import (
    Allocate,
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Compare,
    CompareOp,
    Expression,
    IndexValue,
    Load,
    LoopKind,
    Program,
    Scope,
    Select,
    Statement,
    Store,
)
from services.tuner.schedules.base.cache import (
    before,
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
) -> tuple[Program, ...]:
    """One dispatch, and with several parts a second one that joins them."""
    kernel = _Kernel.of(workload, config)
    shape, frame = kernel.shape, kernel.frame
    body: Block = (
        *_token(kernel),
        Barrier(),
        *_kept(kernel),
        *_scores(kernel),
    )
    most = reduced(kernel.sharing, [kernel.largest], "most", BinaryOp.MAX)
    body = (*body, *most.body, *_powers(kernel, most.values[0]))
    sums = reduced(kernel.sharing, [kernel.power], "total")
    body = (*body, *sums.body, *_mixed(kernel))
    body = (*body, *_stored(kernel, most.values[0], sums.values[0]))
    for buffer in (*kernel.local, *most.local, *sums.local):
        body = (Allocate(buffer=buffer, body=body),)
    block: Block = (loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.enclose(body)),)
    for buffer in (*kernel.shared, *most.shared, *sums.shared):
        block = (Allocate(buffer=buffer, body=block),)
    main = Program(
        parameters=kernel.parameters,
        body=loop("group", shape.heads * config.parts, LoopKind.RANGE, block),
    )
    return (main, _joined(kernel, kernel.parts)) if kernel.parts else (main,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What all steps know. `first` is the first token of the workgroup's part, `here` the position,
    `seen_from` the first token that is seen: variables of the frame."""

    config: WebgpuDecodeAttentionConfig
    shape: AttentionShape
    parameters: tuple[Buffer, ...]
    parts: OutputParts | None
    frame: Frame
    thread: Affine
    head: Affine
    part: Affine
    group: Affine
    among: Affine
    here: Affine
    seen_from: Affine
    query: Buffer
    key: Buffer
    value: Buffer
    scores: Buffer
    mixed: Buffer
    best: Buffer
    sum: Buffer
    dot: Buffer
    acc: Buffer

    @classmethod
    def of(cls, workload: Workload, config: WebgpuDecodeAttentionConfig) -> "_Kernel":
        shape, frame = shape_of(workload), Frame()
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
            query=f32_buffer("query", shape.head_dim, Scope.WORKGROUP),
            key=f32_buffer("own_key", shape.head_dim, Scope.WORKGROUP),
            value=f32_buffer("own_value", shape.head_dim, Scope.WORKGROUP),
            scores=f32_buffer("scores", config.tokens(shape), Scope.WORKGROUP),
            mixed=f32_buffer("mixed", LANES * config.threads, Scope.WORKGROUP),
            best=f32_buffer("best", 1, Scope.LOCAL),
            sum=f32_buffer("sum", 1, Scope.LOCAL),
            dot=f32_buffer("dot", LANES, Scope.LOCAL),
            acc=f32_buffer("acc", LANES, Scope.LOCAL),
        )

    @property
    def local(self) -> tuple[Buffer, ...]:
        return self.best, self.sum, self.dot, self.acc

    @property
    def shared(self) -> tuple[Buffer, ...]:
        return self.query, self.key, self.value, self.scores, self.mixed

    @property
    def sharing(self) -> RowThreads:
        return RowThreads(
            threads=self.config.threads,
            rows=1,
            own=ZERO,
            lane=self.thread,
            subgroups=self.config.subgroups,
        )

    @property
    def largest(self) -> Load:
        return Load(buffer=self.best, index=ZERO)

    @property
    def power(self) -> Load:
        return Load(buffer=self.sum, index=ZERO)

    @property
    def first(self) -> Affine:
        return self.part.times(self.config.tokens(self.shape)).plus(self.seen_from)

    def key_at(self, quad: Affine, token: Affine) -> Affine:
        return key_at(self.shape, self.group, quad, token)

    def value_at(self, quad: Affine, token: Affine) -> Affine:
        return value_at(self.shape, self.group, quad, token)


# Step 1: the query, the key and the value of the token, the first two rotated.


def _token(kernel: _Kernel) -> Block:
    shape, threads = kernel.shape, kernel.config.threads
    inside = kernel.frame.nested()
    turns = -(-shape.head_dim // threads)
    own = inside.variable("of_head", turns).times(threads).plus(kernel.thread)
    exists = inside.undecided((Bound(index=own, limit=shape.head_dim),))
    entry = inside.clamped("entry", own, shape.head_dim, 1)
    half = shape.head_dim // 2
    opposite, angle = (
        inside.let(name, binary(BinaryOp.FLOOR_MOD, IndexValue(index=index), whole(size)), size - 1)
        for name, index, size in (
            ("opposite", entry.plus(constant(half)), shape.head_dim),
            ("angle", entry, half),
        )
    )
    place = kernel.here.times(half).plus(angle)
    cosine, sine = (Load(buffer=kernel.parameters[n], index=place) for n in (1, 2))

    def projected(row: Affine, at: Affine) -> Expression:
        return Load(buffer=kernel.parameters[0], index=row.times(shape.head_dim).plus(at))

    def rotated(row: Affine) -> Expression:
        partner = projected(row, opposite)
        negative = times(number(-1.0), partner)
        low = Compare(op=CompareOp.LT, left=IndexValue(index=entry), right=whole(half))
        other = Select(condition=low, then=negative, otherwise=partner)
        return plus(times(projected(row, entry), cosine), times(other, sine))

    keys = kernel.group.plus(constant(shape.heads))
    values = keys.plus(constant(shape.kv_heads))
    scale = number(shape.factor)
    stores = (
        Store(buffer=kernel.query, index=entry, value=times(rotated(kernel.head), scale)),
        Store(buffer=kernel.key, index=entry, value=rotated(keys)),
        Store(buffer=kernel.value, index=entry, value=projected(values, entry)),
    )
    return serial("of_head", turns, inside.enclose(under(exists, stores)))


def _kept(kernel: _Kernel) -> Block:
    """The first head of a group keeps the token in the cache, in its first part's workgroup."""
    thread, quads = kernel.thread, kernel.shape.head_dim // LANES
    bounds = kernel.frame.undecided(
        (
            Bound(index=thread, limit=quads),
            Bound(index=kernel.among, limit=1),
            Bound(index=kernel.part, limit=1),
        )
    )
    own = [
        Load(buffer=buffer, index=thread.times(LANES), lanes=LANES)
        for buffer in (kernel.key, kernel.value)
    ]
    stores = (
        Store(buffer=kernel.parameters[4], index=kernel.key_at(thread, kernel.here), value=own[0]),
        Store(
            buffer=kernel.parameters[5], index=kernel.value_at(thread, kernel.here), value=own[1]
        ),
    )
    return under(bounds, stores)


# Step 2: a thread has the scores of whole tokens.


def _scores(kernel: _Kernel) -> Block:
    config, shape = kernel.config, kernel.shape
    tokens = config.tokens(shape)

    def scored(at: Affine, key: Buffer, place: list[Affine]) -> Block:
        found: list[Statement] = []
        for quad, index in enumerate(place):
            query = Load(buffer=kernel.query, index=constant(LANES * quad), lanes=LANES)
            product = times(query, Load(buffer=key, index=index, lanes=LANES))
            so_far = Load(buffer=kernel.dot, index=ZERO, lanes=LANES)
            value = plus(so_far, product) if quad else product
            found.append(Store(buffer=kernel.dot, index=ZERO, value=value))
        score = score_of(all_lanes(Load(buffer=kernel.dot, index=ZERO, lanes=LANES)), shape)
        found.append(Store(buffer=kernel.scores, index=at, value=score))
        best = binary(BinaryOp.MAX, kernel.largest, Load(buffer=kernel.scores, index=at))
        return (*found, Store(buffer=kernel.best, index=ZERO, value=best))

    quads = range(shape.head_dim // LANES)
    step = Affine.variable("step")
    at = step.times(config.threads).plus(kernel.thread)
    token = kernel.first.plus(at)
    cached = scored(at, kernel.parameters[4], [kernel.key_at(constant(q), token) for q in quads])
    own = scored(
        kernel.here.plus(kernel.first.times(-1)),
        kernel.key,
        [constant(LANES * q) for q in quads],
    )
    steps = -(-tokens // config.threads)
    ranges = {**kernel.frame.ranges, "step": (0, steps - 1)}
    return (
        Store(buffer=kernel.best, index=ZERO, value=number(LOWEST)),
        *_here_in_part(kernel, own),
        *_each(kernel, "step", steps, at, token, cached, ranges),
    )


def _each(
    kernel: _Kernel,
    var: str,
    steps: int,
    at: Affine,
    token: Affine,
    body: Block,
    ranges: dict[str, tuple[int, int]],
) -> Block:
    """The body for each token of the part that stands before the position. The loop is one even
    where it has one step: its condition ends it."""
    tokens = kernel.config.tokens(kernel.shape)
    bounds = [before(token, kernel.here)]
    if at.bounds(ranges)[1] >= tokens:
        bounds.append(Bound(index=at, limit=tokens))
    if token.bounds(ranges)[1] >= kernel.shape.length:
        bounds.append(Bound(index=token, limit=kernel.shape.length))
    return (loop(var, steps, LoopKind.SERIAL, under(bounds, body)),)


def _here_in_part(kernel: _Kernel, body: Block, *, all_threads: bool = False) -> Block:
    """The body where the position lies in the part, of all threads or of the last one, which has
    the fewest tokens of the cache."""
    tokens = kernel.config.tokens(kernel.shape)
    from_last = constant(kernel.config.threads - 1).plus(kernel.thread.times(-1))
    bounds = [] if all_threads else [Bound(index=from_last, limit=1)]
    if kernel.config.parts > 1 or kernel.shape.span < kernel.shape.length:
        after = kernel.here.plus(kernel.first.times(-1))
        bounds += [Bound(index=after, limit=tokens), Bound(index=after.times(-1), limit=1)]
    return under(bounds, body)


# Step 3: their powers, and the sum of these.


def _powers(kernel: _Kernel, most: Expression) -> Block:
    config = kernel.config

    def powered(at: Affine) -> Block:
        score = Load(buffer=kernel.scores, index=at)
        return (
            Store(buffer=kernel.scores, index=at, value=exp_of_difference(score, most)),
            Store(
                buffer=kernel.sum,
                index=ZERO,
                value=plus(kernel.power, Load(buffer=kernel.scores, index=at)),
            ),
        )

    steps = -(-config.tokens(kernel.shape) // config.threads)
    at = Affine.variable("turn").times(config.threads).plus(kernel.thread)
    ranges = {**kernel.frame.ranges, "turn": (0, steps - 1)}
    own = powered(kernel.here.plus(kernel.first.times(-1)))
    return (
        Store(buffer=kernel.sum, index=ZERO, value=number(0)),
        *_here_in_part(kernel, own),
        *_each(kernel, "turn", steps, at, kernel.first.plus(at), powered(at), ranges),
    )


# Step 4: a thread has four entries of the output, of every so many tokens.


AT_ONCE = 4
"""Tokens whose values a thread reads before it waits for the first of them."""


def _mixed(kernel: _Kernel) -> Block:
    config, shape = kernel.config, kernel.shape
    quads = shape.head_dim // LANES
    rows = config.threads // quads
    inside = kernel.frame.nested()
    row, quad = inside.delinearize(kernel.thread, (("row", rows), ("quad", quads)))
    tokens = config.tokens(shape)
    # The last token of the part that stands before the position.
    after = kernel.here.plus(kernel.first.times(-1))
    within = binary(BinaryOp.MIN, IndexValue(index=after), whole(tokens))
    before_it = binary(BinaryOp.SUB, within, whole(1))
    last = inside.let("last", binary(BinaryOp.MAX, before_it, whole(0)), tokens - 1)

    def added(value: Load, power: Expression) -> Block:
        so_far = Load(buffer=kernel.acc, index=ZERO, lanes=LANES)
        whole_ = plus(so_far, times(splat(power), value))
        return (Store(buffer=kernel.acc, index=ZERO, value=whole_),)

    at_once = min(AT_ONCE, -(-tokens // rows))
    turns = -(-tokens // (rows * at_once))
    first = Affine.variable("round").times(rows * at_once).plus(row)
    ranges = {**inside.ranges, "round": (0, turns - 1)}
    turn = Frame(ranges=ranges)
    cached: Block = ()
    for number_ in range(at_once):
        own = first.plus(constant(number_ * rows))
        at = turn.let(
            f"at{number_}",
            binary(BinaryOp.MIN, IndexValue(index=own), IndexValue(index=last)),
            tokens - 1,
        )
        exists = Compare(op=CompareOp.LE, left=IndexValue(index=own), right=IndexValue(index=last))
        power = Select(
            condition=exists,
            then=Load(buffer=kernel.scores, index=at),
            otherwise=number(0),
        )
        token = turn.clamped(f"token{number_}", kernel.first.plus(at), shape.length, 1)
        index = kernel.value_at(quad, token)
        value = Load(buffer=kernel.parameters[5], index=index, lanes=LANES)
        cached = (*cached, *added(value, power))
    own_value = Load(buffer=kernel.value, index=quad.times(LANES), lanes=LANES)
    among_first = inside.undecided((Bound(index=row, limit=1),))
    score = Load(buffer=kernel.scores, index=after)
    own_part = _here_in_part(kernel, added(own_value, score), all_threads=True)
    sums = Load(buffer=kernel.acc, index=ZERO, lanes=LANES)
    begins = kernel.first.plus(first)
    body: Block = (
        Store(buffer=kernel.acc, index=ZERO, value=numbers(0)),
        *under(among_first, own_part),
        *_each(kernel, "round", turns, first, begins, turn.enclose(cached), ranges),
        Store(buffer=kernel.mixed, index=kernel.thread.times(LANES), value=sums),
    )
    return (*inside.enclose(body), Barrier())


# Step 5: the rows of threads added up, and the entries of the output or of the part.


def _stored(kernel: _Kernel, most: Expression, sum_: Expression) -> Block:
    config, shape, thread = kernel.config, kernel.shape, kernel.thread
    quads = shape.head_dim // LANES
    rows = [
        Load(
            buffer=kernel.mixed,
            index=thread.plus(constant(row * quads)).times(LANES),
            lanes=LANES,
        )
        for row in range(config.threads // quads)
    ]
    value = _pairwise(list(rows))
    first = kernel.frame.undecided((Bound(index=thread, limit=1),))
    exists = kernel.frame.undecided((Bound(index=thread, limit=quads),))
    place = thread.times(LANES)
    parts = kernel.parts
    if parts is None:
        output, quotient = kernel.parameters[6], binary(BinaryOp.DIV, value, splat(sum_))
        index = kernel.head.times(shape.head_dim).plus(place)
        return under(exists, (Store(buffer=output, index=index, value=quotient),))
    return (
        *under(exists, (parts.mixed(kernel.head, kernel.part, place, value),)),
        *under(first, (parts.told(kernel.head, kernel.part, most, sum_),)),
    )


def _pairwise(values: list[Expression]) -> Expression:
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [plus(*pair) for pair in pairs] + values[len(values) // 2 * 2 :]
    return values[0]


def _joined(kernel: _Kernel, parts: OutputParts) -> Program:
    shape, frame = kernel.shape, Frame()
    quads = shape.head_dim // LANES
    threads = max(32, 1 << (quads - 1).bit_length())
    head, thread = frame.variable("group", shape.heads), frame.variable("thread", threads)
    place = thread.times(LANES)
    index = head.times(shape.head_dim).plus(place)
    exists = frame.undecided((Bound(index=thread, limit=quads),))
    block = under(exists, parts.joined(head, place, kernel.parameters[6], index))
    inner = loop("thread", threads, LoopKind.THREAD_INDEX, frame.enclose(block))
    return Program(
        parameters=kernel.parameters, body=loop("group", shape.heads, LoopKind.RANGE, (inner,))
    )

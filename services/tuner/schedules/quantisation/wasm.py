"""Quantisation for wasm: the least and the largest entry of a, and a as bytes.

Shapes, named by the settings of `WasmQuantisationConfig`:

    range of quantise_range   one slice: `vectors` vectors of least entries, as many of largest ones
    range of quantise         slices of `chunk` vectors of words, each of sixteen entries of a

What it makes of quantise:f32:n32 with chunk=2:

    for slice < 1 range:
      held[0 +4] = scale[0] x4, held[4 +4] = real(zero[0]) x4
      for vector < 2:
        c[4·vector +4] = bytes(i32(nearest(a[16·vector +4] / held[0 +4]) + held[4 +4]), …)

Bytes below 0 and above 255 become these as they are put together, which is what min and max of the
definition do; a number beyond all i32 is the last of them before, and NaN is 0.
"""

from collections.abc import Iterator

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.integer_products import ACTIVATION_BITS, PER_WORD
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantisation.config import WasmQuantisationConfig, finds_range

ENTRIES = PER_WORD * ir.LANES
"""Entries of a that make a vector of words."""
MOST = 255
EXTREMES = (ir.BinaryOp.MINIMUM, ir.BinaryOp.MAXIMUM)


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmQuantisationConfig.of(candidate)
    parameters = parameters_of(candidate.workload)
    if finds_range(candidate.workload.program):
        a, c = parameters
        body = ir.loop("slice", 1, _range(a, c, config.vectors), ir.LoopKind.RANGE)
    else:
        a, scale, zero, c = parameters
        body = _sliced(a, scale, zero, c, config.chunk)
    program = ir.Program(parameters=parameters, body=body)
    return ScheduledProgram(nests=(program,), options=PassOptions())


def _range(a: ir.Buffer, c: ir.Buffer, vectors: int) -> ir.Block:
    """The extremes begin as 0, which is in every range."""
    step = vectors * ir.LANES
    steps, rest = divmod(a.size, step)
    extremes = [ir.local(name, step) for name in ("least", "most")]
    vector = ir.affine(vector=step) if steps > 1 else ir.ZERO

    def joined(op: ir.BinaryOp, left: ir.Expression, right: ir.Expression) -> ir.Expression:
        return ir.Binary(op=op, left=left, right=right)

    def terms() -> Iterator[ir.Store]:
        entry = ir.local("entry", ir.LANES)
        for at in range(0, step, ir.LANES):
            yield entry.store(0, a.vector(vector + at))
            for held, op in zip(extremes, EXTREMES, strict=True):
                yield held.store(at, joined(op, held.vector(at), entry.vector(0)))

    def found(held: ir.Buffer, op: ir.BinaryOp) -> ir.Expression:
        whole = ir.pairwise([held.vector(at) for at in range(0, step, ir.LANES)], op)
        lanes = [whole.extract(lane) for lane in range(ir.LANES)]
        others = [a[at] for at in range(a.size - rest, a.size)]
        return ir.pairwise([*lanes, *others], op)

    entry = ir.local("entry", ir.LANES)
    zeros = [
        held.store(at, ir.numbers(0.0)) for held in extremes for at in range(0, step, ir.LANES)
    ]
    body: ir.Block = (
        *zeros,
        *(ir.serial("vector", steps, tuple(terms())) if steps else ()),
        *(
            c.store(place, found(held, op))
            for place, (held, op) in enumerate(zip(extremes, EXTREMES, strict=True))
        ),
    )
    return ir.allocated((*extremes, entry), body)


def _sliced(a: ir.Buffer, scale: ir.Buffer, zero: ir.Buffer, c: ir.Buffer, chunk: int) -> ir.Loop:
    """The last slice has the vectors that are left, and words behind the last whole vector."""
    vectors, words = divmod(c.size, ir.LANES)
    slices = -(-vectors // chunk)
    held = ir.local("held", 2 * ir.LANES)
    first = ir.affine(slice=chunk)

    def whole(count: int) -> ir.Block:
        vector = first + (ir.variable("vector") if count > 1 else ir.ZERO)
        values = tuple(
            _steps(a.vector(vector * ENTRIES + at), held.vector(0), held.vector(ir.LANES))
            for at in range(0, ENTRIES, ir.LANES)
        )
        return ir.serial("vector", count, (c.store(vector * ir.LANES, ir.Bytes(values=values)),))

    def word(at: int) -> ir.Store:
        made: ir.Expression | None = None
        for place in range(PER_WORD):
            steps = _steps(a[at * PER_WORD + place], scale[0], zero[0].cast(DType.F32))
            byte = steps.max(0).min(MOST) << place * ACTIVATION_BITS
            made = byte if made is None else made | byte
        assert made is not None
        return c.store(at, made)

    rest = vectors - (slices - 1) * chunk
    last = (*whole(rest), *(word(at) for at in range(c.size - words, c.size)))
    body = last
    if slices > 1:
        body = ir.under((ir.variable("slice").below(slices - 1),), whole(chunk), last)
    before = (
        held.store(0, ir.splat(scale[0])),
        held.store(ir.LANES, ir.splat(zero[0].cast(DType.F32))),
    )
    nest = ir.allocated((held,), (*before, *body))
    return ir.loop("slice", slices, nest, ir.LoopKind.RANGE)


def _steps(value: ir.Expression, scale: ir.Expression, zero: ir.Expression) -> ir.Expression:
    steps = ir.call(ir.MathFunction.NEAREST, value / scale) + zero
    return steps.cast(DType.I32)

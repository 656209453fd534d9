"""The place of the largest of a[1, n] for WebGPU, the first of several.

    dispatch    parts workgroups, then one where there are several
    thread      entries place, place + parts · threads, …: the largest, and where it is; then pairs
                of threads, half as many each time, through workgroup memory

A thread meets places in rising order and keeps the first; of two threads with equal entries the
lower place is kept. Parts leave places as numbers of f32, which hold all that a workload may have.
"""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.decoding import LOWEST
from services.tuner import ir
from services.tuner.schedules.argmax.webgpu_config import WebgpuArgmaxConfig, count_of
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.search import Values, found, joining_threads

BEST, PLACE = ir.local("best", 1), ir.local("place", 1, DType.I32)


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuArgmaxConfig.of(candidate), candidate.workload
    count, (entries, output) = count_of(workload), parameters_of(workload)
    bests, places = (ir.scratch(name, config.parts) for name in ("bests", "places"))
    parts = config.parts > 1
    parameters = (entries, output, bests, places) if parts else (entries, output)

    def kept(part: ir.Affine) -> ir.Block:
        return bests.store(part, BEST[0]), places.store(part, PLACE[0].cast(DType.F32))

    def told(_: ir.Affine) -> ir.Block:
        return (output.store(0, PLACE[0]),)

    main = found(
        parameters,
        (config.parts, config.threads),
        count,
        (BEST, PLACE),
        _shared(config.parts, config.threads),
        (ir.number(LOWEST), ir.whole(count - 1)),
        lambda at: (entries[at], ir.value(at)),
        _better,
        kept if parts else told,
    )
    if not parts:
        return ScheduledProgram(nests=(main,))
    threads = joining_threads(config.parts, config.threads)
    last = found(
        parameters,
        (1, threads),
        config.parts,
        (BEST, PLACE),
        _shared(1, threads),
        (ir.number(LOWEST), ir.whole(config.parts - 1)),
        lambda at: (bests[at], places[at].cast(DType.I32)),
        _better,
        told,
    )
    return ScheduledProgram(nests=(main, last))


def _shared(groups: int, threads: int) -> tuple[ir.Buffer, ...]:
    return (
        ir.shared(f"shared_best{groups}", threads),
        ir.shared(f"shared_place{groups}", threads, DType.I32),
    )


def _better(values: Values, anywhere: bool) -> ir.Block:
    """The place first, as the condition reads the entry that was best so far. One that stands
    `anywhere` is better too where it is as large and before."""
    entry, place = values
    holds: ir.Expression = BEST[0].less(entry)
    if anywhere:
        holds = holds | BEST[0].equals(entry) & place.less(PLACE[0])
    return (
        PLACE.store(0, ir.select(holds, place, PLACE[0])),
        BEST.store(0, BEST[0].max(entry)),
    )

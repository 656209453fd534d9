"""The least and the largest entry of a for WebGPU, 0 among them.

dispatch    parts workgroups, then one that joins what they have found
thread      entries place, place + parts · threads, …; then pairs of threads, half as many each
            time, through workgroup memory
"""

from kernelzoo.domain.candidate import Candidate
from services.tuner import ir
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.search import Values, found, joining_threads
from services.tuner.schedules.quantisation.webgpu_config import WebgpuRangeConfig

EXTREMES = (ir.BinaryOp.MINIMUM, ir.BinaryOp.MAXIMUM)
OWN = (ir.local("least", 1), ir.local("most", 1))


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuRangeConfig.of(candidate), candidate.workload
    a, c = parameters_of(workload)
    leasts, mosts = (ir.scratch(name, config.parts) for name in ("leasts", "mosts"))
    parameters = (a, c, leasts, mosts)
    (least, most), zeros = (own[0] for own in OWN), (ir.number(0.0), ir.number(0.0))
    threads = joining_threads(config.parts, config.threads)
    parts = found(
        parameters,
        (config.parts, config.threads),
        a.size,
        OWN,
        _shared("part", config.threads),
        zeros,
        lambda at: (a[at], a[at]),
        _joined,
        lambda part: (leasts.store(part, least), mosts.store(part, most)),
    )
    whole = found(
        parameters,
        (1, threads),
        config.parts,
        OWN,
        _shared("whole", threads),
        zeros,
        lambda at: (leasts[at], mosts[at]),
        _joined,
        lambda _: (c.store(0, least), c.store(1, most)),
    )
    return ScheduledProgram(nests=(parts, whole))


def _shared(name: str, threads: int) -> tuple[ir.Buffer, ...]:
    return tuple(ir.shared(f"{own.name}_of_{name}", threads) for own in OWN)


def _joined(others: Values, _: bool) -> ir.Block:
    return tuple(
        own.store(0, ir.Binary(op=op, left=own[0], right=other))
        for own, op, other in zip(OWN, EXTREMES, others, strict=True)
    )

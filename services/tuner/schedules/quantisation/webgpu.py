"""The least and the largest entry of a for WebGPU, 0 among them.

dispatch    parts workgroups, then one that joins what they have found
thread      entries place, place + parts · threads, …; then pairs of threads, half as many each
            time, through workgroup memory
"""

from collections.abc import Callable

from kernelzoo.domain.candidate import Candidate
from services.tuner import ir
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantisation.webgpu_config import WebgpuRangeConfig

EXTREMES = (ir.BinaryOp.MINIMUM, ir.BinaryOp.MAXIMUM)
Both = tuple[ir.Expression, ir.Expression]


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuRangeConfig.of(candidate), candidate.workload
    a, c = parameters_of(workload)
    leasts, mosts = (ir.scratch(name, config.parts) for name in ("leasts", "mosts"))
    parameters = (a, c, leasts, mosts)
    threads = max(32, min(config.threads, 1 << (config.parts - 1).bit_length()))
    return ScheduledProgram(
        nests=(
            _search(
                "part",
                config.threads,
                config.parts,
                a.size,
                parameters,
                lambda at: (a[at], a[at]),
                lambda least, most, part: (leasts.store(part, least), mosts.store(part, most)),
            ),
            _search(
                "whole",
                threads,
                1,
                config.parts,
                parameters,
                lambda at: (leasts[at], mosts[at]),
                lambda least, most, _: (c.store(0, least), c.store(1, most)),
            ),
        )
    )


def _search(
    name: str,
    threads: int,
    groups: int,
    count: int,
    parameters: tuple[ir.Buffer, ...],
    read: Callable[[ir.Affine], Both],
    stored: Callable[[ir.Expression, ir.Expression, ir.Affine], ir.Block],
) -> ir.Program:
    """Finds the extremes of `count` entries by all threads of each workgroup; `stored` is what its
    first thread does with them."""
    frame = ir.Frame()
    group, thread = frame.variable("group", groups), frame.variable("thread", threads)
    own = tuple(ir.local(name, 1) for name in ("least", "most"))
    shared = tuple(ir.shared(f"{held.name}_of_{name}", threads) for held in own)
    inside = frame.nested()
    steps = -(-count // (threads * groups))
    at = (inside.variable("step", steps) * groups + group) * threads + thread
    exists = inside.undecided((at.below(count),))

    def joined(others: Both) -> ir.Block:
        return tuple(
            held.store(0, ir.Binary(op=op, left=held[0], right=other))
            for held, op, other in zip(own, EXTREMES, others, strict=True)
        )

    def told() -> ir.Block:
        return tuple(all_.store(thread, held[0]) for all_, held in zip(shared, own, strict=True))

    body: list[ir.Statement] = [
        *(held.store(0, ir.number(0.0)) for held in own),
        *ir.serial("step", steps, ir.under(exists, joined(read(at)))),
        *told(),
        ir.Barrier(),
    ]
    half = threads // 2
    while half:
        least, most = shared
        pair = joined((least[thread + half], most[thread + half]))
        body += (*ir.under((thread.below(half),), (*pair, *told())), ir.Barrier())
        half //= 2
    body += ir.under((thread.below(1),), stored(own[0][0], own[1][0], group))
    block = (ir.threads(threads, frame.enclose(ir.allocated(own, tuple(body)))),)
    return ir.program(parameters, "group", groups, ir.allocated(shared, block))

"""Transpositions for WebGPU: c[n, m] = a[m, n], tile by tile through workgroup memory.

Shapes, named by the settings of `WebgpuTransposeConfig`:

    dispatch    ⌈m / tile⌉ × ⌈n / tile⌉ workgroups: down, across
    workgroup   a[tile, tile], by (threads / tile) × tile threads: own, lane
    thread      elements [own + step · threads / tile, lane] of the tile, for each step

    workgroup memory    square[tile][tile + 1]: rows are one element longer, so that the elements of
                        a column, which threads side by side read, are in different banks

1. Threads side by side read a row of the tile from a, and keep it as a row.
2. Behind a barrier they read a column of the tile and write it to c as a row.

Of transpose:f32:m11n38 with tile=16 and threads=64:

    square[lane + own * 17u] = a[lane + own * 38u + …];     // 1, where row and column exist
    …
    workgroupBarrier();
    c[lane + own * 11u + …] = square[own + lane * 17u];     // 2, the same
"""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.transpose.webgpu_config import WebgpuTransposeConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    program = transpose_program(candidate.workload, WebgpuTransposeConfig.of(candidate))
    return ScheduledProgram(nests=(program,))


def transpose_program(workload: Workload, config: WebgpuTransposeConfig) -> ir.Program:
    """One dispatch; its parameters are a and c, flat."""
    a, c = parameters_of(workload)
    m, n, tile = workload.extent["m"], workload.extent["n"], config.tile
    memory = ir.shared("square", config.elements)
    steps = tile // config.rows
    down, across = -(-m // tile), -(-n // tile)

    frame = ir.Frame()
    group = frame.variable("group", down * across)
    digits = frame.delinearize(group, (("down", down), ("across", across)))
    top, left = (digit * tile for digit in digits)
    thread = frame.variable("thread", config.threads)
    own, lane = frame.delinearize(thread, (("own", config.rows), ("lane", tile)))
    frame.variable("step", steps)
    row = own + ir.affine(step=config.rows)

    def each_step(
        store: ir.Store, outer: ir.Affine, inner: ir.Affine, shape: tuple[int, int]
    ) -> ir.Block:
        """The store for every step, where [outer, inner] is inside of the shape."""
        limits = zip((outer, inner), shape, strict=True)
        bounds = frame.undecided(index.below(size) for index, size in limits)
        return (ir.unrolled("step", steps, *ir.under(bounds, (store,))),)

    # 1. square[row][lane] = a[top + row, left + lane]
    load = a[(top + row) * n + left + lane]
    keep = memory.store(row * (tile + 1) + lane, load)
    # 2. c[left + row, top + lane] = square[lane][row]
    kept = memory[lane * (tile + 1) + row]
    store = c.store((left + row) * m + top + lane, kept)
    body = (
        *each_step(keep, top + row, left + lane, (m, n)),
        ir.Barrier(),
        *each_step(store, left + row, top + lane, (n, m)),
    )

    return frame.dispatch((a, c), (down * across, config.threads), body, shared=(memory,))

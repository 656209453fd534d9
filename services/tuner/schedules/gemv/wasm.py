"""A contraction of few rows for wasm: one pass over b, which is read once, row after row.

Shapes, named by the settings of `WasmGemvConfig`:

    range         blocks of block_n columns
    block         sum[m, block_n], which stays in the first cache
    step          unroll_k rows of b, over all columns of the block
    loop body     c[m, 4 · vectors] += a[m, unroll_k] · b[unroll_k, 4 · vectors]

What it makes of matmul:f32:m2k6n32 with unroll_k=2, vectors=2 and block_n=16:

    for n2 < 2 range:
      sum[2, 16] = 0                                         4.
      for step < 3:                                          2. outside of columns
        for n1 < 2:
          sum[m, n] += a[m, 2·step] · b[2·step, n] + a[m, 2·step + 1] · b[2·step + 1, n]
                                                             1. n0 < 8 vector, m < 2 unrolled
"""

from dataclasses import replace
from functools import lru_cache, reduce
from operator import add

from kernelzoo.domain.candidate import Candidate
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.extents import Extents, round_up
from services.tuner.schedules.base.finish import finished, placeholders_of
from services.tuner.schedules.base.parameters import in_order
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.gemv.config import WasmGemvConfig
from services.tuner.tir.lowering import scheduled_program
from services.tuner.tir.tvm import Node, Schedule, te


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmGemvConfig.of(candidate)
    program = gemv_program(Extents.of(candidate.workload), config)
    nests = (in_order(program, candidate.workload),)
    return ScheduledProgram(nests=nests, options=PassOptions(fma=config.fma, vectors=1))


def gemv_program(extents: Extents, config: WasmGemvConfig) -> ir.Program:
    """The scheduled loop nest; its parameters are flat, with their true sizes."""
    whole = replace(extents, n=round_up(extents.n, config.block_n))
    schedule = _scheduled(_stated(whole, config.unroll_k), whole, config)
    return scheduled_program(schedule, extents.shapes, config.range_extent(extents))


@lru_cache(maxsize=256)
def _stated(extents: Extents, unroll_k: int) -> Node:
    """Every step of the sum adds `unroll_k` products, so that a sum is stored once a step."""
    a, b, *extra = placeholders_of(extents)
    step = te.reduce_axis((0, extents.k // unroll_k), name="step")

    def entry(m: Node, n: Node) -> Node:
        ks = [step * unroll_k + row for row in range(unroll_k)]
        products = [
            (a[k, m] if extents.a_transposed else a[m, k]) * b[k, n].astype("float32") for k in ks
        ]
        return te.sum(reduce(add, products), axis=step)

    name = "sum" if extents.epilogue else "c"
    c = te.compute((extents.m, extents.n), entry, name=name)
    if extents.epilogue:
        c = finished(extents.epilogue, c, tuple(extra))
    return te.create_prim_func([a, b, *extra, c])


def _scheduled(function: Node, whole: Extents, config: WasmGemvConfig) -> Node:
    # 1. Cut columns into blocks, and blocks into what one pass of the body takes.
    schedule = Schedule(function, debug_mask="none", enable_check=False)
    block = schedule.get_sblock("sum" if whole.epilogue else "c")
    m, n, step = schedule.get_loops(block)
    count = config.block_n // config.width
    n2, n1, n0 = schedule.split(n, [None, count, config.width], preserve_unit_iters=True)
    # 2. Steps stand outside of columns: rows of b are read one after another, each once.
    schedule.reorder(n2, step, n1, m, n0)
    schedule.vectorize(n0)
    schedule.unroll(m)
    # 3. The epilogue stores a block when all its steps are done.
    if whole.epilogue:
        store = schedule.get_sblock("c")
        schedule.reverse_compute_at(store, n2, preserve_unit_loops=True)
    # 4. Sums are set to zero before the first step.
    first = schedule.decompose_reduction(block, step)
    schedule.vectorize(schedule.get_loops(first)[-1])
    return schedule

"""Reads a buffer that is in no cache, each vector once."""

from services.tuner.ir.nodes import LANES, Program
from services.tuner.microbench.gpu.nests import (
    GROUPS,
    ZERO,
    affine,
    assign,
    load,
    place,
    program,
    sink,
    source,
    store,
    sum_of,
    vector,
)

THREADS = 64
BYTES = 1 << 27
"""The largest binding that every adapter has; larger than the caches of most."""

VECTORS = BYTES // (16 * GROUPS * THREADS)
"""Of one thread, a stride of all threads apart: neighbours read neighbours."""


def stream() -> Program:
    data = source(BYTES // 4)
    written = sink(GROUPS * THREADS)
    stride = LANES * GROUPS * THREADS
    totals = [vector(f"total{number}") for number in range(VECTORS)]
    reads = [
        assign(total, load(data, affine(stride * number, group=LANES * THREADS, thread=LANES)))
        for number, total in enumerate(totals)
    ]
    result = store(written, place(THREADS), sum_of(totals))
    return program((data, written), GROUPS, THREADS, (*reads, result))


def nothing() -> Program:
    """One workgroup that only writes."""
    data, written = source(LANES), sink(GROUPS * THREADS)
    return program((data, written), 1, THREADS, (store(written, place(THREADS), ZERO),))

"""Sums of products in registers alone: the limit of a GPU."""

from services.tuner.ir.nodes import LANES, Block, Program
from services.tuner.microbench.gpu.nests import (
    GROUPS,
    accumulate,
    affine,
    assign,
    load,
    place,
    program,
    read,
    serial,
    sink,
    source,
    store,
    sum_of,
    vector,
)

THREADS = 64
CHAINS = 16
"""Accumulators of a thread: 64 registers, and as many products that do not wait for each other."""

STEPS = 256
FLOPS = 2 * LANES * CHAINS * STEPS
"""Of one thread."""


def sums_of_products() -> Program:
    """Each chain starts at other data, or a compiler would see that they are equal."""
    data = source(LANES * THREADS * (CHAINS + 1))
    written = sink(GROUPS * THREADS)
    factor = vector("factor")
    chains = [vector(f"chain{number}") for number in range(CHAINS)]
    starts: Block = tuple(
        assign(register, load(data, affine(LANES * THREADS * number, thread=LANES)))
        for number, register in enumerate((factor, *chains))
    )
    step: Block = tuple(accumulate(chain, read(chain), read(factor)) for chain in chains)
    result = store(written, place(THREADS), sum_of(chains))
    body = (*starts, serial("step", STEPS, step), result)
    return program((data, written), GROUPS, THREADS, body)

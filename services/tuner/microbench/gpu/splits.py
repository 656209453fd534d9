"""A contraction of few blocks: each by one workgroup, or its k split among several and added."""

from dataclasses import replace

from msgspec import structs

from kernelzoo.domain.dtype import DType
from services.tuner.ir.nodes import LANES, Block, Buffer, Program, Scope
from services.tuner.microbench.gpu.nests import (
    affine,
    assign,
    load,
    place,
    program,
    sink,
    store,
    sum_of,
    vector,
)
from services.tuner.microbench.gpu.tiles import THREADS, TileLoop

BLOCKS = 16
"""Fewer than a large GPU has cores."""

PARTS = 4
WHOLE = TileLoop(k=1024, groups=BLOCKS)
FLOPS = WHOLE.flops * BLOCKS


def whole() -> tuple[Program, ...]:
    return (WHOLE.program(),)


def split() -> tuple[Program, ...]:
    """Sums of a quarter of k each go to scratch; a second dispatch adds four of them."""
    part = replace(WHOLE, k=WHOLE.k // PARTS, groups=BLOCKS * PARTS)
    size = LANES * THREADS * part.groups
    partial = Buffer(name="partial", scope=Scope.GLOBAL, dtype=DType.F32, size=size)
    first = part.program(into=partial)
    data = first.parameters[0]
    written = sink(THREADS * BLOCKS)
    sums = [vector(f"part{number}") for number in range(PARTS)]
    stride = LANES * THREADS * BLOCKS
    loads = [
        assign(one, load(partial, place(THREADS).plus(affine(stride * number))))
        for number, one in enumerate(sums)
    ]
    body: Block = (*loads, store(written, place(THREADS), sum_of(sums)))
    second = program((data, partial, written), BLOCKS, THREADS, body)
    return (structs.replace(first, parameters=(data, partial, written)), second)

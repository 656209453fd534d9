"""The lite space of recurrences on WebAssembly: rows to a slice, columns at once."""

from itertools import product

from kernelzoo.domain.operators.expressions import number
from kernelzoo.domain.operators.recurrence import step_count, step_product
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.rules import BASE_RANK, FEWEST_SLICES
from services.tuner.schedules.recurrence.config import (
    MAX_SUMS,
    WasmRecurrenceConfig,
    most_rows,
    slices,
)

VECTORS = (8, 6, 3, 2, 4, 12)
ROWS = (4, 2, 3, 1)
ROWS_FIRST = 4
"""Rows share the weights that they are multiplied with, which counts for more than how many columns
there are at once."""
FEWEST_STEPS = 8
"""Steps from which on a copy of the weights is less than a part of the work of the steps."""


def wasm_recurrence_configs(workload: Workload) -> tuple[WasmRecurrenceConfig, ...]:
    """Ordered by the sum of the ranks of their settings; first those with a slice for each of a few
    threads, where there are so many rows."""
    program = workload.program
    most = most_rows(program)
    rows = sorted(
        (count for count in ROWS if most % count == 0),
        key=lambda count: slices(program, count) < min(FEWEST_SLICES, slices(program, 1)),
    )
    products = [step_product(program, stage) for stage in program.stages]
    columns = [number(each.n[-1].extent) for each in products if each]
    vectors = [count for count in VECTORS if count * ir.LANES <= max(columns, default=0)] or [1]
    # Columns that are no whole vectors are packed anyway.
    always = step_count(program) >= FEWEST_STEPS or any(n % ir.LANES for n in columns)
    packs = ((True,) if always else (False, True)) if columns else (False,)
    ranked: dict[WasmRecurrenceConfig, int] = {}
    for (row_rank, count), (rank, width), fma, packed in product(
        enumerate(rows), enumerate(vectors), (True, False), packs
    ):
        if count * width > MAX_SUMS:
            continue
        config = WasmRecurrenceConfig(rows=count, vectors=width, packs=packed, fma=fma)
        rank_of_fma = 0 if fma else BASE_RANK
        ranked[config] = ROWS_FIRST * row_rank + rank + rank_of_fma + packs.index(packed)
    return tuple(sorted(ranked, key=ranked.__getitem__))

"""The lite space of recurrences on WebAssembly: rows to a slice, columns at once."""

from kernelzoo.domain.operators.expressions import number
from kernelzoo.domain.operators.recurrence import step_count, step_product
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.ranking import by_rank, ranked
from services.tuner.schedules.base.rules import BASE_RANK, FEWEST_SLICES
from services.tuner.schedules.recurrence.config import (
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
    points = (
        (WasmRecurrenceConfig(rows=count, vectors=width, packs=packed, fma=fma), rank)
        for rank, count, width, fma, packed in ranked(
            rows, vectors, (True, False), packs, weights=(ROWS_FIRST, 1, BASE_RANK, 1)
        )
    )
    return by_rank(points, workload)

"""The lite space of recurrences on WebAssembly: rows to a slice, columns at once."""

from itertools import product

from kernelzoo.domain.operators.recurrence import step_count
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.rules import BASE_RANK
from services.tuner.schedules.recurrence.config import MAX_SUMS, WasmRecurrenceConfig, most_rows

VECTORS = (8, 6, 3, 2, 4, 12)
ROWS = (4, 2, 3, 1)
ROWS_FIRST = 4
"""Rows share the weights that they are multiplied with: four of them, two vectors each, are three
times as fast as one of eight (8 rows of 128, wasmtime, Zen 5)."""
FEWEST_STEPS = 8
"""Steps from which on a copy of the weights is less than a part of the work of the steps."""


def wasm_recurrence_configs(workload: Workload) -> tuple[WasmRecurrenceConfig, ...]:
    """Ordered by the sum of the ranks of their settings."""
    program = workload.program
    most = most_rows(program)
    rows = [count for count in ROWS if most % count == 0]
    packs = (True,) if step_count(program) >= FEWEST_STEPS else (False, True)
    ranked: dict[WasmRecurrenceConfig, int] = {}
    for (row_rank, count), (rank, vectors), fma, packed in product(
        enumerate(rows), enumerate(VECTORS), (True, False), packs
    ):
        if count * vectors > MAX_SUMS:
            continue
        config = WasmRecurrenceConfig(rows=count, vectors=vectors, packs=packed, fma=fma)
        ranked[config] = (
            ROWS_FIRST * row_rank + rank + (0 if fma else BASE_RANK) + packs.index(packed)
        )
    return tuple(sorted(ranked, key=ranked.__getitem__))

"""The lite space of operators on rows: vectors in a sum, rows in a slice."""

from kernelzoo.domain.operators.expressions import Reducer
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.ranking import by_rank, ranked
from services.tuner.schedules.base.rules import SLICES_WANTED
from services.tuner.schedules.reduction.config import WasmReductionConfig
from services.tuner.schedules.reduction.rows import Rows, rows_of

VECTORS = (4, 2, 8, 1)
"""Vectors summed at once: an addition takes three to four cycles, two start in each."""
VECTORS_OF_EXTREMES = (8, 4, 2, 1)
"""Vectors at once for an extreme of a long row that keeps NaN: one takes three instructions, two
of which wait for the vector before. Eight take 0.70 of the time of four for rows of 3136, 0.87 for
rows of 768, and 1.13 for rows of 49 (Chromium 156, Intel Xeon)."""
LONG_ROW = 256

BLOCK_M = (1, 4, 16)
"""Rows to a slice of the range."""


def wasm_reduction_configs(workload: Workload) -> tuple[WasmReductionConfig, ...]:
    """Ordered by the sum of the ranks of their settings. Plain sums have no products to round."""
    rows = rows_of(workload)
    preferred = VECTORS_OF_EXTREMES if _waits_for_extremes(rows) else VECTORS
    vectors = [v for v in preferred if ir.LANES * (v - 1) < rows.n]
    most = max(1, rows.slices // SLICES_WANTED)
    blocks = [b for b in BLOCK_M if rows.slices % b == 0 and b <= most]
    roundings = (True, False) if rows.multiplies else (False,)
    points = (
        (WasmReductionConfig(vectors=count, block_m=block, fma=fma), rank)
        for rank, fma, block, count in ranked(roundings, blocks, vectors)
    )
    return by_rank(points, workload)


def _waits_for_extremes(rows: Rows) -> bool:
    extremes = (each for each in rows.passes if each.reducer in (Reducer.MAX, Reducer.MIN))
    return rows.n >= LONG_ROW and not all(map(rows.may_drop_nan, extremes))

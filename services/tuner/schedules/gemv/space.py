"""The lite space of contractions with few rows: passes over b, of several heights and widths."""

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import Extents, round_up
from services.tuner.schedules.base.ranking import by_rank, ranked
from services.tuner.schedules.base.rules import BASE_RANK, FEWEST_SLICES
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.gemv.config import WasmGemvConfig
from services.tuner.schedules.matmul.config import WasmMatmulConfig
from services.tuner.schedules.matmul.space import tile_configs

UNROLL_K = (16, 8, 4, 2, 1)
"""Rows of b to a step: for 1x768x50257, 30, 25 and 22 GB/s with 16, 8 and 4, and 16 GB/s by a loop
nest with its sums in registers, which jumps from row to row (V8 11.3, Zen 4)."""

VECTORS = (4, 2)
"""Vectors of columns at once: entries of a are read again for each."""

BLOCK_N = (4096, 2048, 1024)
"""Columns whose sums stay in the first cache: 16 KiB for a row of them, 7 to 15 % above 8 KiB."""

TILES_BESIDE = 6
"""Register tiles that are offered beside them."""

CONFIGS_AFTER_PANELS = 12
"""Passes over b as it is, where tiles that read b in panels stand before them: panels are streamed
as well, and sums stay in registers (1x768x3072: 0.08 ms against 0.12; V8 14.6, Zen 5)."""


def wasm_gemv_configs(workload: Workload) -> tuple[WasmMatmulConfig | WasmGemvConfig, ...]:
    """Passes over b before some register tiles, after those that read b in panels."""
    extents = Extents.of(workload)
    tiles = tile_configs(extents)
    panels = [config for config in tiles if config.pack is Pack.PREPACKED]
    streams = _streams(extents, workload)[: CONFIGS_AFTER_PANELS if panels else None]
    others = [config for config in tiles if config.pack is not Pack.PREPACKED][:TILES_BESIDE]
    return (*panels, *streams, *others)


def _streams(extents: Extents, workload: Workload) -> tuple[WasmGemvConfig, ...]:
    """Ordered by the sum of the ranks of their settings."""
    rows = [count for count in UNROLL_K if extents.k % count == 0][:3]
    widest = max(VECTORS) * ir.LANES
    narrow = round_up(-(-extents.n // FEWEST_SLICES), widest)
    blocks = [b for b in BLOCK_N if b * FEWEST_SLICES <= extents.n] or [narrow]
    points = (
        (WasmGemvConfig(unroll_k=count, vectors=vectors, block_n=block, fma=fma), rank)
        for rank, count, vectors, block, fma in ranked(
            rows, VECTORS, blocks, (True, False), weights=(1, 2, 1, BASE_RANK)
        )
    )
    return by_rank(points, workload)

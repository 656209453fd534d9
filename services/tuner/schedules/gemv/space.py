"""The lite space of contractions with few rows: passes over b, of several heights and widths."""

from itertools import product

from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import LANES
from services.tuner.schedules.base.extents import Extents, round_up
from services.tuner.schedules.base.rules import (
    BASE_RANK,
    FEWEST_SLICES,
    STREAM_BLOCKS,
    STREAM_OTHERS,
    STREAM_ROWS,
    STREAM_VECTORS,
    STREAMS_AFTER_PANELS,
)
from services.tuner.schedules.gemv.config import StreamConfig
from services.tuner.schedules.matmul.config import ContractionConfig, Pack
from services.tuner.schedules.matmul.space import lite_configs


def streams_and_tiles(workload: Workload) -> tuple[ContractionConfig | StreamConfig, ...]:
    """Passes over b before some register tiles, after those that read b in panels."""
    extents = Extents.of(workload)
    tiles = lite_configs(extents)
    panels = [config for config in tiles if config.pack is Pack.BEFORE]
    streams = stream_configs(extents)[: STREAMS_AFTER_PANELS if panels else None]
    others = [config for config in tiles if config.pack is not Pack.BEFORE][:STREAM_OTHERS]
    return (*panels, *streams, *others)


def stream_configs(extents: Extents) -> tuple[StreamConfig, ...]:
    """Ordered by the sum of the ranks of their settings."""
    rows = [count for count in STREAM_ROWS if extents.k % count == 0][:3]
    widest = max(STREAM_VECTORS) * LANES
    narrow = round_up(-(-extents.n // FEWEST_SLICES), widest)
    blocks = [b for b in STREAM_BLOCKS if b * FEWEST_SLICES <= extents.n] or [narrow]
    ranked: dict[StreamConfig, int] = {}
    for (row_rank, count), (rank, vectors), (block_rank, block), fma in product(
        enumerate(rows), enumerate(STREAM_VECTORS), enumerate(blocks), (True, False)
    ):
        config = StreamConfig(unroll_k=count, vectors=vectors, block_n=block, fma=fma)
        ranked[config] = row_rank + 2 * rank + block_rank + (0 if fma else BASE_RANK)
    return tuple(sorted(ranked, key=ranked.__getitem__))

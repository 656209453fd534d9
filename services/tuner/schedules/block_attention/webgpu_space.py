"""The lite space of attention of a block: rows to a workgroup, threads to a row, and in turns with
these the tiles of another family, whose threads share keys and values.

What is likely the best comes first: an estimate of what a core does for a token, fitted to 96
kernels of three shapes on an H200, right to 10 %.
"""

from dataclasses import replace
from itertools import product

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.operators.decoding import LANES, AttentionShape
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.attention.webgpu_space import sharing_queries
from services.tuner.schedules.base.limits import FEW_LANES
from services.tuner.schedules.base.webgpu_config import WebgpuConfig
from services.tuner.schedules.base.webgpu_space import in_turns, plain_first
from services.tuner.schedules.block_attention.webgpu_config import (
    WebgpuBlockAttentionConfig,
    WebgpuTiledBlockAttentionConfig,
    shape_of,
)

BLOCKS = (16, 32, 8, 64, 4, 2)
THREADS_PER_ROW = (4, 8, 16, 2, 32, 1)
MOST_TILED = 24
SEEN = 4
"""A row sees one part in so many of the cache, or so."""

LOAD, QUERY = 18.0, 9.0
"""A vector from storage, and one of a query from workgroup memory, take a core as long as so many
multiply-adds of a warp."""
SOFTMAX = 55.0
"""So does a score beside its products."""
MERGED = 180.0
"""So does a vector of an output of each thread that is added up, of eight at the most."""
WARPS_WANTED = 5
"""Warps of a core that hide what each of them waits for."""


def block_attention_configs(workload: Workload, gpu: GpuModel) -> tuple[WebgpuConfig, ...]:
    """The first requires nothing."""
    shape, rows = shape_of(workload)
    apart = _apart(shape, rows, workload, gpu)
    if gpu.warp_lanes < FEW_LANES:
        return plain_first(apart, workload, gpu)
    kind = WebgpuTiledBlockAttentionConfig
    seen = replace(kind.given(workload), n=max(rows, shape.length // SEEN))
    tiled = in_turns(*sharing_queries(kind, seen, workload, gpu))
    found: tuple[WebgpuConfig, ...] = in_turns(apart, tiled[:MOST_TILED])
    return plain_first(found, workload, gpu)


def _apart(
    shape: AttentionShape, rows: int, workload: Workload, gpu: GpuModel
) -> tuple[WebgpuConfig, ...]:
    """Each thread has tokens of one row by itself."""
    ranked: dict[WebgpuConfig, float] = {}
    for (m_rank, block_m), (row_rank, per_row), subgroups in product(
        enumerate(BLOCKS), enumerate(THREADS_PER_ROW), (True, False)
    ):
        config = WebgpuBlockAttentionConfig(
            block_m=block_m, threads_per_row=per_row, subgroups=subgroups
        )
        if config.fault(workload) or not config.fits(workload):
            continue
        if gpu.warp_lanes < FEW_LANES:
            wasted = block_m >= 2 * rows
            ranked[config] = m_rank + row_rank + (not subgroups) + 4 * wasted
        else:
            ranked[config] = _estimate(shape, rows, config, gpu)
    return tuple(sorted(ranked, key=ranked.__getitem__))


def _estimate(
    shape: AttentionShape, rows: int, config: WebgpuBlockAttentionConfig, gpu: GpuModel
) -> float:
    """Grows with the time of the kernel."""
    quads = shape.head_dim / LANES
    token = quads * (2 * LOAD + QUERY + 2 * LANES) + SOFTMAX
    tokens = max(rows, shape.span / SEEN) / config.threads_per_row
    ending = quads * MERGED * min(config.threads_per_row, 8)
    workgroups = shape.heads * -(-rows // config.block_m)
    warps = -(-config.threads // gpu.warp_lanes)
    of_core = -(-workgroups // gpu.cores)
    resident = min(of_core * warps, gpu.warps)
    return of_core * warps * (tokens * token + ending) * (1 + WARPS_WANTED / resident)

"""The lite space of attention for WebGPU: queries and keys to a workgroup, threads to a query.

What is likely the best comes first: an estimate of what a core does for each product, and of how
many threads it has to hide what they wait for.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeVar

from kernelzoo.domain.gpu import SOFTWARE_DRIVER, GpuModel
from kernelzoo.domain.operators.attention import LANES, ManyRowsAttention
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.attention.config import attends
from services.tuner.schedules.attention.webgpu_config import (
    WebgpuAttentionConfig,
    WebgpuSplitAttentionConfig,
)
from services.tuner.schedules.base.limits import FEW_LANES
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.base.webgpu_space import in_turns, plain_first

MOST_CANDIDATES = 24
MOST_OF_WHOLE_ROUNDS = 14
MOST_SPLIT = 20
TILES = ((4, 2), (4, 4), (8, 2), (4, 1), (8, 4), (8, 1))
"""tile_m x tile_n."""
THREAD_ROWS = (1, 2, 4, 8, 16)
THREADS_PER_ROW = (8, 16, 4, 32)
SLICED_N = (1, 2, 4, 8)
ROUND_ROWS = (3, 6, 9, 10)
ROUND_SLICED_N = (2, 3, 4, 6)
"""Settings that are no powers of two have places of their own: with nine times four queries the
384 of 12 heads, as 1,500 of 6, are whole rounds of a large GPU's 132 cores."""
SPLIT_TILES = ((4, 4), (8, 2), (8, 4))
SPLIT_ROWS = (4, 6, 7, 8, 12, 16)
SPLIT_THREADS_PER_ROW = (4, 8, 16)
SPLIT_SLICED_N = (1, 2)
SPLIT_N = (2, 3, 4, 5, 6, 7, 8, 10, 12)
"""Large tiles read less of workgroup memory for each product, and leave so few workgroups that
several have to share the keys of a query."""
PROCESSOR_TILES = ((1, 4), (2, 4), (1, 8), (4, 4), (2, 8))
PROCESSOR_THREADS = (32, 64)
"""A thread has its queries for itself where threads wait at barriers one after another."""

LOAD = 8.0
"""A vector from workgroup memory takes a core as long as so many multiply-adds of a warp: between
those of four threads that read one vector and of 32 that read as many."""
FROM_STORAGE = 8.0
"""One from storage takes so many times as long."""
EXCHANGE = 8
"""A step of a sum over threads takes so many times as long through workgroup memory."""
SOFTMAX = 12.0
"""A score takes so many operations beside its products: its power, the largest, the sum."""
JOINED = 16_000.0
"""The dispatch that joins parts takes as long as so many multiply-adds of a core's warps, beside
what it reads."""
MOST_WORKGROUP_BYTES = 49_152
"""NVIDIA's drivers offer so much."""
WARPS_WANTED = 12
"""Warps of a core that hide what each of them waits for."""


def webgpu_attention_configs(
    workload: Workload, gpu: GpuModel
) -> tuple[WebgpuAttentionConfig, ...]:
    """None is refused. The first requires no more than the workload itself does, and there is one
    that any driver compiles."""
    given = attends(workload)
    apart = [one for one in _apart(given) if _fits(one, workload)]
    together, rounds = sharing_queries(WebgpuAttentionConfig, given, workload, gpu)
    processor = gpu.warp_lanes < FEW_LANES
    whole = in_turns(together[:MOST_CANDIDATES], rounds[:MOST_OF_WHOLE_ROUNDS])
    large = in_turns(whole, _split(given, workload, gpu)[:MOST_SPLIT])
    found = apart if processor and apart else large
    small = next(one for one in (*together, *apart) if _is_small(one, workload))
    return plain_first(tuple(dict.fromkeys((*found, small))), workload, gpu)


C = TypeVar("C", bound=WebgpuAttentionConfig)


def sharing_queries(
    kind: type[C], given: ManyRowsAttention, workload: Workload, gpu: GpuModel
) -> tuple[list[C], list[C]]:
    """Configs in which threads share queries, the likely best first: those of powers of two, and
    those of whole rounds."""

    def best(thread_rows: Sequence[int], slices: Sequence[int]) -> list[C]:
        configs = _together(kind, given, thread_rows, slices)
        fitting = (one for one in configs if _fits(one, workload))
        return sorted(fitting, key=lambda one: _estimate(given, workload, one, gpu))

    return best(THREAD_ROWS, SLICED_N), best(ROUND_ROWS, ROUND_SLICED_N)


def _split(
    given: ManyRowsAttention, workload: Workload, gpu: GpuModel
) -> list[WebgpuSplitAttentionConfig]:
    """Configs in which workgroups share the keys, the likely best first."""
    configs = (
        WebgpuSplitAttentionConfig(
            block_m=tile_m * rows,
            block_n=tile_n * per_row * sliced_n,
            tile_m=tile_m,
            threads_per_row=per_row,
            sliced_n=sliced_n,
            cache=Cache.ROWS,
            subgroups=True,
            split_n=split_n,
        )
        for (tile_m, tile_n), rows, per_row, sliced_n, split_n in product(
            SPLIT_TILES, SPLIT_ROWS, SPLIT_THREADS_PER_ROW, SPLIT_SLICED_N, SPLIT_N
        )
        if tile_m * rows < 2 * given.m
    )
    fitting = (one for one in configs if _fits(one, workload))
    return sorted(fitting, key=lambda one: _estimate(given, workload, one, gpu))


def _is_small(config: WebgpuAttentionConfig, workload: Workload) -> bool:
    memory = config.workgroup_bytes_for(workload)
    return not config.requires(workload) and memory <= SOFTWARE_DRIVER.workgroup_bytes


def _fits(config: WebgpuAttentionConfig, workload: Workload) -> bool:
    if config.fault(workload):
        return False
    return config.workgroup_bytes_for(workload) <= MOST_WORKGROUP_BYTES


def _together(
    kind: type[C], given: ManyRowsAttention, thread_rows: Sequence[int], slices: Sequence[int]
) -> Iterator[C]:
    """Threads share queries."""
    for tile, rows, per_row, sliced_n, cache, subgroups in product(
        TILES, thread_rows, THREADS_PER_ROW, slices, (Cache.ROWS, Cache.NONE), (True, False)
    ):
        block_n = tile[1] * per_row * sliced_n
        if block_n <= max(given.n, per_row) and tile[0] * rows < 2 * given.m:
            yield kind(
                block_m=tile[0] * rows,
                block_n=block_n,
                tile_m=tile[0],
                threads_per_row=per_row,
                sliced_n=sliced_n,
                cache=cache,
                subgroups=subgroups,
            )


def _apart(given: ManyRowsAttention) -> Iterator[WebgpuAttentionConfig]:
    """No thread waits for another."""
    for (tile_m, tile_n), threads in product(PROCESSOR_TILES, PROCESSOR_THREADS):
        if tile_n <= given.n:
            yield WebgpuAttentionConfig(
                block_m=tile_m * threads,
                block_n=tile_n,
                tile_m=tile_m,
                threads_per_row=1,
                sliced_n=1,
                cache=Cache.NONE,
                subgroups=False,
            )


def _estimate(
    given: ManyRowsAttention, workload: Workload, config: WebgpuAttentionConfig, gpu: GpuModel
) -> float:
    """Grows with the time of the kernel."""
    outputs = config.outputs(given)
    scores = config.tile_m * config.tile_n
    products = scores * given.head_dim + config.tile_m * config.slice_n * outputs * LANES
    tile_rows = config.tile_m + config.tile_n
    read = tile_rows * given.head_dim // LANES
    read += config.slice_n * (config.tile_m // LANES + outputs)
    steps = 2 * config.threads_per_row.bit_length() * (1 if config.subgroups else EXCHANGE)
    softmax = SOFTMAX * scores + config.tile_m * (outputs * LANES + steps)
    copied = config.block_n * (given.head_dim + given.width) / (LANES * config.threads)
    load = LOAD
    if config.cache is Cache.NONE:
        copied, load = 0, FROM_STORAGE * LOAD
    block = products + load * (read + copied) + softmax
    blocks = config.blocks(given)
    # Queries are read and slices added up once.
    once = load * (config.sliced_n - 1) * config.tile_m * outputs * 3
    workgroups = given.heads * -(-given.m // config.block_m) * config.parts
    warps = -(-config.threads // gpu.warp_lanes)
    of_core = -(-workgroups // gpu.cores)
    fitting = max(1, gpu.shared_bytes // max(1, config.workgroup_bytes_for(workload)))
    resident = min(of_core, fitting) * warps
    held = scores + (config.tile_m + 1) * outputs * LANES + LANES * (config.tile_m + 1) + 32
    spilt = max(1.0, held / gpu.thread_registers)
    whole = of_core * warps * (block * blocks + once) * (1 + WARPS_WANTED / resident) * spilt
    if config.parts == 1:
        return whole
    read_again = given.m * given.heads * given.width / LANES * config.parts
    return whole + JOINED + FROM_STORAGE * LOAD * read_again / (gpu.cores * gpu.warp_lanes)

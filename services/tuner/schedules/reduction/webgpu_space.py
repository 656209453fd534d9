"""The lite space of row-wise operators on WebGPU: threads per row, rows, ways to reduce."""

from collections.abc import Iterator
from itertools import product
from math import log2

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.limits import FEW_LANES
from services.tuner.schedules.base.ranking import by_rank
from services.tuner.schedules.reduction.rows import rows_of
from services.tuner.schedules.reduction.webgpu_config import (
    MAX_VECTORS,
    WebgpuReductionConfig,
    width_of,
)

VECTORS_WANTED = 4
"""Units of a row to a thread, where rows are enough for all: loads in flight, few exchanges."""

THREADS_PER_ROW = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
NEIGHBOURS = 4
"""So many times twice or half as many threads per row as the likely best are tried."""

WORKGROUPS = (128, 64, 256)
WORKGROUP_RANK = 0.5
"""The number of rows that share a workgroup matters less than how many threads share a row
(H200)."""

RADICES = (8, 32, 4)
STREAMED = (4, 2, 1)
"""Vectors at a time of a row that does not stay in registers: it is read again for each sum."""

READ_AGAIN = 2
"""Rank of reading a row again where it could stay: fewer registers, more threads on a core."""

MOST_CANDIDATES = 40


def reduction_configs(workload: Workload, gpu: GpuModel) -> tuple[WebgpuReductionConfig, ...]:
    """Ordered by the sum of the ranks of their settings; the first requires nothing."""
    found = by_rank(_points(workload, gpu), workload)[:MOST_CANDIDATES]
    plain = next(config for config in found if not config.subgroups and config.threads <= 256)
    return (plain, *(config for config in found if config != plain))


def _points(workload: Workload, gpu: GpuModel) -> Iterator[tuple[WebgpuReductionConfig, float]]:
    rows = rows_of(workload)
    units = rows.n // width_of(workload)
    best = _likely(workload, units, gpu)
    for threads in THREADS_PER_ROW:
        away = abs(log2(threads / best))
        if away > NEIGHBOURS or threads > 2 * units:
            continue
        for (size_rank, size), (way_rank, (radix, subgroups)), (again, vectors) in product(
            enumerate(WORKGROUPS), enumerate(_ways(threads)), _vectors(-(-units // threads))
        ):
            block = max(1, min(size // threads, rows.m))
            yield (
                WebgpuReductionConfig(
                    threads_per_row=threads,
                    block_m=block,
                    vectors=vectors,
                    radix=radix,
                    subgroups=subgroups,
                ),
                away + WORKGROUP_RANK * size_rank + way_rank + again,
            )


def _vectors(fit: int) -> list[tuple[int, int]]:
    """Ranks, and vectors to a thread at a time: the whole row first, where registers hold it."""
    parts = [count for count in STREAMED if count < fit]
    if fit > MAX_VECTORS:
        return list(enumerate(parts))
    return [(0, fit), *enumerate(parts, READ_AGAIN)]


def _ways(threads: int) -> list[tuple[int, bool]]:
    """By workgroup memory first: the fastest on an H200, which has subgroups."""
    if threads == 1:
        return [(1, False)]
    first, *others = dict.fromkeys(min(radix, threads) for radix in RADICES)
    return [(first, False), (1, True), *((radix, False) for radix in others)]


def _likely(workload: Workload, units: int, gpu: GpuModel) -> int:
    """Threads to a row: enough to give every thread of the GPU one vector, or a thread as many as
    are wanted. On a processor the threads of a row are one vector of its own."""
    if gpu.warp_lanes < FEW_LANES:
        return min(gpu.warp_lanes, _power_up(units))
    threads = gpu.cores * gpu.warps * gpu.warp_lanes // 2
    share = min(VECTORS_WANTED, max(1, units * rows_of(workload).m // threads))
    return min(THREADS_PER_ROW[-1], _power_up(-(-units // share)))


def _power_up(count: int) -> int:
    return 1 << (count - 1).bit_length()

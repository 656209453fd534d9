"""The lite space of products of few rows with quantised weights: threads per row, rows, blocks."""

from collections.abc import Iterator
from itertools import product
from math import log2

from kernelzoo.domain.gpu import SOFTWARE_DRIVER, GpuModel
from kernelzoo.domain.operators.quantised import ROW_STEP
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.quantised import quantised_product_of
from services.tuner.schedules.base.ranking import by_rank
from services.tuner.schedules.quantised_gemv.webgpu_config import WebgpuQuantisedGemvConfig

MOST_PLAIN, MOST_OTHERS = 28, 40
"""So many candidates require nothing, and so many do: a device without subgroups has a space of its
own."""
THREADS = (64, 128, 256, 32)
TILES = (2, 1, 4, 8)
THREADS_PER_ROW = (32, 16, 64, 8, 128, 256, 4)
FEW_THREADS, FEW_SUMS = 64, 8
"""A driver without a GPU compiles these in a second or two: it writes the zeros of workgroup memory
by an instruction for each word."""
FEW_STAGED, MANY_STAGED = 1024, 4096
"""Activations of a row in workgroup memory: what any driver compiles, and all of most rows."""


def quantised_gemv_configs(
    workload: Workload, gpu: GpuModel
) -> tuple[WebgpuQuantisedGemvConfig, ...]:
    """Ordered by the sum of the ranks of their settings."""
    found = [
        one
        for one in by_rank(_points(workload, gpu), workload)
        if one.fits(workload) and (gpu.driver is not SOFTWARE_DRIVER or _is_small(one, workload))
    ]
    plain = next(one for one in found if not one.requires(workload) and _is_small(one, workload))
    needs = {one: bool(one.requires(workload)) for one in found}
    kept = {
        *[one for one in found if not needs[one]][:MOST_PLAIN],
        *[one for one in found if needs[one]][:MOST_OTHERS],
    }
    return (plain, *(one for one in found if one in kept and one != plain))


def _points(workload: Workload, gpu: GpuModel) -> Iterator[tuple[WebgpuQuantisedGemvConfig, float]]:
    operands = quantised_product_of(workload)
    blocks = operands.k // ROW_STEP
    best = min(max(4, gpu.warp_lanes), 1 << (blocks - 1).bit_length())
    for threads_per_row, (size_rank, threads), (tile_rank, tile_n), (
        staged_rank,
        block_k,
    ), group in product(
        THREADS_PER_ROW,
        enumerate(THREADS),
        enumerate(TILES),
        _staged(operands.k, operands.m),
        (True, False),
    ):
        if threads_per_row > min(threads, max(2 * blocks, min(THREADS_PER_ROW))):
            continue
        away = abs(log2(threads_per_row / best))
        config = WebgpuQuantisedGemvConfig(
            threads=threads,
            threads_per_row=threads_per_row,
            tile_n=tile_n,
            block_k=block_k,
            subgroups=group,
        )
        rank = away + 0.5 * size_rank + 0.75 * tile_rank + staged_rank + 1.25 * (not group)
        yield config, rank + (config.block_n > operands.n)


def _staged(k: int, m: int) -> list[tuple[float, int]]:
    """Parts of a row with their ranks: all of it where it fits, the longest part that every driver
    compiles, one stretch for rows of any length, and nothing of a single row."""
    parts = [k // n for n in range(1, k // ROW_STEP + 1) if not k % (n * ROW_STEP)]
    many = next(part for part in parts if part * m <= max(MANY_STAGED, ROW_STEP * m))
    few = next(part for part in parts if part * m <= max(FEW_STAGED, ROW_STEP * m))
    least = next(part for part in parts if part * m <= max(FEW_STAGED // 4, ROW_STEP * m))
    found = [(1.5 * rank, part) for rank, part in enumerate(dict.fromkeys((many, few, least)))]
    return found if m > 1 else [*found, (0.25, 0)]


def _is_small(config: WebgpuQuantisedGemvConfig, workload: Workload) -> bool:
    """Returns whether a driver without a GPU compiles it soon."""
    return (
        config.workgroup_bytes_for(workload) <= SOFTWARE_DRIVER.workgroup_bytes
        and config.threads <= FEW_THREADS
        and (config.tile_n == 1 or config.sums(workload) <= FEW_SUMS)
    )

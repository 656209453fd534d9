"""The lite space of products of many rows with quantised weights: register tiles, and rows of
weights to a slice."""

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.quantised import quantised_product_of
from services.tuner.schedules.base.ranking import by_rank, ranked
from services.tuner.schedules.quantised_matmul.config import WasmQuantisedMatmulConfig

TILES = ((6, 8), (4, 8), (3, 8), (6, 4), (4, 4), (3, 4))
"""tile_m x tile_n, as of products of matrices; with a gate each tile is twice as wide."""
BLOCK_N = (8, 16, 32, 4)
"""Rows of the weights to a slice: as f32 they are to stay in the second cache."""
UNROLL_K = (2, 4)
CONFIGS = 24


def wasm_quantised_matmul_configs(workload: Workload) -> tuple[WasmQuantisedMatmulConfig, ...]:
    """Ordered by the sum of the ranks of their settings."""
    given = quantised_product_of(workload)
    points = (
        (
            WasmQuantisedMatmulConfig(
                tile_m=min(tile_m, given.m), tile_n=tile_n, block_n=block, unroll_k=unroll, fma=fma
            ),
            rank,
        )
        for rank, (tile_m, tile_n), block, unroll, fma in ranked(
            TILES, BLOCK_N, UNROLL_K, (True, False)
        )
    )
    return by_rank(points, workload)[:CONFIGS]

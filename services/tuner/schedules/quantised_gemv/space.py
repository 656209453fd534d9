"""The lite space of products of few rows with quantised weights: rows at once, rows to a slice."""

from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.quantised import quantised_product_of
from services.tuner.schedules.base.ranking import by_rank, ranked
from services.tuner.schedules.quantised_gemv.config import WasmQuantisedGemvConfig

TILE_N = (1, 2, 4)
SUMS = 2
"""Sums at once: 28 GFLOP/s with two rows of 576 weights of 4 bits, 25 with one, and 18 with four,
as V8 runs out of registers (Zen 5)."""
BLOCK_N = (128, 64, 256, 32, 16, 8, 4)
"""Rows to a slice: a few dozen slices for threads to share, each long beside what it does to the
activations."""
SLICES = 2
SIZES = 3


def wasm_quantised_gemv_configs(workload: Workload) -> tuple[WasmQuantisedGemvConfig, ...]:
    """Ordered by the sum of the ranks of their settings."""
    given = quantised_product_of(workload)
    n = given.n
    tiles = sorted(TILE_N, key=lambda tile: abs(tile * len(given.weights) * given.m - SUMS))
    blocks = [block for block in BLOCK_N if n % block == 0]
    shared = [block for block in blocks if n >= SLICES * block] or blocks
    points = (
        (WasmQuantisedGemvConfig(tile_n=tile_n, block_n=block, fma=fma), rank)
        for rank, tile_n, block, fma in ranked(tiles, shared[:SIZES], (True, False))
    )
    return by_rank(points, workload)

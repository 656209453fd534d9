"""The lite space of attention: register tiles, and rows of scores to a block."""

from collections.abc import Iterator
from itertools import product

from kernelzoo.domain.operators.attention import ManyRowsAttention
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.attention.config import WasmAttentionConfig, attends
from services.tuner.schedules.base.ranking import by_rank
from services.tuner.schedules.base.rules import BASE_TILES, FMA_TILES, SLICES_WANTED

SCORES_BYTES = (192 << 10, 48 << 10, 24 << 10)
"""Scores of a block: they stay in the second cache beside keys and values, or in the first."""

UNROLL_K = (4, 2, 8, 1)
"""A head has few terms, so that leaving the loop counts."""

SLICE_FLOPS = 200_000_000
"""A slice of more takes longer than 3 ms, and an abort would wait for it."""


def wasm_attention_configs(workload: Workload) -> tuple[WasmAttentionConfig, ...]:
    """Ordered by the sum of the ranks of their settings."""
    given = attends(workload)
    return by_rank(_points(given), workload)


def _points(given: ManyRowsAttention) -> Iterator[tuple[WasmAttentionConfig, int]]:
    for fma in (True, False):
        tiles = (FMA_TILES if fma else BASE_TILES)[:3]
        points = product(enumerate(tiles), enumerate(SCORES_BYTES), enumerate(UNROLL_K))
        for (tile_rank, tile), (block_rank, scores), (rank, unroll) in points:
            if not (tile_rank and rank):
                config = _config(given, tile, scores, unroll, fma=fma)
                yield config, tile_rank + block_rank + rank + (not fma)


def _config(
    given: ManyRowsAttention, tile: tuple[int, int], scores: int, unroll_k: int, *, fma: bool
) -> WasmAttentionConfig:
    tile_m, tile_n = min(tile[0], given.m), tile[1]
    most = max(1, scores // (4 * given.n * tile_m))
    tiles = -(-given.m // tile_m)
    block_m = min(given.m, tile_m * -(-tiles // -(-tiles // most)))
    return WasmAttentionConfig(
        block_m=block_m,
        groups=min(_groups(given), -(-given.m // block_m)),
        tile_m=tile_m,
        tile_n=tile_n,
        unroll_k=unroll_k,
        fma=fma,
    )


def _groups(given: ManyRowsAttention) -> int:
    """The fewest that leave slices enough, none too long: each packs keys and values again."""
    flops = 2 * given.m * given.n * (given.head_dim + given.width)
    kv_heads = given.heads // given.shared
    return max(-(-SLICES_WANTED // kv_heads), -(-flops * given.shared // SLICE_FLOPS))

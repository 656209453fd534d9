"""The lite space of a contraction: a few dozen schedules, each valid, the likely best first."""

from collections.abc import Iterator
from itertools import product
from math import comb, prod

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import Extents, largest_divisor
from services.tuner.schedules.base.rules import (
    ALIASING_BYTES,
    BASE_RANK,
    BASE_TILES,
    FEWEST_SLICES,
    FMA_TILES,
    SLICES_WANTED,
    UNROLL_K,
    VECTOR_REGISTERS,
    live_vectors,
)
from services.tuner.schedules.base.wasm_config import Pack, WasmConfig
from services.tuner.schedules.matmul.config import Outer, WasmMatmulConfig
from services.tuner.schedules.prefetching_matmul.space import wasm_prefetching_matmul_configs
from services.tuner.schedules.strassen_matmul.space import wasm_strassen_matmul_configs

ACCUMULATORS_WANTED = 8
"""Latency 4 times 2 units: fewer sums in flight leave a multiply-add unit idle."""

TALL_TILES = ((12, 4), (10, 4), (8, 4))
"""For at most four columns, where the accumulators have to come from rows."""

WIDE_TILES = ((1, 48), (1, 32))
"""For one row, where memory is the limit: 192 bytes of a row of b at a time instead of 64 took
1x768x3072 from 33 to 73 of the 99 GB/s that a loop of loads reaches."""

A_BLOCK_BYTES = 96 << 10
"""Rows of a that stay in the cache while the panels of b pass: heuristic 3 with a relaxation of 3
for an L1 of 32 KiB, since the second level feeds registers as fast."""

B_BLOCK_BYTES = 256 << 10
"""Columns of b that stay in the second-level cache."""

BLOCK_COLUMNS = 96
"""More columns at once cost 1 to 3 %; fewer than 32 cost 1 % in packing."""

SMALL_B_BYTES = 32 << 10
"""A matrix b that lies in the first cache as it is gains nothing from packing (64x64: 96 % without,
93 % with); for 384x64 it gains 4 to 6 %."""

SMALL_PANELS_BYTES = B_BLOCK_BYTES
"""Weights that stay in the second-level cache whole. Blocks of rows outside of them write, and read
of a residual, whole rows: 3136x64x256 with a residual took 1.8 ms instead of 2.2. Where they stay
in the first (`SMALL_B_BYTES`) there are no blocks of columns at all: one thread takes as long, and
two threads that share rows find those of the layer before in their own caches."""

PACKING_ROWS = 16
"""Packing copies an entry of b once for its use in every row; below this it costs more."""


ON_OR_OFF = 3
"""cache_read, cache_write and unroll, in the space without rules (nnJIT Table 6)."""


def wasm_matmul_configs(workload: Workload) -> tuple[WasmConfig, ...]:
    """Lists configs: those that read weights ahead come first, where rows are few. Strassen's come
    directly behind the first, as pages that tune themselves are sent the first of each space, and
    those without fma last: none is the default, as their errors are bounded otherwise."""
    tiles = tile_configs(Extents.of(workload))
    usual = (*wasm_prefetching_matmul_configs(workload), *tiles)
    strassen = wasm_strassen_matmul_configs(workload)
    fused, apart = ([each for each in strassen if each.fma is fma] for fma in (True, False))
    return (*usual[:1], *fused, *usual[1:], *apart)


def tile_configs(extents: Extents) -> tuple[WasmMatmulConfig, ...]:
    """Ordered by the sum of the ranks of their settings, so that the first few differ."""
    ranked: dict[WasmMatmulConfig, int] = {}
    for config, rank in _points(extents):
        ranked[config] = min(rank, ranked.get(config, rank))
    return tuple(sorted(ranked, key=ranked.__getitem__))


def _points(extents: Extents) -> Iterator[tuple[WasmMatmulConfig, int]]:
    packs = _packs(extents)
    for fma in (True, False):
        axes = (_tiles(extents, fma=fma), enumerate(packs), enumerate(_unrolls(extents)))
        for (tile_rank, tile), (pack_rank, (pack, outer)), (unroll_rank, unroll) in product(*axes):
            if pack_rank and unroll_rank:
                continue
            config = _config(extents, tile, pack, unroll, fma=fma, outer=outer)
            few = config.range_extent(extents) < FEWEST_SLICES
            if pack is Pack.KERNEL and few and not extents.b_transposed:
                continue
            yield config, tile_rank + 2 * pack_rank + unroll_rank + (0 if fma else BASE_RANK)


def _tiles(extents: Extents, *, fma: bool) -> list[tuple[int, tuple[int, int]]]:
    """Register tiles with their ranks, cut to the matrix, within the live-vector rule."""
    columns = -(-extents.n // ir.LANES) * ir.LANES
    tiles = FMA_TILES if fma else BASE_TILES
    if columns == ir.LANES:
        tiles = (*TALL_TILES, *tiles)
    if extents.m == 1:
        tiles = (*WIDE_TILES, *tiles)
    cut = dict.fromkeys((min(m, extents.m), min(n, columns)) for m, n in tiles)
    fitting = [tile for tile in cut if live_vectors(*tile, fma=fma) <= VECTOR_REGISTERS]
    full = [(m, n) for m, n in fitting if m * n // ir.LANES >= ACCUMULATORS_WANTED]
    return list(enumerate(full or fitting))


def _packs(extents: Extents) -> tuple[tuple[Pack, Outer | None], ...]:
    """Lists how b may be read, and the axis to slice where it is not the usual one; the likely best
    first. Weights that are packed once are not packed again."""
    at_run = _packs_at_run(extents)
    if not extents.b_constant:
        return tuple((pack, None) for pack in at_run)
    plain = ((Pack.NONE, None),) if Pack.NONE in at_run else ()
    by_columns, by_rows = (Pack.PREPACKED, None), (Pack.PREPACKED, Outer.ROWS)
    b_bytes = 4 * extents.k * extents.n
    if extents.m < PACKING_ROWS or b_bytes > SMALL_PANELS_BYTES:
        return (by_columns, *plain)
    return (*((by_columns,) if b_bytes > SMALL_B_BYTES else ()), by_rows, *plain)


def _packs_at_run(extents: Extents) -> tuple[Pack, ...]:
    if extents.b_transposed:
        return (Pack.KERNEL,)
    if extents.m < PACKING_ROWS:
        return (Pack.NONE,)
    if 4 * extents.n % ALIASING_BYTES == 0:
        return (Pack.KERNEL,)
    if 4 * extents.k * extents.n <= SMALL_B_BYTES:
        return (Pack.NONE, Pack.KERNEL)
    return (Pack.KERNEL, Pack.NONE)


def _unrolls(extents: Extents) -> tuple[int, ...]:
    """Divisors of k first: the others need a tail."""
    possible = [unroll for unroll in UNROLL_K if unroll <= extents.k]
    return tuple(sorted(possible, key=lambda unroll: extents.k % unroll > 0))


def _config(
    extents: Extents,
    tile: tuple[int, int],
    pack: Pack,
    unroll_k: int,
    *,
    fma: bool,
    outer: Outer | None,
) -> WasmMatmulConfig:
    tile_m, tile_n = tile
    outer = outer or _outer(extents, tile, pack)
    rows, columns = -(-extents.m // tile_m), -(-extents.n // tile_n)
    row_bytes = 4 * extents.k
    return WasmMatmulConfig(
        tile_m=tile_m,
        tile_n=tile_n,
        unroll_k=unroll_k,
        block_m=tile_m
        * largest_divisor(
            rows,
            A_BLOCK_BYTES // (row_bytes * tile_m),
            rows // SLICES_WANTED if outer is Outer.ROWS else rows,
        ),
        block_n=tile_n
        * _panels_in_block(
            columns,
            min(BLOCK_COLUMNS, B_BLOCK_BYTES // row_bytes) // tile_n,
            columns // SLICES_WANTED if outer is Outer.COLUMNS else columns,
        ),
        pack=pack,
        fma=fma,
        outer=outer,
    )


def _outer(extents: Extents, tile: tuple[int, int], pack: Pack) -> Outer:
    """The axis to slice: the first that has slices enough, else the longest."""
    tile_m, tile_n = tile
    lengths = {Outer.BATCH: extents.batch} if extents.batch else {}
    if pack is Pack.NONE:
        lengths[Outer.ROWS] = -(-extents.m // tile_m)
    lengths[Outer.COLUMNS] = -(-extents.n // tile_n)
    enough = [axis for axis, length in lengths.items() if length >= SLICES_WANTED]
    return enough[0] if enough else max(lengths, key=lengths.__getitem__)


def _panels_in_block(count: int, *limits: int) -> int:
    """A divisor of `count`, unless that is less than half of what the limits allow: then the last
    block is smaller. 97 panels one by one cost 383x767x769 6 %; a tail of rows costs less."""
    limit, divisor = max(1, min(*limits, count)), largest_divisor(count, *limits)
    return divisor if 2 * divisor > limit else -(-count // -(-count // limit))


def naive_space_size(workload: Workload) -> int:
    """Counts the schedules that there would be without the rules: rows and columns split in three,
    the summed axis in two, and three switches.

    2,099,520 for matmul 384x768x768, the figure of Table 6.
    """
    extents = Extents.of(workload)
    splits = _splits(extents.m, 3) * _splits(extents.n, 3) * _splits(extents.k, 2)
    return int(splits * 2**ON_OR_OFF)


def _splits(extent: int, parts: int) -> int:
    """Ordered ways to write `extent` as a product of `parts` factors."""
    return prod(comb(power + parts - 1, parts - 1) for power in _prime_powers(extent))


def _prime_powers(extent: int) -> list[int]:
    powers: list[int] = []
    prime = 2
    while extent > 1:
        power = 0
        while extent % prime == 0:
            extent //= prime
            power += 1
        powers.append(power)
        prime = prime + 1 if prime * prime <= extent else max(extent, prime + 1)
    return powers

"""The lite space of products of integers: register tiles, by rows or by columns, and the two dot
products."""

from itertools import chain, product

from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.integer_product import IntegerProduct, integer_product_of
from services.tuner.schedules.base.rules import SLICES_WANTED
from services.tuner.schedules.integer_matmul.config import (
    FEATURES,
    OF_SEVEN_BITS,
    Dot,
    Slices,
    WasmIntegerMatmulConfig,
    has_seven_bits,
)

TILES = ((4, 8), (5, 8), (3, 12), (2, 16))
"""tile_m x tile_n: sums, halves of weights, a splat and a product fit into 15 registers. Of
384x768x768 on a Zen 4, quads in two steps reach 106 GOP/s with the first, 98 with the second and 93
with the third, pairs 86, 84 and 78."""
TILES_OF_BYTES = ((6, 8), (4, 8), (4, 16), (8, 8), (2, 16))
"""No register holds a product where one instruction adds four: twelve sums, two vectors of
weights and a splat are those of x86, and ARM has as many again."""
WIDE_TILES = ((1, 16), (1, 32), (1, 24))
"""For a single row, which waits for memory: 1x768x3072 reads 29 GB/s of bytes on a Zen 4."""
UNROLL_K = (2, 1)
DOT_RANK = {Dot.QUADS: 1, Dot.QUADS_IN_TWO: 1}
"""The processor decides which of the last two is faster: two steps are without VNNI."""
PREPARED = {
    **dict.fromkeys((Dot.PAIRS, *OF_SEVEN_BITS), (True, False)),
    **dict.fromkeys(FEATURES, (False,)),
}
"""Operands of weights are two instructions away from a word. Of 128x384x1536 and 128x1536x384 on
an Ice Lake, pairs reach 72 GOP/s where slices of 16 rows prepare them, and 63 where tiles do."""
FEWEST_PREPARED = 4
"""Tiles that pass a panel after it is prepared, and rows for which its columns are summed."""
FEW_ROWS = 8
"""Slices take columns where there are so many rows or fewer."""
BLOCK_ROWS_BYTES = (1 << 15, 1 << 17)
"""Bytes of the widened rows of a slice: in the first cache, or in the second."""
CONFIGS = 32
CONFIGS_OF_BYTES = 10
"""For each of the two features, of which a device has one at most."""


def wasm_integer_matmul_configs(workload: Workload) -> tuple[WasmIntegerMatmulConfig, ...]:
    """Ordered by the sum of the ranks of their settings; those for devices whose dot products take
    all bytes are before the others, of which the first takes pairs."""
    given = integer_product_of(workload)
    quads = has_seven_bits(workload) and given.m >= FEWEST_PREPARED
    usual = _ranked(workload, given, TILES, (Dot.PAIRS, *OF_SEVEN_BITS) if quads else (Dot.PAIRS,))
    of_bytes = (
        _ranked(workload, given, TILES_OF_BYTES, (dot,))[:CONFIGS_OF_BYTES] for dot in FEATURES
    )
    return (*chain.from_iterable(of_bytes), *usual[:CONFIGS])


def _ranked(
    workload: Workload,
    given: IntegerProduct,
    tiles: tuple[tuple[int, int], ...],
    dots: tuple[Dot, ...],
) -> tuple[WasmIntegerMatmulConfig, ...]:
    ranked: dict[WasmIntegerMatmulConfig, int] = {}
    tiles = _tiles(given, tiles)
    points = product(enumerate(tiles), enumerate(_outers(given)), enumerate(UNROLL_K), dots)
    for (rank, (tile_m, tile_n)), (outer_rank, outer), (k_rank, unroll), dot in points:
        blocks = enumerate(_blocks(given, tile_m, tile_n, outer))
        ways = enumerate(PREPARED[dot])
        for (block_rank, (block_m, block_n)), (way_rank, prepared) in product(blocks, ways):
            if prepared and block_m < FEWEST_PREPARED * tile_m:
                continue
            config = WasmIntegerMatmulConfig(
                tile_m=tile_m,
                tile_n=tile_n,
                block_m=block_m,
                block_n=block_n,
                unroll_k=unroll,
                dot=dot,
                outer=outer,
                packed="b" in workload.constant,
                prepared=prepared,
                fma=dot is not Dot.PAIRS,
            )
            if not config.fault(workload):
                dot_rank = DOT_RANK.get(dot, 0)
                ranks = (rank, outer_rank, k_rank, dot_rank, block_rank, way_rank)
                place = sum(ranks)
                ranked[config] = min(place, ranked.get(config, place))
    return tuple(sorted(ranked, key=ranked.__getitem__))


def _tiles(
    given: IntegerProduct, tiles: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    columns = -(-given.n // ir.LANES) * ir.LANES
    tiles = (*WIDE_TILES, *tiles) if given.m == 1 else tiles
    return tuple(dict.fromkeys((min(m, given.m), min(n, columns)) for m, n in tiles))


def _outers(given: IntegerProduct) -> tuple[Slices, ...]:
    if given.m <= FEW_ROWS:
        return (Slices.COLUMNS,)
    return (Slices.ROWS, Slices.COLUMNS)


def _blocks(
    given: IntegerProduct, tile_m: int, tile_n: int, outer: Slices
) -> tuple[tuple[int, int], ...]:
    """Rows and columns of a slice; there are to be enough of them for workers to share."""
    if outer is Slices.COLUMNS:
        panels = max(1, given.n // tile_n)
        most = max(1, panels // SLICES_WANTED)
        block = max(size for size in range(1, most + 1) if panels % size == 0)
        return ((given.m, block * tile_n),)
    tiles = -(-given.m // tile_m)
    most = max(1, tiles // SLICES_WANTED)
    sizes = (max(1, min(most, limit // (2 * given.k * tile_m))) for limit in BLOCK_ROWS_BYTES)
    # Weights that are prepared once gain more than rows in the first cache do.
    ranked = sorted(dict.fromkeys(sizes), key=lambda size: size < FEWEST_PREPARED)
    return tuple((size * tile_m, given.n) for size in ranked)

"""What makes a schedule worth measuring: nnJIT's Table 1 and what was measured since, as data.

Shares are of the register-only limit of one Zen 4 core (65 to 73 GFLOP/s), in Chromium 156.
"""

from services.tuner.ir.nodes import LANES

VECTOR_REGISTERS = 15
"""V8 gives out xmm0 to xmm14 on x86; a tile beyond them runs at half speed."""

ACCUMULATORS_WANTED = 8
"""Latency 4 times 2 units: fewer sums in flight leave a multiply-add unit idle."""

FMA_TILES = ((6, 8), (5, 8), (4, 8), (3, 12), (2, 16))
"""tile_m x tile_n: 94, 90, 87, 89 and 88 % for a packed 384x768x768 matmul. 4x8 stands before the
last two since it divides more shapes."""

BASE_TILES = ((4, 8), (5, 8), (3, 12), (2, 16))
"""Without fma a product needs a register too. 4x8 is within 7 % of the best (86 to 88 % against 91
to 92 % on four workloads), leaves three registers free and divides most shapes: a safe default."""

TALL_TILES = ((12, 4), (10, 4), (8, 4))
"""For at most four columns, where the accumulators have to come from rows."""

WIDE_TILES = ((1, 48), (1, 32))
"""For one row, where memory is the limit: 192 bytes of a row of b at a time instead of 64 took
1x768x3072 from 33 to 73 of the 99 GB/s that a loop of loads reaches."""

UNROLL_K = (2, 1, 4)
"""Up to 10 % apart, in either direction, as the engine lays the loop out."""

A_BLOCK_BYTES = 96 << 10
"""Rows of a that stay in the cache while the panels of b pass: heuristic 3 with a relaxation of 3
for an L1 of 32 KiB, since the second level feeds registers as fast."""

B_BLOCK_BYTES = 256 << 10
"""Columns of b that stay in the second-level cache."""

BLOCK_COLUMNS = 96
"""More columns at once cost 1 to 3 %; fewer than 32 cost 1 % in packing."""

SLICES_WANTED = 8
"""Iterations of the outermost loop, so that warm-up slices and workers have something to share."""

FEWEST_SLICES = 4
"""A packing schedule with fewer is left out, as a slice of it would be too long to wait for."""

SMALL_B_BYTES = 32 << 10
"""A matrix b that lies in the first cache as it is gains nothing from packing (64x64: 96 % without,
93 % with); for 384x64 it gains 4 to 6 %."""

ALIASING_BYTES = 4096
"""Rows of b this far apart, or a multiple of it, fall into one set of the first cache: without
packing, 640x768x3072 reached 36 %, while 384x768x768 reached 95 %."""

PACKING_ROWS = 16
"""Packing copies an entry of b once for its use in every row; below this it costs more."""


BASE_RANK = 2
"""Candidates without fma stand as far back as the third choice of a tile with it."""

STREAM_ROWS = (16, 8, 4, 2, 1)
"""Rows of b to a step: for 1x768x50257, 30, 25 and 22 GB/s with 16, 8 and 4, and 16 GB/s by a loop
nest with its sums in registers, which jumps from row to row (V8 11.3, Zen 4)."""

STREAM_VECTORS = (4, 2)
"""Vectors of columns at once: entries of a are read again for each."""

STREAM_BLOCKS = (4096, 2048, 1024)
"""Columns whose sums stay in the first cache: 16 KiB for a row of them, 7 to 15 % above 8 KiB."""

STREAM_OTHERS = 6
"""Register tiles that are offered beside them."""

STREAMS_AFTER_PANELS = 12
"""Passes over b as it is, where tiles that read b in panels stand before them: panels are streamed
as well, and sums stay in registers (1x768x3072: 0.08 ms against 0.12; V8 14.6, Zen 5)."""

WIDEST_TILE = 16
"""Channels in the widest register tile."""

ALIASING_ROWS = 4
"""Rows of weights that lie `ALIASING_BYTES` apart in steps of this many, or closer, share so few
sets of the first cache that a tile of them does not stay there."""

WINDOW_BLOCKS = (4, 2, 1, 8)
"""Rows of a convolution's output to a block: more rows copy less padding, fewer slice finer."""

ROW_VECTORS = (4, 2, 8, 1)
"""Vectors summed at once: an addition takes three to four cycles, two start in each."""

ROW_BLOCKS = (1, 4, 16)
"""Rows to a slice of the range."""

MAP_VECTORS = (2, 1, 4, 8)
"""Vectors of an elementwise operator at once; functions keep their parts in registers."""

MAP_CHUNKS = (256, 1024, 64, 4096)
"""Entries of an elementwise operator to a slice of the range."""


def live_vectors(tile_m: int, tile_n: int, *, fma: bool) -> int:
    """Registers that the loop body needs: accumulators, a row of b, a splat of a, a product.

    Of a row of b that one row of a uses, a vector at a time is enough.
    """
    columns = tile_n // LANES
    return tile_m * columns + (columns if tile_m > 1 else 1) + (1 if fma else 2)


def register_elements(tile_m: int, unroll_k: int, tile_n: int) -> int:
    """Reg_thread of Table 1."""
    return tile_m * unroll_k + unroll_k * tile_n + tile_m * tile_n


def block_bytes(block_m: int, k: int, block_n: int) -> int:
    """L1_block of Table 1 in bytes, for float32 and r1 = k."""
    return 4 * (block_m * k + k * block_n + block_m * block_n)

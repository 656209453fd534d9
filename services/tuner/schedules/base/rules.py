"""Rules that make a schedule worth measuring: nnJIT's Table 1 and what was measured since, as data.

Shares are of the register-only limit of one Zen 4 core (65 to 73 GFLOP/s), in Chromium 156.
"""

from services.tuner.ir.nodes import LANES

VECTOR_REGISTERS = 15
"""V8 gives out xmm0 to xmm14 on x86; a tile beyond them runs at half speed."""

FMA_TILES = ((6, 8), (5, 8), (4, 8), (3, 12), (2, 16))
"""tile_m x tile_n: 94, 90, 87, 89 and 88 % for a packed 384x768x768 matmul. 4x8 stands before the
last two since it divides more shapes."""

BASE_TILES = ((4, 8), (5, 8), (3, 12), (2, 16))
"""Without fma a product needs a register too. 4x8 is within 7 % of the best (86 to 88 % against 91
to 92 % on four workloads), leaves three registers free and divides most shapes: a safe default."""

UNROLL_K = (2, 1, 4)
"""Up to 10 % apart, in either direction, as the engine lays the loop out."""

SLICES_WANTED = 8
"""Iterations of the outermost loop, so that warm-up slices and workers have something to share."""

FEWEST_SLICES = 4
"""A packing schedule with fewer is left out, as a slice of it would be too long to wait for."""

ALIASING_BYTES = 4096
"""Rows of b this far apart, or a multiple of it, fall into one set of the first cache: without
packing, 640x768x3072 reached 36 %, while 384x768x768 reached 95 %."""

BASE_RANK = 2
"""Candidates without fma stand as far back as the third choice of a tile with it."""


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

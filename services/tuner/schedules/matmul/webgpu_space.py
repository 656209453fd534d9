"""The lite space of a matrix product on a GPU: nnJIT's heuristics, then the likely best first."""

from collections.abc import Callable, Iterator
from itertools import islice, product
from math import ceil, prod

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.implicit_gemm import product_extents
from services.tuner.schedules.base.limits import FEW_LANES
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.base.webgpu_space import in_turns
from services.tuner.schedules.matmul.usage import estimated_us, occupancy_of, promise, registers_of
from services.tuner.schedules.matmul.webgpu_config import Prefetch, WebgpuMatmulConfig

MOST_CANDIDATES = 64
REPETITION = 0.01
"""Candidates of one block and tile err alike: each further one stands as far back as if it took so
much longer."""

TILES = ((8, 8), (8, 4), (4, 8), (4, 4), (8, 16), (16, 8))
"""tile_m x tile_n, powers of two (heuristic 2) of vectors of four (heuristic 1)."""

GRIDS = ((8, 8), (8, 16), (4, 16), (16, 8), (4, 8), (8, 4), (16, 16), (8, 32), (32, 8), (4, 32))
"""Rows x columns of threads."""

MOST_THREADS = 256
"""Threads of a workgroup (heuristic 5)."""

BLOCK_K = (16, 32, 8)
SLICED_K = (2, 4, 8)
SLICED_TILES = TILES[:4]
"""Larger tiles want more registers with sliced-K than there are (H200)."""

SLICED_GRIDS = (*GRIDS, (4, 4), (2, 8), (8, 2), (3, 8), (6, 4))
SLICED_BLOCK_K = (16, 32, 64, 48, 96)
SLICE_K = 8
"""Sliced-K is for small blocks; each slice has at least so many k of one."""

MOST_SLICED_WARPS = 16
"""A core with more warps has enough to do without sliced-K."""

SLICED_WORKGROUP_BYTES = 32_768
"""The sums of a slice of 128 threads, 64 entries each."""

SLICED_CANDIDATES = 16
"""Estimates of kernels with sliced-K err apart from those of the others: both have places of their
own."""

ROUND_ROWS = (6, 8, 9, 12, 16, 18)
ROUND_TILES = ((8, 8), (8, 4), (4, 8))
ROUND_SHARE = 0.93
ROUND_THREADS = range(128, 321)
ROUND_CANDIDATES = 6
MOST_ROUNDS = 3
ROUND_WORKGROUP_BYTES = 49_152
"""Rows and columns of threads of blocks that leave hardly a core without work: 128 of an H200's 132
have one of 48x48 of 384 rows and 768 columns. A core has few of them then, with sliced-K."""

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
WORKGROUP_BYTES = 28_672
"""Heuristic 6, 16 KiB, with a relaxation of 1.75: the best blocks of 4096x4096x4096 on an H200 have
24 KiB and their padding."""

REGISTER_RELAXATION = 2.0
"""Heuristic 7, that registers be what limits the blocks on a core, up to this factor."""

THREAD_RELAXATION = 1.1
"""A thread may need so many times the registers that it can have: not all are in use at once. Far
above it kernels are two to eight times slower than they should be (H200)."""

UNROLLED_PRODUCTS = 1024
UNROLL_K = 16
"""A body of so many products, or of so many k, is the largest: 8x8 tiles with k unrolled 32 times
ran at half the speed of 16 times (H200), and pipelines took twice as long to create."""

MOST_ROWS_OF_BLOCKS = 5
"""Rows of blocks that share columns of b in the second-level cache, 1 to 2 % faster than one."""

MOST_WAVES = 8
"""Splitting a sum for more workgroups than this for each core gains nothing."""

FEW_ROWS = 8
STREAM_COLUMNS = (16, 32, 64, 128, 256)
STREAM_SLICED_K = (4, 8, 16, 32, 64)
STREAM_UNROLL = (16, 8, 4)
STREAM_SPLITS = (1, 2, 4, 8)
DIRECT_TILES = ((4, 8), (8, 4), (4, 4), (8, 8), (2, 4), (1, 4))
DIRECT_GRIDS = ((8, 8), (4, 8), (16, 8), (8, 16), (4, 4), (2, 4))
DIRECT_UNROLL = (8, 4)
DIRECT_CANDIDATES = 8
PROCESSOR_TILES = ((8, 4), (8, 8), (4, 4), (4, 8))
PROCESSOR_GRIDS = ((4, 8), (2, 4), (4, 4), (8, 8))
PROCESSOR_UNROLL = (4, 8)
PROCESSOR_ROW_TILES = (4, 8, 16)
PROCESSOR_ROW_GRIDS = (8, 16, 4, 32, 64)
"""The first of each are the best on SwiftShader; through workgroup memory it is ten times slower,
and its driver takes a millisecond for each word of it (`SOFTWARE_DRIVER`)."""


def matmul_configs(workload: Workload, gpu: GpuModel) -> tuple[WebgpuMatmulConfig, ...]:
    """None is refused. The first is the best of those that require no more than the workload itself
    does: a matrix above 128 MiB needs a limit."""
    found = product_configs(product_extents(workload), gpu, lambda config: config.fits(workload))
    needed = min((config.requires(workload) for config in found), key=len)
    plain = next(config for config in found if config.requires(workload) == needed)
    return (plain, *(config for config in found if config != plain))


def product_configs(
    extents: Extents, gpu: GpuModel, fits: Callable[[WebgpuMatmulConfig], bool]
) -> list[WebgpuMatmulConfig]:
    """Lists those that are valid and `fits` holds of, the likely best first."""

    def valid(configs: Iterator[WebgpuMatmulConfig]) -> list[WebgpuMatmulConfig]:
        return [config for config in dict.fromkeys(configs) if not config.fault_of(extents)]

    def best(configs: Iterator[WebgpuMatmulConfig], most: int) -> list[WebgpuMatmulConfig]:
        ranked = sorted(valid(configs), key=lambda config: promise(extents, config, gpu))
        apart = _different(ranked, lambda config: estimated_us(extents, config, gpu))
        return list(islice((one for one in apart if fits(one)), most))

    if gpu.warp_lanes < FEW_LANES:
        return [one for one in valid(_processor(extents)) if fits(one)]
    if extents.m <= FEW_ROWS and not extents.batch:
        found = best(_streaming(extents), MOST_CANDIDATES - DIRECT_CANDIDATES)
        return found + best(_direct(extents, gpu), DIRECT_CANDIDATES)
    sliced = best(_sliced(extents, gpu), SLICED_CANDIDATES)
    cached = best(_cached(extents, gpu), MOST_CANDIDATES - DIRECT_CANDIDATES - len(sliced))
    rounds = best(whole_rounds(extents, gpu), ROUND_CANDIDATES)
    both = in_turns(in_turns(cached, sliced), rounds)
    return [*both, *best(_direct(extents, gpu), DIRECT_CANDIDATES)]


def _different(
    ranked: list[WebgpuMatmulConfig], us: Callable[[WebgpuMatmulConfig], float]
) -> list[WebgpuMatmulConfig]:
    """The first of them, in an order in which those of the same block and tile stand apart."""
    counts: dict[tuple[int, ...], int] = {}
    apart: dict[WebgpuMatmulConfig, float] = {}
    for config in ranked:
        kind = (config.block_m, config.block_n, config.tile_m, config.tile_n)
        repeated = counts[kind] = counts.get(kind, -1) + 1
        apart[config] = us(config) * (1 + REPETITION * repeated)
    return sorted(apart, key=apart.__getitem__)


def _cached(extents: Extents, gpu: GpuModel) -> Iterator[WebgpuMatmulConfig]:
    for tile, grid, block_k in product(TILES, GRIDS, BLOCK_K):
        yield from _cached_in(extents, gpu, tile, grid, block_k, 1)


def _sliced(extents: Extents, gpu: GpuModel) -> Iterator[WebgpuMatmulConfig]:
    """Sums that several threads of a workgroup share."""
    for sliced_k, tile, grid, block_k in product(
        SLICED_K, SLICED_TILES, SLICED_GRIDS, SLICED_BLOCK_K
    ):
        threads = prod(grid) * sliced_k
        if gpu.warp_lanes <= threads <= MOST_THREADS and block_k // sliced_k >= SLICE_K:
            yield from _cached_in(extents, gpu, tile, grid, block_k, sliced_k)


def whole_rounds(extents: Extents, gpu: GpuModel) -> Iterator[WebgpuMatmulConfig]:
    """Sliced-K in blocks of which all cores have as many, with k in one part."""
    for sliced_k, tile, rows, columns, block_k in product(
        SLICED_K, ROUND_TILES, ROUND_ROWS, ROUND_ROWS, SLICED_BLOCK_K
    ):
        block = (tile[0] * rows, tile[1] * columns)
        threads = rows * columns * sliced_k
        if threads not in ROUND_THREADS or block_k // sliced_k < SLICE_K or block_k > extents.k:
            continue
        unroll_k = min(block_k // sliced_k, max(UNROLL_K, UNROLLED_PRODUCTS // prod(tile)))
        cache = Cache.TRANSPOSED if extents.a_transposed else Cache.ROWS
        registers = Prefetch.REGISTERS
        config = _config(
            extents, tile, block, block_k, unroll_k, cache, registers, sliced_k, split_k=1
        )
        share = config.workgroups(extents) / gpu.cores
        even = share / ceil(share) >= ROUND_SHARE and share <= MOST_ROUNDS
        if even and config.workgroup_bytes <= ROUND_WORKGROUP_BYTES:
            yield config


def _cached_in(
    extents: Extents,
    gpu: GpuModel,
    tile: tuple[int, int],
    grid: tuple[int, int],
    block_k: int,
    sliced_k: int,
) -> Iterator[WebgpuMatmulConfig]:
    block = (tile[0] * grid[0], tile[1] * grid[1])
    if not _sensible(extents, block) or block_k >= 2 * max(8, extents.k):
        return
    unroll_k = min(block_k // sliced_k, max(UNROLL_K, UNROLLED_PRODUCTS // prod(tile)))
    caches = (Cache.TRANSPOSED,) if extents.a_transposed else (Cache.ROWS, Cache.TRANSPOSED)
    for split in _splits(extents, gpu, block, block_k):
        for cache, prefetch in product(caches, Prefetch):
            config = _config(
                extents, tile, block, block_k, unroll_k, cache, prefetch, sliced_k, split
            )
            if _used_well(config, gpu) and _wants_slices(extents, config, gpu):
                yield config


def _used_well(config: WebgpuMatmulConfig, gpu: GpuModel) -> bool:
    """Heuristics 6 and 7, relaxed."""
    usage = occupancy_of(config, gpu)
    others = min(usage.by_memory, usage.by_warps)
    most = WORKGROUP_BYTES if config.sliced_k == 1 else SLICED_WORKGROUP_BYTES
    return (
        config.workgroup_bytes <= most
        and registers_of(config) <= THREAD_RELAXATION * gpu.thread_registers
        and usage.by_registers <= REGISTER_RELAXATION * others
    )


def _wants_slices(extents: Extents, config: WebgpuMatmulConfig, gpu: GpuModel) -> bool:
    """Returns whether cores would have too few warps without sliced-K, where the config has it."""
    warps = config.workgroups(extents) * config.threads / gpu.warp_lanes
    return config.sliced_k == 1 or warps <= MOST_SLICED_WARPS * gpu.cores


def _sensible(extents: Extents, block: tuple[int, int]) -> bool:
    """No more than half of a block lies outside of a matrix, unless no block is smaller."""
    return block[0] < 2 * max(16, extents.m) and block[1] < 2 * max(16, extents.n)


def _splits(extents: Extents, gpu: GpuModel, block: tuple[int, int], block_k: int) -> Iterator[int]:
    """Parts of k, as far as cores want for workgroups."""
    blocks = max(1, extents.batch) * -(-extents.m // block[0]) * -(-extents.n // block[1])
    for split in SPLITS:
        enough = split > 1 and blocks * split > MOST_WAVES * gpu.cores
        if not enough and -(-extents.k // block_k) % split == 0:
            yield split


def _direct(extents: Extents, gpu: GpuModel) -> Iterator[WebgpuMatmulConfig]:
    """Without workgroup memory: for small matrices, and where it is no faster than the rest."""
    for tile, grid, unroll in product(DIRECT_TILES, DIRECT_GRIDS, DIRECT_UNROLL):
        block = (tile[0] * grid[0], tile[1] * grid[1])
        if extents.a_transposed and tile[0] % ir.LANES:
            continue
        for split in _splits(extents, gpu, block, unroll):
            yield _config(extents, tile, block, unroll, unroll, Cache.NONE, Prefetch.NONE, 1, split)


def _processor(extents: Extents) -> Iterator[WebgpuMatmulConfig]:
    if extents.m <= FEW_ROWS and not extents.a_transposed:
        yield from _processor_rows(extents)
        return
    for unroll, grid, tile in product(PROCESSOR_UNROLL, PROCESSOR_GRIDS, PROCESSOR_TILES):
        rows = min(tile[0], extents.m) if not extents.a_transposed else tile[0]
        block = (rows * grid[0], tile[1] * grid[1])
        fits = (rows, tile[1])
        yield _config(extents, fits, block, unroll, unroll, Cache.NONE, Prefetch.NONE, 1, 1)


def _processor_rows(extents: Extents) -> Iterator[WebgpuMatmulConfig]:
    """Few rows are one tile: a grid of threads is along the columns."""
    for unroll, threads, columns in product(
        PROCESSOR_UNROLL, PROCESSOR_ROW_GRIDS, PROCESSOR_ROW_TILES
    ):
        tile, block = (extents.m, columns), (extents.m, columns * threads)
        if _sensible(extents, block):
            yield _config(extents, tile, block, unroll, unroll, Cache.NONE, Prefetch.NONE, 1, 1)


def _streaming(extents: Extents) -> Iterator[WebgpuMatmulConfig]:
    """For few rows: threads side by side read rows of b, and several share the sum of an entry."""
    rows = 1 if extents.m == 1 else 4 if extents.m <= 4 else 8
    for tile_m, tile_n, columns, sliced_k, unroll, split in product(
        {1, rows}, (4, 8), STREAM_COLUMNS, STREAM_SLICED_K, STREAM_UNROLL, STREAM_SPLITS
    ):
        threads = rows // tile_m * columns // tile_n * sliced_k
        if 64 <= threads <= 256 and unroll * sliced_k * split <= max(16, extents.k):
            tile, block = (tile_m, tile_n), (rows, columns)
            yield _config(
                extents,
                tile,
                block,
                unroll * sliced_k,
                unroll,
                Cache.NONE,
                Prefetch.NONE,
                sliced_k,
                split,
            )


def _group(extents: Extents, block_m: int) -> int:
    """Rows of blocks that take turns: the largest number that divides them."""
    rows = -(-extents.m // block_m)
    return next(count for count in range(min(rows, MOST_ROWS_OF_BLOCKS), 0, -1) if not rows % count)


def _config(
    extents: Extents,
    tile: tuple[int, int],
    block: tuple[int, int],
    block_k: int,
    unroll_k: int,
    cache: Cache,
    prefetch: Prefetch,
    sliced_k: int,
    split_k: int,
) -> WebgpuMatmulConfig:
    return WebgpuMatmulConfig(
        tile_m=tile[0],
        tile_n=tile[1],
        block_m=block[0],
        block_n=block[1],
        block_k=block_k,
        unroll_k=unroll_k,
        cache=cache,
        prefetch=prefetch,
        sliced_k=sliced_k,
        split_k=split_k,
        group_m=_group(extents, block[0]),
    )

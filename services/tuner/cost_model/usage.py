"""Resources that a candidate uses: Table 1 of nnJIT, and what the rules of the lite space count.

`_TABLE` has formulas for each schedule family. A candidate of another family has no usage, and the
model has only its settings to go by.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import InvalidSchedule, UnsupportedProgram
from services.tuner.ir.nodes import LANES
from services.tuner.schedules.attention.config import WasmAttentionConfig, attends
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.rules import block_bytes, live_vectors, register_elements
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.base.windows import windows_of
from services.tuner.schedules.conv.config import WasmConvConfig
from services.tuner.schedules.depthwise.config import WasmDepthwiseConfig
from services.tuner.schedules.direct_conv.config import WasmDirectConvConfig
from services.tuner.schedules.elementwise.config import WasmElementwiseConfig
from services.tuner.schedules.gemv.config import WasmGemvConfig
from services.tuner.schedules.matmul.config import WasmMatmulConfig
from services.tuner.schedules.prefetching_matmul.config import WasmPrefetchingMatmulConfig
from services.tuner.schedules.reduction.config import WasmReductionConfig
from services.tuner.schedules.reduction.rows import rows_of
from services.tuner.schedules.strassen_matmul.config import SUMS, WasmStrassenMatmulConfig
from services.tuner.schedules.winograd.config import OUT, WasmWinogradConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources of one block and its innermost tile.

    `loads_per_product` is how many entries the loop body reads for each multiply-add, `waste` the
    share of computed entries that lie beyond the output (tails), `slices` the iterations of the
    outermost loop, `copied_bytes` what is written to packed panels.
    """

    live_vectors: int
    register_elements: int
    block_bytes: int
    loads_per_product: float = 1.0
    waste: float = 0.0
    slices: int = 1
    copied_bytes: int = 0


def usage(candidate: Candidate) -> Usage | None:
    """None for a family that is not in the table, or a config that does not fit its workload."""
    formulas = _TABLE.get((candidate.target, candidate.family))
    if formulas is None:
        return None
    try:
        return formulas(replace(candidate, workload=candidate.workload.whole))
    except (InvalidSchedule, UnsupportedProgram):
        return None


def _contraction(candidate: Candidate) -> Usage:
    config, extents = WasmMatmulConfig.of(candidate), Extents.of(candidate.workload)
    whole = config.rounded(extents)
    tile = config.tile_m * config.tile_n
    return Usage(
        live_vectors=live_vectors(config.tile_m, config.tile_n, fma=config.fma),
        register_elements=register_elements(config.tile_m, config.unroll_k, config.tile_n),
        block_bytes=block_bytes(config.block_m, extents.k, config.block_n),
        loads_per_product=(config.tile_m + config.tile_n) / tile,
        waste=1 - extents.m * extents.n / (whole.m * whole.n),
        slices=config.range_extent(extents),
        copied_bytes=4 * whole.k * whole.n * (extents.batch or 1) * (config.pack is Pack.KERNEL),
    )


def _prefetching(candidate: Candidate) -> Usage:
    """Counts what is in the caches at once: all rows, and two panels."""
    config = WasmPrefetchingMatmulConfig.of(candidate)
    extents, tile = Extents.of(candidate.workload), config.tile_m * config.tile_n
    return Usage(
        live_vectors=live_vectors(config.tile_m, config.tile_n, fma=config.fma),
        register_elements=register_elements(config.tile_m, config.unroll_k, config.tile_n),
        block_bytes=block_bytes(extents.m, extents.k, 2 * config.tile_n),
        loads_per_product=(config.tile_m + config.tile_n) / tile,
        slices=extents.n // config.block_n,
    )


def _strassen(candidate: Candidate) -> Usage:
    """Counts what is in the caches at once: rows of a quarter, and a panel of one."""
    config = WasmStrassenMatmulConfig.of(candidate)
    extents, tile = Extents.of(candidate.workload), config.tile_m * config.tile_n
    k, slices = extents.k // 2, config.range_extent(extents)
    panels = slices * config.block_n // config.tile_n
    sums = slices * config.block_m + panels * config.tile_n
    return Usage(
        live_vectors=live_vectors(config.tile_m, config.tile_n, fma=config.fma),
        register_elements=register_elements(config.tile_m, config.unroll_k, config.tile_n),
        block_bytes=block_bytes(config.block_m, k, config.tile_n),
        loads_per_product=(config.tile_m + config.tile_n) / tile,
        slices=slices,
        copied_bytes=4 * SUMS * k * sums,
    )


def _stream(candidate: Candidate) -> Usage:
    config, extents = WasmGemvConfig.of(candidate), Extents.of(candidate.workload)
    vectors = config.vectors * (extents.m + 1)
    return Usage(
        live_vectors=vectors,
        register_elements=LANES * vectors,
        block_bytes=block_bytes(extents.m, config.unroll_k, config.block_n),
        loads_per_product=(config.unroll_k + 1) / (config.unroll_k * extents.m),
        slices=config.range_extent(extents),
    )


def _window(candidate: Candidate) -> Usage:
    """A block takes its rows of the image, the weights of its tile, its rows of the output."""
    workload, config = candidate.workload, WasmConvConfig.of(candidate)
    windows = windows_of(workload)
    whole = config.rounded(windows)
    columns, channels = windows.size(windows.x), windows.size(windows.c)
    tile = config.tile_x * config.tile_c
    taps = windows.taps
    weights = taps * config.tile_c if windows.multiplies else 0
    elements = windows.image_elements(config.block_y) + weights
    return Usage(
        live_vectors=live_vectors(config.tile_x, config.tile_c, fma=config.fma),
        register_elements=register_elements(config.tile_x, config.unroll_c, config.tile_c),
        block_bytes=4 * (elements + config.block_y * columns * config.tile_c),
        loads_per_product=(config.tile_x + config.tile_c) / tile,
        waste=1 - columns * channels / (whole[windows.x] * whole[windows.c]),
        slices=config.range_extent(workload),
        copied_bytes=4 * taps * whole[windows.c] * (config.pack is Pack.KERNEL),
    )


def _winograd(candidate: Candidate) -> Usage:
    """Counts what a block takes: points and products of its tiles, the weights of a register
    tile."""
    workload, config = candidate.workload, WasmWinogradConfig.of(candidate)
    e, tile = workload.extent, config.tile_m * config.tile_n
    tiles, blocks = config.tiles(workload), config.blocks(workload)
    return Usage(
        live_vectors=live_vectors(config.tile_m, config.tile_n, fma=config.fma),
        register_elements=register_elements(config.tile_m, config.unroll_k, config.tile_n),
        block_bytes=block_bytes(tiles, e["c"], config.tile_n),
        loads_per_product=(config.tile_m + config.tile_n) / tile,
        waste=1 - e["y"] * e["x"] / (tiles * blocks * OUT * OUT),
        slices=config.range_extent(workload),
    )


def _attention(candidate: Candidate) -> Usage:
    """Counts what a block takes: its scores, keys and values of the head."""
    config, given = WasmAttentionConfig.of(candidate), attends(candidate.workload)
    tile = config.tile_m * config.tile_n
    return Usage(
        live_vectors=live_vectors(config.tile_m, config.tile_n, fma=config.fma),
        register_elements=register_elements(config.tile_m, config.unroll_k, config.tile_n),
        block_bytes=4 * config.scratch_entries(given),
        loads_per_product=(config.tile_m + config.tile_n) / tile,
        slices=config.groups * given.heads,
        copied_bytes=4 * config.groups * given.heads * given.n * (given.head_dim + given.width),
    )


def _depthwise(candidate: Candidate) -> Usage:
    """Counts what a row of the output takes: rows of the image, all weights, and itself."""
    workload, config = candidate.workload, WasmDepthwiseConfig.of(candidate)
    e = workload.extent
    columns = (config.tile_x - 1) * e["stride"] + e["kw"]
    vectors = config.tile_x + e["kw"] + 1
    return Usage(
        live_vectors=vectors,
        register_elements=LANES * vectors,
        block_bytes=4 * e["c"] * (e["kh"] * (e["w"] + e["kw"]) + e["x"]),
        loads_per_product=(columns + e["kw"]) / (config.tile_x * e["kw"]),
        slices=e["b"] * e["y"],
    )


def _direct(candidate: Candidate) -> Usage:
    """Counts what a row of the output takes: rows of the image, all weights, and itself."""
    workload, config = candidate.workload, WasmDirectConvConfig.of(candidate)
    e, tile = workload.extent, config.tile_x * config.tile_o
    taps = e["kw"] * e["c"]
    return Usage(
        live_vectors=live_vectors(config.tile_x, config.tile_o, fma=config.fma),
        register_elements=register_elements(config.tile_x, 1, config.tile_o),
        block_bytes=4 * (e["kh"] * (e["w"] * e["c"] + taps * e["o"]) + e["x"] * e["o"]),
        loads_per_product=(config.tile_x + config.tile_o) / tile,
        slices=e["b"] * e["y"],
    )


def _rows(candidate: Candidate) -> Usage:
    config, rows = WasmReductionConfig.of(candidate), rows_of(candidate.workload)
    width = LANES * config.vectors
    return Usage(
        live_vectors=config.vectors,
        register_elements=width,
        block_bytes=4 * rows.n * config.block_m,
        waste=1 - rows.n / (-(-rows.n // width) * width),
        slices=rows.m // config.block_m,
    )


def _map(candidate: Candidate) -> Usage:
    config = WasmElementwiseConfig.of(candidate)
    return Usage(
        live_vectors=config.vectors,
        register_elements=LANES * config.vectors,
        block_bytes=4 * config.chunk * len(candidate.workload.tensors),
        slices=-(-candidate.workload.output.elements // config.chunk),
    )


Formulas = Callable[[Candidate], Usage]


_TABLE: dict[tuple[TargetKind, str], Formulas] = {
    (TargetKind.WASM, WasmMatmulConfig.family): _contraction,
    (TargetKind.WASM, WasmPrefetchingMatmulConfig.family): _prefetching,
    (TargetKind.WASM, WasmStrassenMatmulConfig.family): _strassen,
    (TargetKind.WASM, WasmGemvConfig.family): _stream,
    (TargetKind.WASM, WasmConvConfig.family): _window,
    (TargetKind.WASM, WasmWinogradConfig.family): _winograd,
    (TargetKind.WASM, WasmAttentionConfig.family): _attention,
    (TargetKind.WASM, WasmDepthwiseConfig.family): _depthwise,
    (TargetKind.WASM, WasmDirectConvConfig.family): _direct,
    (TargetKind.WASM, WasmReductionConfig.family): _rows,
    (TargetKind.WASM, WasmElementwiseConfig.family): _map,
}

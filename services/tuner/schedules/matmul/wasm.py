"""A contraction for wasm: register tiles over blocks, with b in place or copied into panels.

Shapes, named by the settings of `WasmMatmulConfig`:

    range         blocks of the axis `outer`: a batch, block_m rows, or block_n columns
    block         c[block_m, block_n] += a[block_m, k] · b[k, block_n]
    tile          c[tile_m, tile_n], sums in registers: tile_m · tile_n / 4 vectors
    loop body     unroll_k of k: tile_m splats of a, tile_n / 4 vectors of b for each

    pack=none       b as it lies
    pack=kernel     b_global[block_n / tile_n][k][tile_n], copied for each block of columns
    pack=prepacked  b itself lies as [⌈n / tile_n⌉][k][tile_n]

What it makes of matmul+bias:f32:m8k6n32 with tiles of 2x8, blocks of 4x16, unroll_k=2, pack=kernel
and outer=n, without what is unrolled:

    for n2 < 2 range:
      for k < 6: b_global[…] = b[…]                          4. two panels of 8 columns
      for m2 < 2:
        for n1 < 2:
          for m1 < 2:                                        2. tiles of one panel, down the rows
            sums[16] = 0                                     6.
            for k1 < 3:                                      3. two k at a time
              sums[8·m0 + n0] += a[…] · b_global[…]          n0 < 8 vector, m0 < 2 unrolled
            c[…] = sums[…] + bias[…]                         5. stored once

The contraction is stated on extents rounded up to whole tiles, so that every split is perfect: with
TVM 0.27 a packed 384x768x768 matmul takes 3 ms to schedule and lower that way, and 8 to 16 ms when
the schedule carries predicates. The visit gives each parameter its true shape back and guards every
statement by the bounds of the parameters it touches (`guarded`). What lies outside does not exist,
which is right for sums of products.

Unrolled and vectorised loops stay: the pass `unrolling` takes them apart in a tenth of TVM's time.
Indices keep their axes (no FlattenBuffer), since flattening needs the true strides.
"""

from functools import lru_cache

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from services.tuner import ir
from services.tuner.operators.lowering import DTYPES
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.extents import Extents, panel_shape
from services.tuner.schedules.base.finish import finished, placeholders_of
from services.tuner.schedules.base.parameters import in_order
from services.tuner.schedules.base.register_tiles import vectorise_tile, write_back
from services.tuner.schedules.base.scheduled import ScheduledProgram, panels_layout
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.matmul.config import Outer, WasmMatmulConfig
from services.tuner.tir.lowering import lowered, plain_program, visited
from services.tuner.tir.tvm import Node, Schedule, te, tirx


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmMatmulConfig.of(candidate)
    program = matmul_program(Extents.of(candidate.workload), config)
    return ScheduledProgram(
        nests=(in_order(program, candidate.workload),),
        options=PassOptions(fma=config.fma),
        layout=panels_layout(config.panels),
    )


def matmul_program(extents: Extents, config: WasmMatmulConfig) -> ir.Program:
    """The scheduled loop nest; its parameters are a, b and c, flat, with their true sizes."""
    function = lowered(scheduled(extents, config))
    return visited(function, config.shapes(extents), config.range_extent(extents))


def scheduled(extents: Extents, config: WasmMatmulConfig) -> Node:
    """TVM's module of one scheduled function, `main`, on the extents rounded up."""
    return _schedule(config.rounded(extents), config).mod


def packing_program(extents: Extents, width: int) -> ir.Program:
    """From b to its panels, in a range of one iteration."""
    return plain_program(_packing(extents, width))


@lru_cache(maxsize=256)
def _packing(extents: Extents, width: int) -> Node:
    b = placeholders_of(extents)[1]
    zero = tirx.const(0, DTYPES[extents.b_dtype])

    def entry(*at: Node) -> Node:
        *outer, panel, k, lane = at
        n = panel * width + lane
        value = b[(*outer, n, k)] if extents.b_transposed else b[(*outer, k, n)]
        return tirx.if_then_else(n < extents.n, value, zero) if extents.n % width else value

    batch = (extents.batch,) if extents.batch else ()
    packed = te.compute((*batch, *panel_shape(extents, width)), entry, name="packed")
    return te.create_prim_func([b, packed])


@lru_cache(maxsize=256)
def contraction_function(extents: Extents, panels: int, *, widened: bool = False) -> Node:
    """The computation alone: one function for each shape, shared by all its schedules.

    `widened` states b as f32 in a stage of its own, which packing computes as it copies.
    """
    a, b, *extra = placeholders_of(extents)
    if panels:
        panel = panel_shape(extents, panels)
        b = te.placeholder((*b.shape[:-2], *panel), name="b", dtype=DTYPES[extents.b_dtype])
    shape = extents.shapes[-1]
    k = te.reduce_axis((0, extents.k), name="k")
    name = "sum" if extents.epilogue else "c"
    wide = te.compute(b.shape, lambda *at: b(*at).astype("float32"), "wide") if widened else b
    c = _contracted(
        a,
        wide,
        shape,
        k,
        a_transposed=extents.a_transposed,
        b_transposed=extents.b_transposed,
        panels=panels,
        name=name,
    )
    if extents.epilogue:
        c = finished(extents.epilogue, c, tuple(extra))
    return te.create_prim_func([a, b, *extra, c])


def _contracted(
    a: Node,
    b: Node,
    shape: tuple[int, ...],
    k: Node,
    *,
    a_transposed: bool,
    b_transposed: bool,
    panels: int = 0,
    name: str = "c",
) -> Node:
    """c[…, m, n] = Σ a[…, m, k]·b[…, k, n]; a transposed matrix has its last two axes the
    other way.

    b may come in panels of so many columns, transposed or not, and as another type than a.
    """

    def entry(*at: Node) -> Node:
        *outer, m, n = at
        left = a[(*outer, k, m)] if a_transposed else a[(*outer, m, k)]
        if panels:
            right = b[(*outer, n // panels, k, n % panels)]
        else:
            right = b[(*outer, n, k)] if b_transposed else b[(*outer, k, n)]
        return te.sum(left * right.astype("float32"), axis=k)

    return te.compute(shape, entry, name=name)


def _schedule(whole: Extents, config: WasmMatmulConfig) -> Node:
    # 1. State it, and cut rows and columns into blocks and tiles, k into bodies.
    widened = config.pack is Pack.KERNEL and whole.b_dtype is not DType.F32
    function = contraction_function(whole, config.panels, widened=widened)
    schedule = Schedule(function, debug_mask="none", enable_check=False)
    block = schedule.get_sblock("sum" if whole.epilogue else "c")
    *batch, m, n, k = schedule.get_loops(block)
    rows, panels = config.block_m // config.tile_m, config.block_n // config.tile_n
    m2, m1, m0 = schedule.split(m, [None, rows, config.tile_m], preserve_unit_iters=True)
    n2, n1, n0 = schedule.split(n, [None, panels, config.tile_n], preserve_unit_iters=True)
    k1, k0 = schedule.split(k, [None, config.unroll_k], preserve_unit_iters=True)
    # 2. Order the loops. What is packed is used by all tiles of a panel, down the rows.
    outer = {
        Outer.BATCH: (*batch, n2, m2),
        Outer.ROWS: (m2, *batch, n2),
        Outer.COLUMNS: (n2, *batch, m2),
    }[config.outer]
    inner = (m1, n1) if config.pack is Pack.NONE else (n1, m1)
    # 3. In the unrolled body rows stand outside columns: the reverse keeps one value of `a` alive
    #    for every row and halves the speed of a 5x8 tile (measured in V8 15.6 on Zen 4).
    schedule.reorder(*outer, *inner, k1, k0, m0, n0)
    schedule.vectorize(n0)
    schedule.unroll(m0)
    schedule.unroll(k0)
    # 4. Copy the panels of a block of columns.
    if config.pack is Pack.KERNEL:
        _pack(schedule, block, outer[-2], config, whole)
    # 5. Sums stay in registers until a tile is stored.
    write_back(schedule, block, inner[-1], finished="c" if whole.epilogue else "")
    # 6. They are set to zero before k.
    vectorise_tile(schedule, schedule.decompose_reduction(block, k1))
    return schedule


def _pack(schedule: Node, block: Node, at: Node, config: WasmMatmulConfig, whole: Extents) -> None:
    """Copies block_n columns of b as f32 into panels [k, tile_n], row by row of b, inside loop
    `at`."""
    width = config.tile_n
    if whole.b_dtype is DType.F32:
        copy, name = schedule.cache_read(block, 1, "global"), "b_global"
    else:
        copy, name = schedule.get_sblock("wide"), "wide"
    schedule.compute_at(copy, at, preserve_unit_loops=True)
    rank = 3 if whole.batch else 2
    if whole.b_transposed:
        schedule.transform_layout(block, name, _transposed_panels(width, rank))
        *_, column, row = schedule.get_loops(copy)
        panel, column = schedule.split(column, [None, width], preserve_unit_iters=True)
        schedule.reorder(panel, row, column)
        schedule.vectorize(column)
        return
    if config.block_n > width:
        schedule.transform_layout(block, name, _panels(width, rank))
    panel, column = schedule.split(
        schedule.get_loops(copy)[-1], [None, width], preserve_unit_iters=True
    )
    schedule.vectorize(column)
    schedule.unroll(panel)


@lru_cache(maxsize=64)
def _panels(width: int, rank: int) -> Node:
    """The map of indices [..., k, n] to [..., n // width, k, n % width]."""
    return tirx.IndexMap.from_func(
        lambda *at: (*at[:-2], at[-1] // width, at[-2], at[-1] % width),
        ndim=rank,
        index_dtype="int32",
    )


@lru_cache(maxsize=64)
def _transposed_panels(width: int, rank: int) -> Node:
    """The map of indices [..., n, k] to [..., n // width, k, n % width]."""
    return tirx.IndexMap.from_func(
        lambda *at: (*at[:-2], at[-2] // width, at[-1], at[-2] % width),
        ndim=rank,
        index_dtype="int32",
    )

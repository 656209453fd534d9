"""Winograd's F(4x4, 3x3) for wasm: tiles of the image are transformed, multiplied point by point
with transformed weights, and transformed back.

Shapes, named by the settings of `WasmWinogradConfig`; tiles are those of a block:

    range         block_n channels of `block_y` rows of tiles of an image
    padded        [4 · block_y + 2, 4 · across + 2, c]     pixels of a block, zeros outside
    points        [36][tiles, c]                        Bᵀ d B of each tile of 6 x 6 pixels
    b             [36][o / tile_n][c][tile_n]           G g Gᵀ of each window, packed before
    products      [36][tiles, block_n]                  points · b, in tiles of tile_m x tile_n
    patch         [16][block_n]                              Aᵀ m A of one tile, 4 x 4 entries

What it makes of conv2d:f32:b1h8w8c32o32kh3kw3stride1pad1:constant=b with block_y=1 and block_n=32:

    for block < 2 range:
      for row < 6: for column < 10: padded[…] = a[…] or 0     1.
      for tile < 2: for c1 < 8: points[36, tile, 4·c1 …] = …  2.
      for point < 36: … products[…] += points[…] · b[…]       3. as a contraction
      for tile < 2:
        for o1 < 8: patch[16, 4·o1 …] = …                     4.
        for y < 4: for x < 4: c[…] = patch[…] + …             5. where the output has it

After A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural Networks (2015), section 4.3;
the points are 0, 1, -1, 2, -2.
"""

from collections.abc import Callable

from msgspec.structs import replace

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.finish import stored_entry
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.tile_sums import TileSums
from services.tuner.schedules.winograd.config import IN, OUT, POINTS, WINDOW, WasmWinogradConfig

Vectors = list[ir.Expression]
KEPT = ir.local("kept", ir.LANES * 256)
"""Vectors that a transformation keeps in registers."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmWinogradConfig.of(candidate)
    return ScheduledProgram(
        nests=(winograd_program(candidate.workload, config),),
        options=PassOptions(fma=config.fma),
        layout=config.layout,
    )


def winograd_program(workload: Workload, config: WasmWinogradConfig) -> ir.Program:
    """The loop nest; its parameters are those of the workload, flat, b transformed."""
    nest = _WinogradNest(workload, config)
    body: ir.Block = (*_copied(nest), *_transformed(nest), *_multiplied(nest), *_output(nest))
    body = ir.allocated((KEPT, nest.patch, nest.products, nest.points, nest.padded), body)
    extent = config.range_extent(workload)
    return ir.program(nest.parameters, "block", extent, nest.frame.enclose(body))


class _WinogradNest:
    """All steps know these. A block has `tiles` tiles, `across` in a row, over `rows` x `columns`
    pixels; it begins with row `first` of an image of the output, and takes a `group` of channels.
    """

    def __init__(self, workload: Workload, config: WasmWinogradConfig) -> None:
        self.workload, self.config, self.frame = workload, config, ir.Frame()
        self.extent = e = workload.extent
        self.tiles, self.across = config.tiles(workload), -(-e["x"] // OUT)
        self.rows, self.columns = OUT * config.block_y + 2, OUT * self.across + 2
        self.a, b, *others = parameters_of(workload)
        self.b = replace(b, size=POINTS * e["c"] * e["o"])
        self.parameters = (self.a, self.b, *others)
        blocks, groups = config.blocks(workload), e["o"] // config.block_n
        place = self.frame.variable("block", config.range_extent(workload))
        self.image, block, self.group = self.frame.delinearize(
            place, (("image", e["b"]), ("rows", blocks), ("group", groups))
        )
        self.first = block * (OUT * config.block_y)
        self.padded = ir.scratch("padded", self.rows * self.columns * e["c"])
        self.points = ir.scratch("points", POINTS * self.tiles * e["c"])
        self.products = ir.scratch("products", POINTS * self.tiles * config.block_n)
        self.patch = ir.scratch("patch", OUT * OUT * config.block_n)

    @property
    def tile(self) -> tuple[ir.Affine, ir.Affine]:
        """The row and column of a tile in the block."""
        down = self.frame.variable("down", self.config.block_y)
        return down, self.frame.variable("right", self.across)

    def over_tiles(self, body: ir.Block) -> ir.Block:
        return ir.serial("down", self.config.block_y, ir.serial("right", self.across, body))


# Step 1: pixels of the block, with zeros around the image.


def _copied(nest: _WinogradNest) -> ir.Block:
    e, frame = nest.extent, nest.frame
    row, column = frame.variable("row", nest.rows), frame.variable("column", nest.columns)
    before = ir.constant(-e["pad"])
    y, x = nest.first + row + before, column + before
    line = nest.image * e["h"] + y
    pixel = (line * e["w"] + x) * e["c"] + _four("c1")
    here = (row * nest.columns + column) * e["c"] + _four("c1")
    copy, zero = (
        ir.serial("c1", e["c"] // ir.LANES, (nest.padded.store(here, value),))
        for value in (nest.a.vector(pixel), ir.numbers(0))
    )
    inside = frame.undecided((*_inside(y, e["h"]), *_inside(x, e["w"])))
    return ir.serial(
        "row", nest.rows, ir.serial("column", nest.columns, ir.under(inside, copy, zero))
    )


# Step 2: the points of each tile.


def _transformed(nest: _WinogradNest) -> ir.Block:
    e, work = nest.extent, _Vectors()
    down, right = nest.tile
    corner = (down * (OUT * nest.columns) + right * OUT) * e["c"] + _four("c1")
    read = [
        [nest.padded.vector(corner + (u * nest.columns + v) * e["c"]) for v in range(IN)]
        for u in range(IN)
    ]
    place = (down * nest.across + right) * e["c"] + _four("c1")
    made = _both_ways(_to_points, read, work)
    work.store(nest.points, place, nest.tiles * e["c"], made)
    return nest.over_tiles(ir.serial("c1", e["c"] // ir.LANES, work.body))


# Step 3: their products with the weights, a matrix for each point.


def _multiplied(nest: _WinogradNest) -> ir.Block:
    """products[p, t, o] = Σ points[p, t, k] · b[p, o / tile_n, k, o % tile_n]."""
    config, depth, channels = nest.config, nest.extent["c"], nest.config.block_n
    tile_m, tile_n, panels = config.tile_m, config.tile_n, channels // config.tile_n
    sums = TileSums(tile_m, tile_n, "t", "lane")
    p, panel, lane = (ir.variable(name) for name in ("p", "panel", "lane"))
    k = ir.affine(k1=config.unroll_k, k0=1)
    t = ir.affine(m=tile_m, t=1)
    left = nest.points[(p * nest.tiles + t) * depth + k]
    first = p * (nest.extent["o"] // tile_n) + nest.group * panels
    row = (first + panel) * depth + k
    right = nest.b[row * tile_n + lane]
    entry = (p * nest.tiles + t) * channels + panel * tile_n + lane

    tile: ir.Block = (
        *sums.start(),
        *ir.serial("k1", depth // config.unroll_k, sums.add(config.unroll_k, left * right)),
        *sums.each(nest.products.store(entry, sums.held)),
    )
    tile = ir.allocated((sums.buffer,), tile)
    return ir.serial(
        "p", POINTS, ir.serial("panel", panels, ir.serial("m", nest.tiles // tile_m, tile))
    )


# Steps 4 and 5: a tile back from its products, of which the output takes what it has.


def _output(nest: _WinogradNest) -> ir.Block:
    e, channels, work = nest.extent, nest.config.block_n, _Vectors()
    down, right = nest.tile
    place = (down * nest.across + right) * channels + _four("o1")
    read = [
        [nest.products.vector(place + (u * IN + v) * nest.tiles * channels) for v in range(IN)]
        for u in range(IN)
    ]
    work.store(nest.patch, _four("o1"), channels, _both_ways(_from_points, read, work))
    back = ir.serial("o1", channels // ir.LANES, work.body)
    i, j = nest.frame.variable("i", OUT), nest.frame.variable("j", OUT)
    y, x = nest.first + down * OUT + i, right * OUT + j
    own = _four("o1") + ir.variable("lane")
    channel = nest.group * channels + own
    kept = nest.patch[(i * OUT + j) * channels + own]
    store = stored_entry(nest.workload, (nest.image, y, x, channel), kept)
    exists = nest.frame.undecided((y.below(e["y"]), x.below(e["x"])))
    entries = ir.serial("o1", channels // ir.LANES, (ir.vector("lane", store),))
    stores = ir.serial("i", OUT, ir.serial("j", OUT, ir.under(exists, entries)))
    return nest.over_tiles((*back, *stores))


class _Vectors:
    """The body of a loop that computes vectors, and those that it keeps."""

    def __init__(self) -> None:
        self._statements: list[ir.Statement] = []
        self._count = 0

    @property
    def body(self) -> ir.Block:
        return tuple(self._statements)

    def keep(self, value: ir.Expression) -> ir.Expression:
        at = ir.constant(ir.LANES * self._count)
        self._count += 1
        self._statements.append(KEPT.store(at, value))
        return KEPT.vector(at)

    def store(self, buffer: ir.Buffer, first: ir.Affine, step: int, vectors: Vectors) -> None:
        """Vectors that lie `step` apart."""
        for place, value in enumerate(vectors):
            at = first + place * step
            self._statements.append(buffer.store(at, value))


def _both_ways(
    transform: Callable[[Vectors, _Vectors], Vectors], square: list[list[ir.Load]], work: _Vectors
) -> Vectors:
    """T s Tᵀ, row by row."""
    columns = [
        [work.keep(each) for each in transform([work.keep(row[j]) for row in square], work)]
        for j in range(len(square[0]))
    ]
    rows = zip(*columns, strict=True)
    return [value for row in rows for value in transform(list(row), work)]


def _to_points(d: Vectors, work: _Vectors) -> Vectors:
    """Bᵀ d: a tile of the image."""
    p = work.keep(_sum(d[4], d[2], -4))
    q = work.keep(_sum(d[3], d[1], -4))
    s = work.keep(_sum(d[4], d[2], -1))
    t = work.keep(_sum(d[3], d[1], -1))
    return [
        _sum(_sum(d[4], d[2], -5), d[0], 4),
        _sum(p, q, 1),
        _sum(p, q, -1),
        _sum(s, t, 2),
        _sum(s, t, -2),
        _sum(_sum(d[5], d[3], -5), d[1], 4),
    ]


def _of_weights(g: Vectors, work: _Vectors) -> Vectors:
    """G g: a window of weights."""
    ends = work.keep(_sum(g[0], g[2], 1))
    far = work.keep(_sum(_scaled(g[0], 1 / 24), g[2], 1 / 6))
    return [
        _scaled(g[0], 1 / 4),
        _scaled(_sum(ends, g[1], 1), -1 / 6),
        _scaled(_sum(ends, g[1], -1), -1 / 6),
        _sum(far, g[1], 1 / 12),
        _sum(far, g[1], -1 / 12),
        g[2],
    ]


def _from_points(m: Vectors, work: _Vectors) -> Vectors:
    """Aᵀ m: a tile of the output."""
    p = work.keep(_sum(m[1], m[2], 1))
    q = work.keep(_sum(m[3], m[4], 1))
    s = work.keep(_sum(m[1], m[2], -1))
    t = work.keep(_sum(m[3], m[4], -1))
    return [
        _sum(_sum(m[0], p, 1), q, 1),
        _sum(s, t, 2),
        _sum(p, q, 4),
        _sum(_sum(s, t, 8), m[5], 1),
    ]


def packing_program(workload: Workload, width: int) -> ir.Program:
    """The program that transforms b into points, in panels of `width` channels; one iteration."""
    e = workload.extent
    depth, channels = e["c"], e["o"]
    b = ir.Buffer(
        name="b", scope=ir.Scope.PARAMETER, dtype=DType.F32, size=WINDOW * WINDOW * depth * channels
    )
    packed = ir.Buffer(
        name="packed", scope=ir.Scope.PARAMETER, dtype=DType.F32, size=POINTS * depth * channels
    )
    work = _Vectors()
    channel = ir.affine(panel=width, v=ir.LANES)
    k = ir.variable("k")
    read = [
        [
            b.vector(k * channels + channel + tap * depth * channels)
            for tap in range(WINDOW * r, WINDOW * (r + 1))
        ]
        for r in range(WINDOW)
    ]
    place = ir.affine(panel=depth * width, k=width, v=ir.LANES)
    work.store(packed, place, depth * channels, _both_ways(_of_weights, read, work))
    vectors = ir.serial("v", width // ir.LANES, work.body)
    body: ir.Block = (ir.loop("k", depth, vectors),)
    body = (ir.Allocate(buffer=KEPT, body=body),)
    panels = ir.loop("panel", channels // width, body)
    return ir.program((b, packed), "whole", 1, (panels,))


def _four(var: str) -> ir.Affine:
    """Vector number `var`."""
    return ir.Affine.of(0, {var: ir.LANES})


def _inside(place: ir.Affine, size: int) -> tuple[ir.Bound, ...]:
    return place.below(size), place.at_least(0)


def _scaled(value: ir.Expression, factor: float) -> ir.Expression:
    return value * ir.numbers(factor)


def _sum(left: ir.Expression, right: ir.Expression, factor: float) -> ir.Expression:
    """left + factor · right."""
    if factor in (1, -1):
        return ir.Binary(
            op=ir.BinaryOp.ADD if factor == 1 else ir.BinaryOp.SUB, left=left, right=right
        )
    return left + _scaled(right, factor)

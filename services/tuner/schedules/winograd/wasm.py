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

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    Frame,
    binary,
    constant,
    loop,
    number,
    numbers,
    serial,
    under,
    unrolled,
    vector,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Expression,
    Load,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
)
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.finish import stored_entry
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.winograd.config import IN, OUT, POINTS, WINDOW, WasmWinogradConfig

Vectors = list[Expression]
KEPT = Buffer(name="kept", scope=Scope.LOCAL, dtype=DType.F32, size=LANES * 256)
"""Vectors that a transformation keeps in registers."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmWinogradConfig.of(candidate)
    return ScheduledProgram(
        nests=(winograd_program(candidate.workload, config),),
        options=PassOptions(fma=config.fma),
        layout=config.layout,
    )


def winograd_program(workload: Workload, config: WasmWinogradConfig) -> Program:
    """The loop nest; its parameters are those of the workload, flat, b transformed."""
    e, frame = workload.extent, Frame()
    blocks, tiles, across = config.blocks(workload), config.tiles(workload), -(-e["x"] // OUT)
    rows, columns = OUT * config.block_y + 2, OUT * across + 2
    a, b, *rest = parameters_of(workload)
    parts = (("image", e["b"]), ("rows", blocks), ("group", e["o"] // config.block_n))
    place = frame.variable("block", config.range_extent(workload))
    image, block, group = frame.delinearize(place, parts)
    nest = _Nest(
        workload=workload,
        config=config,
        extent=e,
        frame=frame,
        across=across,
        tiles=tiles,
        rows=rows,
        columns=columns,
        image=image,
        first=block.times(OUT * config.block_y),
        group=group,
        a=a,
        b=Buffer(name=b.name, scope=b.scope, dtype=b.dtype, size=POINTS * e["c"] * e["o"]),
        padded=_scratch("padded", rows * columns * e["c"]),
        points=_scratch("points", POINTS * tiles * e["c"]),
        products=_scratch("products", POINTS * tiles * config.block_n),
        patch=_scratch("patch", OUT * OUT * config.block_n),
    )
    body: Block = (*_copied(nest), *_transformed(nest), *_multiplied(nest), *_output(nest))
    for buffer in (KEPT, nest.patch, nest.products, nest.points, nest.padded):
        body = (Allocate(buffer=buffer, body=body),)
    whole = loop("block", config.range_extent(workload), LoopKind.RANGE, frame.enclose(body))
    return Program(parameters=(a, nest.b, *rest), body=whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    """What all steps know. A block has `tiles` tiles, `across` in a row, over `rows` x `columns`
    pixels; it begins with row `first` of an image of the output, and takes a `group` of channels.
    """

    workload: Workload
    config: WasmWinogradConfig
    extent: Mapping[str, int]
    frame: Frame
    across: int
    tiles: int
    rows: int
    columns: int
    image: Affine
    first: Affine
    group: Affine
    a: Buffer
    b: Buffer
    padded: Buffer
    points: Buffer
    products: Buffer
    patch: Buffer

    @property
    def tile(self) -> tuple[Affine, Affine]:
        """The row and column of a tile in the block."""
        down = self.frame.variable("down", self.config.block_y)
        return down, self.frame.variable("right", self.across)

    def over_tiles(self, body: Block) -> Block:
        return serial("down", self.config.block_y, serial("right", self.across, body))


# Step 1: pixels of the block, with zeros around the image.


def _copied(nest: _Nest) -> Block:
    e, frame = nest.extent, nest.frame
    row, column = frame.variable("row", nest.rows), frame.variable("column", nest.columns)
    before = constant(-e["pad"])
    y, x = nest.first.plus(row).plus(before), column.plus(before)
    line = nest.image.times(e["h"]).plus(y)
    pixel = line.times(e["w"]).plus(x).times(e["c"]).plus(_four("c1"))
    here = row.times(nest.columns).plus(column).times(e["c"]).plus(_four("c1"))
    copy, zero = (
        serial("c1", e["c"] // LANES, (Store(buffer=nest.padded, index=here, value=value),))
        for value in (_vector(nest.a, pixel), numbers(0))
    )
    inside = frame.undecided((*_inside(y, e["h"]), *_inside(x, e["w"])))
    return serial("row", nest.rows, serial("column", nest.columns, under(inside, copy, zero)))


# Step 2: the points of each tile.


def _transformed(nest: _Nest) -> Block:
    e, work = nest.extent, _Vectors()
    down, right = nest.tile
    corner = down.times(OUT * nest.columns).plus(right.times(OUT)).times(e["c"]).plus(_four("c1"))
    read = [
        [
            _vector(nest.padded, corner.plus(constant((u * nest.columns + v) * e["c"])))
            for v in range(IN)
        ]
        for u in range(IN)
    ]
    place = down.times(nest.across).plus(right).times(e["c"]).plus(_four("c1"))
    made = _both_ways(_to_points, read, work)
    work.store(nest.points, place, nest.tiles * e["c"], made)
    return nest.over_tiles(serial("c1", e["c"] // LANES, work.body))


# Step 3: their products with the weights, a matrix for each point.


def _multiplied(nest: _Nest) -> Block:
    """products[p, t, o] = Σ points[p, t, k] · b[p, o / tile_n, k, o % tile_n]."""
    config, depth, channels = nest.config, nest.extent["c"], nest.config.block_n
    tile_m, tile_n, panels = config.tile_m, config.tile_n, channels // config.tile_n
    sums = Buffer(name="sums", scope=Scope.LOCAL, dtype=DType.F32, size=tile_m * tile_n)
    p, panel, lane = (Affine.variable(name) for name in ("p", "panel", "lane"))
    k = Affine.of(0, {"k1": config.unroll_k, "k0": 1})
    t = Affine.of(0, {"m": tile_m, "t": 1})
    own = Affine.of(0, {"t": tile_n, "lane": 1})
    left = Load(buffer=nest.points, index=p.times(nest.tiles).plus(t).times(depth).plus(k))
    first = p.times(nest.extent["o"] // tile_n).plus(nest.group.times(panels))
    row = first.plus(panel).times(depth).plus(k)
    right = Load(buffer=nest.b, index=row.times(tile_n).plus(lane))
    held = Load(buffer=sums, index=own)
    value = binary(BinaryOp.ADD, held, binary(BinaryOp.MUL, left, right))
    entry = p.times(nest.tiles).plus(t).times(channels).plus(panel.times(tile_n)).plus(lane)

    def each(store: Store) -> Statement:
        return unrolled("t", tile_m, loop("lane", tile_n, LoopKind.VECTOR, (store,)))

    body = unrolled("k0", config.unroll_k, each(Store(buffer=sums, index=own, value=value)))
    tile: Block = (
        each(Store(buffer=sums, index=own, value=number(0))),
        *serial("k1", depth // config.unroll_k, (body,)),
        each(Store(buffer=nest.products, index=entry, value=held)),
    )
    tile = (Allocate(buffer=sums, body=tile),)
    return serial("p", POINTS, serial("panel", panels, serial("m", nest.tiles // tile_m, tile)))


# Steps 4 and 5: a tile back from its products, of which the output takes what it has.


def _output(nest: _Nest) -> Block:
    e, channels, work = nest.extent, nest.config.block_n, _Vectors()
    down, right = nest.tile
    place = down.times(nest.across).plus(right).times(channels).plus(_four("o1"))
    read = [
        [
            _vector(nest.products, place.plus(constant((u * IN + v) * nest.tiles * channels)))
            for v in range(IN)
        ]
        for u in range(IN)
    ]
    work.store(nest.patch, _four("o1"), channels, _both_ways(_from_points, read, work))
    back = serial("o1", channels // LANES, work.body)
    i, j = nest.frame.variable("i", OUT), nest.frame.variable("j", OUT)
    y, x = nest.first.plus(down.times(OUT)).plus(i), right.times(OUT).plus(j)
    own = _four("o1").plus(Affine.variable("lane"))
    channel = nest.group.times(channels).plus(own)
    kept = Load(buffer=nest.patch, index=i.times(OUT).plus(j).times(channels).plus(own))
    store = stored_entry(nest.workload, (nest.image, y, x, channel), kept)
    exists = nest.frame.undecided((Bound(index=y, limit=e["y"]), Bound(index=x, limit=e["x"])))
    entries = serial("o1", channels // LANES, (vector("lane", store),))
    stores = serial("i", OUT, serial("j", OUT, under(exists, entries)))
    return nest.over_tiles((*back, *stores))


class _Vectors:
    """The body of a loop that computes vectors, and those that it keeps."""

    def __init__(self) -> None:
        self._statements: list[Statement] = []
        self._count = 0

    @property
    def body(self) -> Block:
        return tuple(self._statements)

    def keep(self, value: Expression) -> Expression:
        at = constant(LANES * self._count)
        self._count += 1
        self._statements.append(Store(buffer=KEPT, index=at, value=value))
        return _vector(KEPT, at)

    def store(self, buffer: Buffer, first: Affine, step: int, vectors: Vectors) -> None:
        """Vectors that lie `step` apart."""
        for place, value in enumerate(vectors):
            at = first.plus(constant(place * step))
            self._statements.append(Store(buffer=buffer, index=at, value=value))


def _both_ways(
    transform: Callable[[Vectors, _Vectors], Vectors], square: list[list[Load]], work: _Vectors
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


def packing_program(workload: Workload, width: int) -> Program:
    """The program that transforms b into points, in panels of `width` channels; one iteration."""
    e = workload.extent
    depth, channels = e["c"], e["o"]
    b = Buffer(
        name="b", scope=Scope.PARAMETER, dtype=DType.F32, size=WINDOW * WINDOW * depth * channels
    )
    packed = Buffer(
        name="packed", scope=Scope.PARAMETER, dtype=DType.F32, size=POINTS * depth * channels
    )
    work = _Vectors()
    channel = Affine.of(0, {"panel": width, "v": LANES})
    k = Affine.variable("k")
    read = [
        [
            _vector(b, k.times(channels).plus(channel).plus(constant(tap * depth * channels)))
            for tap in range(WINDOW * r, WINDOW * (r + 1))
        ]
        for r in range(WINDOW)
    ]
    place = Affine.of(0, {"panel": depth * width, "k": width, "v": LANES})
    work.store(packed, place, depth * channels, _both_ways(_of_weights, read, work))
    vectors = serial("v", width // LANES, work.body)
    body: Block = (loop("k", depth, LoopKind.SERIAL, vectors),)
    body = (Allocate(buffer=KEPT, body=body),)
    panels = loop("panel", channels // width, LoopKind.SERIAL, body)
    return Program(parameters=(b, packed), body=loop("whole", 1, LoopKind.RANGE, (panels,)))


def _scratch(name: str, size: int) -> Buffer:
    return Buffer(name=name, scope=Scope.GLOBAL, dtype=DType.F32, size=size)


def _four(var: str) -> Affine:
    """Vector number `var`."""
    return Affine.of(0, {var: LANES})


def _vector(buffer: Buffer, index: Affine) -> Load:
    return Load(buffer=buffer, index=index, lanes=LANES)


def _inside(place: Affine, size: int) -> tuple[Bound, ...]:
    return Bound(index=place, limit=size), Bound(index=place.times(-1), limit=1)


def _scaled(value: Expression, factor: float) -> Expression:
    return binary(BinaryOp.MUL, value, numbers(factor))


def _sum(left: Expression, right: Expression, factor: float) -> Expression:
    """left + factor · right."""
    if factor in (1, -1):
        return binary(BinaryOp.ADD if factor == 1 else BinaryOp.SUB, left, right)
    return binary(BinaryOp.ADD, left, _scaled(right, factor))

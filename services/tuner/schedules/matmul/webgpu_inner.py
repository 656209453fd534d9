"""The sums of a thread's tile: what is read for them, from where, and the products."""

from dataclasses import dataclass, replace

from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame, binary, serial, total, unrolled, vector
from services.tuner.ir.kinds import LANES, BinaryOp, Element, Scope
from services.tuner.ir.nodes import Block, Buffer, Load, Store
from services.tuner.schedules.base.flow import Flow
from services.tuner.schedules.matmul.webgpu_blocks import in_blocks
from services.tuner.schedules.matmul.webgpu_config import Cache, Prefetch, TilesConfig
from services.tuner.schedules.matmul.webgpu_layers import layers_of
from services.tuner.schedules.matmul.webgpu_loads import loaded
from services.tuner.schedules.matmul.webgpu_operands import Operand, Piece, piece
from services.tuner.schedules.matmul.webgpu_place import Place
from services.tuner.schedules.matmul.webgpu_staging import Tile, held_elements, read, units, written


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """`block` adds all products to the sums; it needs the buffers."""

    local: tuple[Buffer, ...]
    workgroup: tuple[Buffer, ...]
    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Where products find row i of a and columns 4j + lane of b, for k = 4·k4 + q.

    `step` is done before the products of four k, `each` before those of one.
    """

    a: Load
    b: Load
    step: Block = ()
    each: Block = ()


def inner_of(
    frame: Frame, config: TilesConfig, operands: tuple[Operand, Operand], place: Place, sums: Buffer
) -> Inner:
    make = _direct if config.cache is Cache.NONE else _cached
    return make(frame, config, operands, place, sums)


def _buffer(name: str, size: int, scope: Scope = Scope.LOCAL) -> Buffer:
    return Buffer(name=name, scope=scope, element=Element.F32, size=size)


def _form(constant: int = 0, **coefficients: int) -> Affine:
    return Affine.of(constant, coefficients)


def _products(config: TilesConfig, sums: Buffer, source: _Source) -> Block:
    """All products of `unroll_k` of k. Rows stand outside columns, as for wasm."""
    here = _form(i=config.tile_n, j=LANES, lane=1)
    product = binary(BinaryOp.MUL, source.a, source.b)
    value = binary(BinaryOp.ADD, Load(buffer=sums, index=here), product)
    row = unrolled(
        "j", config.tile_n // LANES, vector("lane", Store(buffer=sums, index=here, value=value))
    )
    each = unrolled("q", LANES, *source.each, unrolled("i", config.tile_m, row))
    return (unrolled("k4", config.unroll_k // LANES, *source.step, each),)


def _direct(
    frame: Frame, config: TilesConfig, operands: tuple[Operand, Operand], place: Place, sums: Buffer
) -> Inner:
    """Every thread reads its rows of a and columns of b from where they lie."""
    a, b = operands
    own_a = _buffer("own_a", LANES * config.tile_m)
    own_b = _buffer("own_b", LANES * config.tile_n)
    rows = [place.row.plus(place.own_row(i)) for i in range(config.tile_m)]
    columns = [place.column.plus(place.own_column(j)) for j in range(config.tile_n)]
    pieces_a, pieces_b = _own_pieces(frame, a, rows), _own_pieces(frame, b, columns)
    frame.ranges["k4"] = (0, config.unroll_k // LANES - 1)
    count, reading = in_blocks(frame, place, config, a)

    def at(start: Affine, *, tail: bool) -> Block:
        here = total(start, place.layer.times(config.unroll_k), _form(k4=LANES))
        return (
            *loaded(frame, pieces_a, own_a, here, tail=tail),
            *loaded(frame, pieces_b, own_b, here, tail=tail),
        )

    source = _Source(
        a=Load(buffer=own_a, index=_own_index(a, _form(i=1), config.tile_m)),
        b=Load(buffer=own_b, index=_own_index(b, _form(j=LANES, lane=1), config.tile_n)),
        step=reading(_form(block=1), at),
    )
    body = _products(config, sums, source)
    return Inner(local=(own_a, own_b), workgroup=(), block=serial("block", count, body))


def _own_pieces(frame: Frame, operand: Operand, places: list[Affine]) -> tuple[Piece, ...]:
    """Four k of every row or column, kept as `_own_index` says."""
    zero = Affine(constant=0)
    name = f"{operand.buffer.name}.own"
    if not operand.k_outer:
        return tuple(
            piece(frame, f"{name}{at}", operand, place, zero, LANES * at)
            for at, place in enumerate(places)
        )
    firsts = [
        piece(frame, f"{name}{at}", operand, places[at], zero, at)
        for at in range(0, len(places), LANES)
    ]
    return tuple(
        replace(first, k=Affine(constant=q), slot=q * len(places) + first.slot)
        for q in range(LANES)
        for first in firsts
    )


def _own_index(operand: Operand, element: Affine, count: int) -> Affine:
    if operand.k_outer:
        return element.plus(_form(q=count))
    return element.times(LANES).plus(_form(q=1))


def _cached(
    frame: Frame, config: TilesConfig, operands: tuple[Operand, Operand], place: Place, sums: Buffer
) -> Inner:
    """Threads copy blocks of a and b into workgroup memory together, and read their tiles there."""
    tiles = _tiles(config, operands, place)
    shares = [(tile, units(frame, tile, place.thread, config.threads)) for tile in tiles]
    count, reading = in_blocks(frame, place, config, operands[0])
    own_a = _buffer("own_a", LANES * config.tile_m if config.cache is Cache.ROWS else config.tile_m)

    def at(start: Affine, *, tail: bool) -> Block:
        return tuple(
            s for tile, share in shares for s in read(frame, tile, share, start, tail=tail)
        )

    def copied(half: Affine) -> Block:
        return tuple(s for tile, share in shares for s in written(tile, share, half))

    def products(half: Affine) -> Block:
        return _from_workgroup(config, place, tiles, half, own_a, sums)

    flow = Flow(count=count, reading=reading, at=at, copied=copied, products=products)
    return Inner(
        local=(own_a, *(tile.held for tile in tiles)),
        workgroup=tuple(tile.shared for tile in tiles),
        block=flow.block(config.prefetch),
    )


def _tiles(
    config: TilesConfig, operands: tuple[Operand, Operand], place: Place
) -> tuple[Tile, Tile]:
    """Each has workgroup memory of its own, or they share that of the layers."""
    a, b = operands
    grouped = config.cache is Cache.TURNED
    of_a = _tile(config, a, place.row, config.block_m, grouped, config.a_stride)
    of_b = _tile(config, b, place.column, config.block_n, True, config.block_n)
    for shared in layers_of(config):
        of_b = replace(of_b, shared=shared, base=of_a.shared.size)
        of_a = replace(of_a, shared=shared)
    return of_a, of_b


def _tile(
    config: TilesConfig, operand: Operand, first: Affine, length: int, k_outer: bool, stride: int
) -> Tile:
    halves = 2 if config.prefetch is Prefetch.BLOCKS else 1
    turns = k_outer is not operand.k_outer
    held = held_elements(length, config.block_k, config.threads, turns=turns)
    rows = config.block_k if k_outer else length
    name = operand.buffer.name
    return Tile(
        operand=operand,
        first=first,
        length=length,
        depth=config.block_k,
        k_outer=k_outer,
        stride=stride,
        half=rows * stride,
        base=0,
        shared=_buffer(f"block_{name}", halves * rows * stride, Scope.WORKGROUP),
        held=_buffer(f"next_{name}", held),
    )


def _from_workgroup(
    config: TilesConfig,
    place: Place,
    tiles: tuple[Tile, Tile],
    half: Affine,
    own_a: Buffer,
    sums: Buffer,
) -> Block:
    tile_a, tile_b = tiles
    half_a, half_b = tile_a.start(half), tile_b.start(half)
    k = total(place.layer.times(config.layer_k), _form(k2=config.unroll_k, k4=LANES))
    column = place.tile_column.plus(_form(j=place.columns)).times(LANES)
    b = total(half_b, k.plus(_form(q=1)).times(tile_b.stride), column, _form(lane=1))
    load_b = Load(buffer=tile_b.shared, index=b)
    if config.cache is Cache.ROWS:
        row = place.tile_row.plus(_form(i=place.rows))
        there = total(half_a, row.times(tile_a.stride), k, _form(lane=1))
        copy = _copy(own_a, _form(i=LANES, lane=1), tile_a.shared, there)
        source = _Source(
            a=Load(buffer=own_a, index=_form(i=LANES, q=1)),
            b=load_b,
            step=(unrolled("i", config.tile_m, vector("lane", copy)),),
        )
    else:
        row = place.tile_row.plus(_form(g=place.rows)).times(LANES)
        there = total(half_a, k.plus(_form(q=1)).times(tile_a.stride), row, _form(lane=1))
        copy = _copy(own_a, _form(g=LANES, lane=1), tile_a.shared, there)
        source = _Source(
            a=Load(buffer=own_a, index=_form(i=1)),
            b=load_b,
            each=(unrolled("g", config.tile_m // LANES, vector("lane", copy)),),
        )
    body = _products(config, sums, source)
    return serial("k2", config.layer_k // config.unroll_k, body)


def _copy(into: Buffer, here: Affine, source: Buffer, there: Affine) -> Store:
    return Store(buffer=into, index=here, value=Load(buffer=source, index=there))

"""Blocks of a and b on their way into workgroup memory, a unit of each thread at a time.

A unit is four neighbours, stored as they lie; or four of those, of four rows or columns, stored
turned, so that the four of one k become neighbours.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame, total, under, vector
from services.tuner.ir.kinds import LANES
from services.tuner.ir.nodes import Block, Bound, Buffer, Load, Store
from services.tuner.schedules.matmul.webgpu_loads import loaded
from services.tuner.schedules.matmul.webgpu_operands import Operand, Piece, piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one thread moves: pieces, and where in workgroup memory they go, lane by "lane".

    `bounds` hold where the thread has such a unit at all.
    """

    pieces: tuple[Piece, ...]
    stores: tuple[Store, ...]
    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """`length` rows or columns from `first` on, `depth` of k: of an operand, for a workgroup.

    In workgroup memory it lies from element `base` on as [k, place] or [place, k], rows `stride`
    elements apart; where there are two of it, they are `half` elements apart.
    """

    operand: Operand
    first: Affine
    length: int
    depth: int
    k_outer: bool
    stride: int
    half: int
    base: int
    shared: Buffer
    held: Buffer
    """Between memory and workgroup memory, a thread's own."""

    def start(self, half: Affine) -> Affine:
        """In workgroup memory, of half 0 or 1."""
        return half.times(self.half).plus(Affine(constant=self.base))


def units(frame: Frame, tile: Tile, thread: Affine, threads: int) -> tuple[Unit, ...]:
    """The thread's share; its place in the tile is named in the frame."""
    turns = tile.k_outer is not tile.operand.k_outer
    outer, inner = (tile.length, tile.depth)
    if tile.operand.k_outer:
        outer, inner = inner, outer
    rows = outer // LANES if turns else outer
    count = rows * inner // LANES
    found = []
    row = step = Affine(constant=0)
    steps = inner // LANES
    for number in range(-(-count // threads)):
        place = thread.plus(Affine(constant=number * threads))
        name = f"{tile.operand.buffer.name}{number}"
        if number and not threads % steps:
            row = row.plus(Affine(constant=threads // steps))
        else:
            row, step = frame.digits(place, ((f"{name}.row", rows), (f"{name}.step", steps)))
        short = (number + 1) * threads > count
        found.append(
            Unit(
                pieces=_pieces(frame, name, tile, row, step, number, turns=turns),
                stores=_stores(tile, row, step, number, turns=turns),
                bounds=(Bound(index=place, limit=count),) if short else (),
            )
        )
    return tuple(found)


def held_elements(tile_length: int, depth: int, threads: int, *, turns: bool) -> int:
    each = LANES * LANES if turns else LANES
    return each * -(-tile_length * depth // (each * threads))


def _pieces(
    frame: Frame, name: str, tile: Tile, row: Affine, step: Affine, number: int, *, turns: bool
) -> tuple[Piece, ...]:
    neighbours = step.times(LANES)
    if not turns:
        place, k = (neighbours, row) if tile.operand.k_outer else (row, neighbours)
        at = tile.first.plus(place)
        return (piece(frame, f"{name}.at", tile.operand, at, k, LANES * number),)
    first = tile.first.plus(row.times(LANES))
    return tuple(
        piece(
            frame,
            f"{name}.at{each}",
            tile.operand,
            first.plus(Affine(constant=each)),
            neighbours,
            LANES * (LANES * number + each),
        )
        for each in range(LANES)
    )


def _stores(
    tile: Tile, row: Affine, step: Affine, number: int, *, turns: bool
) -> tuple[Store, ...]:
    lane = Affine.variable("lane")
    if not turns:
        here = total(row.times(tile.stride), step.times(LANES), lane)
        value = Load(buffer=tile.held, index=lane.plus(Affine(constant=LANES * number)))
        return (Store(buffer=tile.shared, index=here, value=value),)
    found: list[Store] = []
    for each in range(LANES):
        k = step.times(LANES).plus(Affine(constant=each))
        here = total(k.times(tile.stride), row.times(LANES), lane)
        slot = Affine(constant=LANES * LANES * number + each)
        value = Load(buffer=tile.held, index=lane.times(LANES).plus(slot))
        found.append(Store(buffer=tile.shared, index=here, value=value))
    return tuple(found)


def read(frame: Frame, tile: Tile, share: tuple[Unit, ...], start: Affine, *, tail: bool) -> Block:
    """The thread's units of the block of k at `start`, into registers."""
    return tuple(
        statement
        for unit in share
        for statement in under(unit.bounds, loaded(frame, unit.pieces, tile.held, start, tail=tail))
    )


def written(tile: Tile, share: tuple[Unit, ...], half: Affine) -> Block:
    """The thread's units, from registers into a half of workgroup memory."""
    shift = tile.start(half)
    return tuple(
        statement
        for unit in share
        for statement in under(
            unit.bounds,
            tuple(
                vector("lane", replace(store, index=store.index.plus(shift)))
                for store in unit.stores
            ),
        )
    )

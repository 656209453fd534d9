"""How threads read pieces of a and b: four neighbours in memory at a time.

Rows and columns outside of a matrix do not exist, and what is computed of them is never stored, so
a piece there is read from the edge instead: no load has a condition. Only where the summed axis
ends inside a block are pieces outside of it zeros.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from services.tuner.extents import Extents
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import LANES, Frame, number, under, vector
from services.tuner.ir.nodes import Block, Bound, Buffer, Load, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A matrix of `extent` rows or columns and k, for each of the batch.

    `k_outer`: it lies as [k, extent], else as [extent, k].
    """

    buffer: Buffer
    extent: int
    k: int
    k_outer: bool
    batch: Affine

    @property
    def inner(self) -> int:
        """Length of the axis along which neighbours lie."""
        return self.extent if self.k_outer else self.k

    @property
    def wide(self) -> bool:
        """Every piece is one vector."""
        return self.inner % LANES == 0

    def at(self, place: Affine, k: Affine) -> Load:
        within = k.times(self.extent).plus(place) if self.k_outer else place.times(self.k).plus(k)
        start = self.batch.times(self.extent * self.k)
        return Load(buffer=self.buffer, index=start.plus(within))


def operands_of(
    parameters: tuple[Buffer, ...], extents: Extents, batch: Affine
) -> tuple[Operand, Operand]:
    a, b, *_ = parameters
    return (
        Operand(buffer=a, extent=extents.m, k=extents.k, k_outer=extents.a_turned, batch=batch),
        Operand(buffer=b, extent=extents.n, k=extents.k, k_outer=not extents.b_turned, batch=batch),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Four neighbours of an operand: `places` are rows or columns, one for all four or one each;
    `k` is from the start of a block. They are kept from element `slot` of a local buffer on."""

    operand: Operand
    places: tuple[Affine, ...]
    k: Affine
    slot: int


def piece(frame: Frame, name: str, operand: Operand, place: Affine, k: Affine, slot: int) -> Piece:
    """The piece at a row or column, which the frame names where it has to be moved inside."""
    if not operand.k_outer:
        places: tuple[Affine, ...] = (frame.clamped(name, place, operand.extent, 1),)
    elif operand.wide:
        places = (frame.clamped(name, place, operand.extent, LANES),)
    else:
        each = (replace(place, constant=place.constant + lane) for lane in range(LANES))
        places = tuple(
            frame.clamped(f"{name}.{lane}", one, operand.extent, 1) for lane, one in enumerate(each)
        )
    return Piece(operand=operand, places=places, k=k, slot=slot)


def loaded(
    frame: Frame, pieces: Iterable[Piece], into: Buffer, start: Affine, *, tail: bool
) -> Block:
    """The pieces of the block of k at `start`; in the `tail`, zeros behind the end of k."""
    return tuple(
        statement for one in pieces for statement in _loaded(frame, one, into, start, tail=tail)
    )


def _loaded(frame: Frame, one: Piece, into: Buffer, start: Affine, *, tail: bool) -> Block:
    operand, k = one.operand, start.plus(one.k)
    lane = Affine.variable("lane")
    if operand.wide:
        along_k = operand.at(one.places[0], k.plus(lane))
        along_place = operand.at(one.places[0].plus(lane), k)
        load = along_place if operand.k_outer else along_k
        here = lane.plus(Affine(constant=one.slot))
        body: Block = (vector("lane", Store(buffer=into, index=here, value=load)),)
        zeros: Block = (vector("lane", Store(buffer=into, index=here, value=number(0))),)
        return _within(frame, body, zeros, k, operand.k, tail=tail)
    found: Block = ()
    for lanes in range(LANES):
        place = one.places[lanes % len(one.places)]
        depth = k if operand.k_outer else replace(k, constant=k.constant + lanes)
        here = Affine(constant=one.slot + lanes)
        body = (Store(buffer=into, index=here, value=operand.at(place, depth)),)
        zeros = (Store(buffer=into, index=here, value=number(0)),)
        found += _within(frame, body, zeros, depth, operand.k, tail=tail)
    return found


def _within(
    frame: Frame, body: Block, zeros: Block, k: Affine, extent: int, *, tail: bool
) -> Block:
    if not tail or frame.most(k) < extent:
        return body
    return under((Bound(index=k, limit=extent),), body, zeros)

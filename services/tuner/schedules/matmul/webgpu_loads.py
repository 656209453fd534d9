"""How threads read pieces of a and b into registers.

No load of a matrix has a condition: only where the summed axis ends inside a block are pieces
outside of it zeros. What is gathered from images is zero outside of them.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame, number, under, vector
from services.tuner.ir.kinds import LANES
from services.tuner.ir.nodes import Block, Bound, Buffer, Load, Store
from services.tuner.schedules.conv.implicit_gemm import Window
from services.tuner.schedules.matmul.webgpu_operands import Piece


def loaded(
    frame: Frame, pieces: Iterable[Piece], into: Buffer, start: Affine, *, tail: bool
) -> Block:
    """The pieces of the block of k at `start`; in the `tail`, zeros behind the end of k."""
    found = tuple(pieces)
    window = found[0].operand.window
    if window is not None:
        return _gathered(frame, window, found, into, start, tail=tail)
    return tuple(
        statement for one in found for statement in _loaded(frame, one, into, start, tail=tail)
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


def _gathered(
    frame: Frame,
    window: Window,
    pieces: tuple[Piece, ...],
    into: Buffer,
    start: Affine,
    *,
    tail: bool,
) -> Block:
    """Pieces of windows. Those at one k are at the same place of their windows, named once."""
    inside = frame.inside()
    taps: dict[Affine, tuple[Affine, ...]] = {}
    found: Block = ()
    for one in pieces:
        for offset, within in enumerate(_columns(one)):
            if within not in taps:
                name = f"{one.operand.buffer.name}.tap{len(taps)}"
                taps[within] = window.tap(inside, name, start, within)
            here = Affine(constant=one.slot + offset)
            k = start.plus(within)
            end = (Bound(index=k, limit=one.operand.k),) if tail else ()
            bounds = inside.open((*end, *window.bounds(one.places, taps[within])))
            found += _element(window, one, taps[within], into, here, bounds)
    return inside.around(found)


def _columns(one: Piece) -> tuple[Affine, ...]:
    """Of a, from the start of a block: the first of four neighbours, or each of four."""
    if one.operand.wide:
        return (one.k,)
    return tuple(replace(one.k, constant=one.k.constant + lane) for lane in range(LANES))


def _element(
    window: Window,
    one: Piece,
    tap: tuple[Affine, ...],
    into: Buffer,
    here: Affine,
    bounds: tuple[Bound, ...],
) -> Block:
    place = window.element(one.places, tap)
    lane = Affine.variable("lane") if one.operand.wide else Affine(constant=0)
    load = Load(buffer=one.operand.buffer, index=place.plus(lane))
    stores = [Store(buffer=into, index=here.plus(lane), value=value) for value in (load, number(0))]
    body, zeros = ((vector("lane", store),) if one.operand.wide else (store,) for store in stores)
    return under(bounds, body, zeros if bounds else ())

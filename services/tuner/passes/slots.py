"""Which register holds which element of a local buffer."""

from dataclasses import dataclass

from services.tuner.ir.lanes import lanes_of
from services.tuner.ir.nodes import (
    Assign,
    Block,
    Buffer,
    Const,
    Expression,
    Let,
    Load,
    Register,
    Store,
)
from services.tuner.ir.rewrite import leaves, statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One element: a lane of a register."""

    register: Register
    lane: int


Slots = dict[int, Slot]
"""The slot of each element that is used."""


Piece = tuple[int, int]
"""First element and lanes of one access."""


def slots_of(buffer: Buffer, body: Block, *, replaces: bool) -> Slots | None:
    """None where the buffer has to stay memory: an index varies, or pieces overlap.

    `replaces` lets single lanes be stored into a register of four that was stored whole before.
    """
    stores: dict[Piece, bool] = {}
    loads: dict[Piece, None] = {}
    for statement in statements(body):
        if isinstance(statement, Let) and _reads(statement.value, buffer):
            return None
        if not isinstance(statement, Store | Assign):
            continue
        for load in leaves(statement.value):
            if isinstance(load, Load) and load.buffer.name == buffer.name:
                if load.index.terms:
                    return None
                loads[load.index.constant, load.lanes] = None
        if isinstance(statement, Store) and statement.buffer.name == buffer.name:
            if statement.index.terms:
                return None
            piece = statement.index.constant, lanes_of(statement.value)
            stores[piece] = stores.get(piece, True) and isinstance(statement.value, Const)
    slots = _placed(buffer, stores, replaces=replaces)
    return slots if slots is not None and all(_covered(slots, piece) for piece in loads) else None


def _reads(value: Expression, buffer: Buffer) -> bool:
    return any(isinstance(leaf, Load) and leaf.buffer.name == buffer.name for leaf in leaves(value))


def _placed(buffer: Buffer, stores: dict[Piece, bool], *, replaces: bool) -> Slots | None:
    """A slot for each stored element; `stores`, in their order, says whether a piece holds
    constants alone."""
    singles = {first for first, lanes in stores if lanes == 1}
    slots: Slots = {}
    for (first, lanes), constant in stores.items():
        if lanes == 1 and first in slots:
            continue
        split = lanes > 1 and not singles.isdisjoint(range(first, first + lanes))
        if split and not constant:
            if not replaces:
                return None
            split = False
        width = 1 if split else lanes
        for start in range(first, first + lanes, width):
            register = Register(name=f"{buffer.name}[{start}]", lanes=width)
            for lane in range(width):
                slot = Slot(register=register, lane=lane)
                if slots.setdefault(start + lane, slot) != slot:
                    return None
    return slots


def _covered(slots: Slots, piece: Piece) -> bool:
    first, lanes = piece
    slot = slots.get(first)
    if slot is None:
        return False
    return lanes == 1 or (slot.lane == 0 and slot.register.lanes == lanes)

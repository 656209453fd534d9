"""Which register holds which element of a local buffer."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from services.tuner.ir.lanes import lanes_of
from services.tuner.ir.nodes import (
    Assign,
    Block,
    Buffer,
    Const,
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


def slots_of(
    buffers: Sequence[Buffer], body: Block, *, gathers: bool = False, replaces: bool = False
) -> dict[str, Slots]:
    """Of those buffers that need not stay memory, by name: where all indices are constant and no
    pieces overlap.

    With `gathers`, registers of one lane may be read as one of several; `replaces` lets single
    lanes be stored into a register of four that was stored whole before.
    """
    uses = {buffer.name: _Use() for buffer in buffers}
    for statement in statements(body):
        if isinstance(statement, _WITH_VALUES):
            _note(statement, uses)
    return {
        buffer.name: slots
        for buffer in buffers
        if (slots := _slots(buffer, uses[buffer.name], gathers=gathers, replaces=replaces))
        is not None
    }


_WITH_VALUES = (Store, Assign, Let)


@dataclass(slots=True)
class _Use:
    """Pieces of one buffer that are stored, and whether only constants are; and that are loaded."""

    stores: dict[Piece, bool] = field(default_factory=dict)
    loads: dict[Piece, None] = field(default_factory=dict)
    varies: bool = False


def _note(statement: Store | Assign | Let, uses: dict[str, _Use]) -> None:
    for leaf in leaves(statement.value):
        if type(leaf) is not Load:
            continue
        use = uses.get(leaf.buffer.name)
        if use is not None:
            use.loads[leaf.index.constant, leaf.lanes] = None
            use.varies |= bool(leaf.index.terms) or isinstance(statement, Let)
    if isinstance(statement, Store) and statement.buffer.name in uses:
        use = uses[statement.buffer.name]
        piece = statement.index.constant, lanes_of(statement.value)
        constant = isinstance(statement.value, Const)
        use.stores[piece] = use.stores.get(piece, True) and constant
        use.varies |= bool(statement.index.terms)


def _slots(buffer: Buffer, use: _Use, *, gathers: bool, replaces: bool) -> Slots | None:
    slots = None if use.varies else _placed(buffer, use.stores, replaces=replaces)
    if slots is None:
        return None
    whole = all(_covered(slots, p) or (gathers and _single(slots, p)) for p in use.loads)
    return slots if whole else None


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


def _single(slots: Slots, piece: Piece) -> bool:
    first, lanes = piece
    held = [slots.get(element) for element in range(first, first + lanes)]
    return all(slot is not None and slot.register.lanes == 1 for slot in held)


def _covered(slots: Slots, piece: Piece) -> bool:
    first, lanes = piece
    slot = slots.get(first)
    if slot is None:
        return False
    return lanes == 1 or (slot.lane == 0 and slot.register.lanes == lanes)

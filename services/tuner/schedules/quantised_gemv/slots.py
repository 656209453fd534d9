"""Says where the 32 weights of a stretch stand in its words, four of them at a time.

Word j of a vector has weights from j · W on, W of them. So the same bits of its four words are the
weights e, W + e, 2W + e and 3W + e, and slot number e of the vector has the activations of these:

    4 bits: one vector of words, slots 0 to 7       8 bits: two, slots 0 to 3 and 4 to 7
"""

from dataclasses import dataclass

from kernelzoo.domain.operators.quantised import ROW_STEP, per_word
from services.tuner import ir

SLOTS = ROW_STEP // ir.LANES
HALF_WORD = 16
"""Bits that are converted where they stand; those of the higher half are shifted there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The bits of four words that slot `number` of a stretch has, of weights of `width` bits."""

    number: int
    width: int

    @property
    def vector(self) -> int:
        """Number of the vector of words."""
        return self.number // per_word(self.width)

    @property
    def bit(self) -> int:
        """Among the weights of a word."""
        return self.number % per_word(self.width)

    @property
    def shift(self) -> int:
        """By how many bits words are shifted before it."""
        return HALF_WORD * (self.bit * self.width // HALF_WORD)

    @property
    def power(self) -> int:
        """Weights stand times so many powers of two in what is shifted."""
        return self.bit * self.width % HALF_WORD

    @property
    def mask(self) -> int:
        return ((1 << self.width) - 1) << self.power

    def weight(self, lane: int) -> int:
        """Returns which weight of the stretch a lane has."""
        return (self.vector * ir.LANES + lane) * per_word(self.width) + self.bit


def slots_of(width: int) -> tuple[Slot, ...]:
    return tuple(Slot(number=number, width=width) for number in range(SLOTS))

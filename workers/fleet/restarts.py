"""When an agent whose browser was lost comes back: soon, then ever later while it is lost again."""

import random
from dataclasses import dataclass

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
STEADY_S = 60.0


@dataclass(frozen=True, slots=True)
class Losses:
    """`in_a_row`: each after less than `STEADY_S` of work."""

    in_a_row: int = 0

    def after(self, lived_s: float) -> "Losses":
        return Losses(1 if lived_s >= STEADY_S else self.in_a_row + 1)


def longest_delay_s(in_a_row: int) -> float:
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(in_a_row - 1, 16))


def restart_delay_s(in_a_row: int, share: float | None = None) -> float:
    """A random half is taken off, so that agents do not come back in step. `share` is in [0, 1)."""
    taken = random.random() if share is None else share  # noqa: S311 # no secret
    return longest_delay_s(in_a_row) * (1 - taken / 2)

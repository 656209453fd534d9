"""Says why a candidate is lent, and to how many agents. docs/adr/0025 and 0040 tell how a lease is
filled."""

from enum import StrEnum
from math import ceil


class LentRole(StrEnum):
    """No agent is told.

    EXPLORE: too few of its device class have measured it. LEADER: one of the fastest of the class,
    which is measured by more. FEW_RUNS: one that costs a page that runs it few times less than the
    fastest does, as far as is known. CHAMPION: what the zoo serves, to be preferred or not.
    CONTROL: a kernel whose time on the class is known. VALIDATE: a winner of similar devices.
    """

    EXPLORE = "explore"
    LEADER = "leader"
    FEW_RUNS = "few_runs"
    CHAMPION = "champion"
    CONTROL = "control"
    VALIDATE = "validate"


LEADERS = 8
"""Every stranger measures so many before its share is done: as many as an agent measures again for
its final ballot, and more than a ballot holds, as three samples may leave one of the best five in
sixth place."""


def cover(malicious_share: float) -> int:
    """Returns how many identities of a class are to measure each candidate.

    Among strangers two, of whom the faster is believed until a third has measured it: so one
    attacker can bury no kernel by calling it slow, and calling it fast only has it measured by
    more.
    """
    return 2 if malicious_share else 1


FINALISTS = 2
"""Leaders that a whole quorum measures; half a quorum measures twice as many, and so on."""


def voters(rank: int, quorum: int) -> int:
    """Returns how many identities of a class are to measure the kernel of this rank, from 1, before
    its winner is known."""
    return min(quorum, ceil(FINALISTS * quorum / rank))

"""Who takes part in a simulation, as a value."""

from dataclasses import dataclass
from enum import StrEnum

FAMILY = 4
"""Device classes that tell the same architecture of their processor, and differ in its cores."""


class Attack(StrEnum):
    """What the liars of a key do.

    RANDOM reports times at random. COLLUDE pushes the slowest kernel, all of them the same one, as
    a little faster than the best; BOAST says of it what no device could do.
    OWN pushes a kernel of each one's own choice. SYBIL is COLLUDE by identities of two networks.
    REPLAY is COLLUDE with the output of an earlier lease. In COPY one of them measures, the others
    report the same times, and all push in their ballots alone. SLOW is honest in every key but the
    last.
    """

    RANDOM = "random"
    COLLUDE = "collude"
    BOAST = "boast"
    OWN = "own"
    SYBIL = "sybil"
    REPLAY = "replay"
    COPY = "copy"
    SLOW = "slow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`identities` vote in each of the `classes`, and `liars` is the share that lies.

    A class has one key for each of `workloads`. `FAMILY` classes in a row are relatives.
    Runs with the same `seed` differ only in the order in which the services are told.
    """

    attack: Attack
    liars: float
    classes: int
    identities: int
    workloads: tuple[str, ...]
    seed: int

    @property
    def liars_per_class(self) -> int:
        return round(self.liars * self.identities)

    def device(self, number: int) -> str:
        """As `World` names it: `family/device`."""
        family, relative = divmod(number, FAMILY)
        return f"{self.attack}-{round(100 * self.liars)}-{family}/{relative}"

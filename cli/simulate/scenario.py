"""States what is simulated, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

FAMILY = 4
"""Device classes that tell the same architecture of their processor, and differ in its cores."""

INVENTED = 6
"""Classes that exist nowhere and tell the architecture of a family, where attackers invent any."""


class Attack(StrEnum):
    """The attackers of a key do one of these.

    RANDOM reports times at random. COLLUDE pushes the slowest kernel, all of them the same one, as
    a little faster than the best; BOAST says of it what no device could do.
    OWN pushes a kernel of each one's own choice. SYBIL is COLLUDE by identities of two networks.
    REPLAY is COLLUDE with the output of an earlier lease. In COPY one of them measures, the others
    report the same times, and all push in their ballots alone. SLOW is honest in every key but the
    last.

    In those that follow the same few networks attack every class. MINT is COLLUDE with several
    identities of each network. COLD is COLLUDE by who comes to a class before anybody honest. BURY
    calls what is faster than the default kernel twenty times slower. INVENT pushes the slowest
    kernel on classes that exist nowhere, for devices that nobody has measured. DENY reports that
    what is served fails, on classes with the device id of an honest one. CLAIM opens sessions of a
    peak that no device is as slow as, and measures nothing. HOARD borrows all and answers nothing.
    SIEGE is COLD, INVENT, DENY and CLAIM at once.

    AMBUSH is made by other networks in each class. They come first, each borrows the whole space
    before any of them reports, and then they call the eight best kernels three to four times
    slower, or failing, and vote.
    """

    RANDOM = "random"
    COLLUDE = "collude"
    BOAST = "boast"
    OWN = "own"
    SYBIL = "sybil"
    REPLAY = "replay"
    COPY = "copy"
    SLOW = "slow"
    MINT = "mint"
    COLD = "cold"
    BURY = "bury"
    INVENT = "invent"
    DENY = "deny"
    CLAIM = "claim"
    HOARD = "hoard"
    SIEGE = "siege"
    AMBUSH = "ambush"


class Raid(StrEnum):
    """Attackers do this besides measuring and voting as if they were of a class."""

    INVENT = "invent"
    DENY = "deny"
    CLAIM = "claim"
    HOARD = "hoard"
    AMBUSH = "ambush"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tactics:
    """`votes`: they measure and vote in the classes of honest visitors, too. `everywhere`: they are
    of the same networks in all classes. `first`: they come before anybody honest. `minted`:
    identities of each of their networks. `at_once`: visitors that are there at a time.
    """

    votes: bool = True
    everywhere: bool = True
    first: bool = False
    minted: int = 1
    raids: frozenset[Raid] = frozenset()
    at_once: int = 16


def _raid(raid: Raid, minted: int = 1, at_once: int = 16) -> Tactics:
    return Tactics(votes=False, first=True, minted=minted, raids=frozenset({raid}), at_once=at_once)


_TACTICS: Mapping[Attack, Tactics] = MappingProxyType(
    {
        Attack.MINT: Tactics(minted=5),
        Attack.COLD: Tactics(first=True, minted=2),
        Attack.BURY: Tactics(first=True, minted=2),
        Attack.INVENT: _raid(Raid.INVENT),
        Attack.DENY: _raid(Raid.DENY),
        Attack.CLAIM: _raid(Raid.CLAIM, at_once=4),
        Attack.HOARD: _raid(Raid.HOARD, minted=2),
        Attack.SIEGE: Tactics(first=True, raids=frozenset({Raid.INVENT, Raid.DENY, Raid.CLAIM})),
        Attack.AMBUSH: Tactics(
            votes=False, everywhere=False, raids=frozenset({Raid.AMBUSH}), at_once=64
        ),
    }
)
_OF_EACH_CLASS = Tactics(everywhere=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`identities` visit each of the `classes`, and `malicious_share` is the share of their
    networks that lies. A class has one key for each of `workloads`. `FAMILY` classes in a row are
    relatives. Runs with the same `seed` differ only in the order in which the services are told.
    `peaceful`: the honest visitors alone, so that what they come to without attackers can be told.
    """

    attack: Attack
    malicious_share: float
    classes: int
    identities: int
    workloads: tuple[str, ...]
    seed: int
    peaceful: bool = False

    @property
    def tactics(self) -> Tactics:
        return _TACTICS.get(self.attack, _OF_EACH_CLASS)

    @property
    def attackers_per_class(self) -> int:
        return round(self.malicious_share * self.identities)

    @property
    def families(self) -> tuple[str, ...]:
        count = -(-self.classes // FAMILY)
        name = f"{self.attack}-{round(100 * self.malicious_share)}"
        return tuple(f"{name}-{number}" for number in range(count))

    def device(self, number: int) -> str:
        """Names a device as `World` does: `family/device`."""
        family, relative = divmod(number, FAMILY)
        return f"{self.families[family]}/{relative}"

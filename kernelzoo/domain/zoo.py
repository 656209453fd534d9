"""A zoo entry: the kernel that is served for a key, with the evidence for it."""

from dataclasses import dataclass
from enum import StrEnum


class EntryState(StrEnum):
    """Provisional until a quorum of identities has voted; retired once replaced."""

    PROVISIONAL = "provisional"
    CONFIRMED = "confirmed"
    RETIRED = "retired"


class HitLevel(StrEnum):
    """The step of the fallback chain that an answer came from, in the order of the chain.

    EXACT: this class voted. DEVICE: another class of the same device did. ARCHITECTURE, VENDOR,
    COMMON: the best on average of the classes of such devices. MODEL: the cost model's first
    choice. SHAPE: this class voted on the nearest shape. DEFAULT: nothing is known.
    """

    EXACT = "exact"
    DEVICE = "device"
    ARCHITECTURE = "architecture"
    VENDOR = "vendor"
    COMMON = "common"
    MODEL = "model"
    SHAPE = "shape"
    DEFAULT = "default"


class AdviceBasis(StrEnum):
    """An advice for one of two targets rests on one of these."""

    MEASURED = "measured"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineVotes:
    """Ballots that were cast in one major version of an engine."""

    name: str
    major: int
    ballots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """`weight` of `total_weight` is the share of rank weights that the winner received. `engines`
    are those of the counted ballots. `contenders` were measured faster than the winner by more
    than the noise, by too few to say so; they are lent to more. `final`: a quorum has voted, all
    that the class can run is measured, and nothing measured better by more than the noise. `rank`:
    the place of the winner's time among those of all kernels that voters measured, from 1;
    `spread`: how far apart the middle half of the voters find it, as a share of its time.
    """

    ballots: int
    weight: int
    total_weight: int
    relative_time: float
    engines: tuple[EngineVotes, ...] = ()
    contenders: tuple[str, ...] = ()
    final: bool = False
    rank: int | None = None
    spread: float | None = None

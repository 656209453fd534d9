"""What became of the keys, held against the truth."""

from dataclasses import dataclass
from statistics import fmean

from kernelzoo.cli.simulate.crowd import Key
from kernelzoo.cli.simulate.world import World
from kernelzoo.domain.zoo import EntryState
from kernelzoo.store.zoo import VersionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """Of one key. `confirmed`: what is served has a quorum, be it the default. A regret is the
    slowdown of a kernel against the best one, as a share.
    """

    confirmed: bool
    wrongly_promoted: bool
    promoted: bool
    served_regret: float
    default_regret: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of the keys of a scenario, as shares of them and as means over them."""

    keys: int
    confirmed: float
    promoted: float
    wrongly_promoted: float
    served_regret: float
    default_regret: float


def fate(world: World, key: Key, versions: tuple[VersionRow, ...], quorum: int) -> Fate:
    """`versions`: those of the key, in order. A promotion is wrong where it makes a page slower."""
    served = [key.reference_id]
    wrong = False
    times = {name: world.call_ns(key.device, name) for name in key.candidate_ids}
    for version in versions:
        confirmed = version.state == EntryState.CONFIRMED or (
            version.state == EntryState.RETIRED and version.ballots >= quorum
        )
        if confirmed:
            wrong = wrong or times[version.candidate_id] > times[served[-1]]
            served.append(version.candidate_id)
    best_ns = min(times.values())
    return Fate(
        confirmed=len(served) > 1,
        wrongly_promoted=wrong,
        promoted=served[-1] != key.reference_id,
        served_regret=times[served[-1]] / best_ns - 1,
        default_regret=times[key.reference_id] / best_ns - 1,
    )


def verdict(fates: tuple[Fate, ...]) -> Verdict:
    return Verdict(
        keys=len(fates),
        confirmed=fmean(fate.confirmed for fate in fates),
        promoted=fmean(fate.promoted for fate in fates),
        wrongly_promoted=fmean(fate.wrongly_promoted for fate in fates),
        served_regret=fmean(fate.served_regret for fate in fates),
        default_regret=fmean(fate.default_regret for fate in fates),
    )

"""Judges what became of the keys, held against the truth."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from cli.simulate.crowd import SimulatedKey
from cli.simulate.world import World
from kernelzoo.store.zoo import VersionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One key ended so. `confirmed`: what is served has a quorum, be it the default. `unserved`: a
    page is given no kernel at all. A regret is the slowdown of a kernel against the best one, as a
    share; of the default where nothing is served. `fallback_regret`: of the default at the end.
    """

    confirmed: bool
    wrongly_promoted: bool
    promoted: bool
    unserved: bool
    served_regret: float
    default_regret: float
    fallback_regret: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPage:
    """A page is given these for one workload, by candidate."""

    served_id: str
    default_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Devices that nobody has measured are served kernels with these means of regrets."""

    served_regret: float
    default_regret: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioVerdict:
    """Shares of, and means over, the keys with honest visitors."""

    keys: int
    confirmed: float
    promoted: float
    wrongly_promoted: float
    unserved: float
    served_regret: float
    default_regret: float
    fallback_regret: float


def fate(
    world: World, key: SimulatedKey, versions: Sequence[VersionRow], page: ServedPage | None
) -> Fate:
    """`versions`: those of the key, in order; `page`: what a page is given at the end, None for
    nothing. A promotion is wrong where it makes a page slower, at any time.
    """
    given = (page.served_id, page.default_id) if page else ()
    times = {
        name: world.call_ns(key.device, name)
        for name in {*key.candidate_ids, key.reference_id, *given}
    }
    served = [key.reference_id, *(each.candidate_id for each in versions if each.served)]
    best_ns, default_ns = min(times.values()), times[key.reference_id]
    return Fate(
        confirmed=len(served) > 1,
        wrongly_promoted=any(times[new] > times[old] for old, new in pairwise(served)),
        promoted=page is not None and page.served_id != page.default_id,
        unserved=page is None,
        served_regret=(times[page.served_id] if page else default_ns) / best_ns - 1,
        default_regret=default_ns / best_ns - 1,
        fallback_regret=(times[page.default_id] if page else default_ns) / best_ns - 1,
    )


def verdict(fates: Sequence[Fate]) -> ScenarioVerdict:
    return ScenarioVerdict(
        keys=len(fates),
        confirmed=fmean(fate.confirmed for fate in fates),
        promoted=fmean(fate.promoted for fate in fates),
        wrongly_promoted=fmean(fate.wrongly_promoted for fate in fates),
        unserved=fmean(fate.unserved for fate in fates),
        served_regret=fmean(fate.served_regret for fate in fates),
        default_regret=fmean(fate.default_regret for fate in fates),
        fallback_regret=fmean(fate.fallback_regret for fate in fates),
    )


def unseen(world: World, device: str, space: Iterable[str], page: ServedPage) -> Unseen:
    """The verdict on one device."""
    best_ns = min(world.call_ns(device, name) for name in space)
    return Unseen(
        served_regret=world.call_ns(device, page.served_id) / best_ns - 1,
        default_regret=world.call_ns(device, page.default_id) / best_ns - 1,
    )


def over(found: Sequence[Unseen]) -> Unseen | None:
    """The mean; None over nothing."""
    if not found:
        return None
    return Unseen(
        served_regret=fmean(each.served_regret for each in found),
        default_regret=fmean(each.default_regret for each in found),
    )

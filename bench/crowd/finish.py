"""Finds when a crowd had the winner of one key, from what it reported and what was published."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from kernelzoo.store.curves import ReportedTimeRow
from kernelzoo.store.zoo import VersionRow

WITHIN = 0.02
"""A winner is at most this much slower than the best kernel of the space, as a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceFinish:
    """Seconds from the first lease. `covered_s`: every kernel was measured as often as the zoo
    asks. `won_s`: since then what is confirmed has been within `WITHIN` of the best, and not before
    all was covered: who finds it sooner was lucky. None where that never was. `by_each`: the most
    that one identity had reported by then. `versions`: how many were confirmed in all.
    """

    covered_s: float
    won_s: float | None
    by_each: int
    versions: int
    regret: float


def finish(
    reported: Sequence[ReportedTimeRow],
    versions: Sequence[VersionRow],
    slowdowns: Mapping[str, float],
    *,
    cover: int,
) -> RaceFinish:
    """`slowdowns`: how much slower than the best each kernel of the space is, as a share."""
    began_at = min(row.lent_at for row in reported)
    covered_at = _covered_at(reported, cover)
    confirmed = [each for each in versions if each.served]
    served = [(each.published_at, slowdowns[each.candidate_id]) for each in confirmed]
    good_at = _good_at(served)
    won_at = max(good_at, covered_at) if good_at else None
    return RaceFinish(
        covered_s=(covered_at - began_at).total_seconds(),
        won_s=(won_at - began_at).total_seconds() if won_at else None,
        by_each=_most(reported, won_at or reported[-1].reported_at),
        versions=len(confirmed),
        regret=served[-1][1] if served else float("nan"),
    )


def _covered_at(reported: Sequence[ReportedTimeRow], cover: int) -> datetime:
    """Returns when the last kernel was reported by so many identities."""
    times: dict[str, dict[UUID, datetime]] = defaultdict(dict)
    for row in reported:
        times[row.candidate_id].setdefault(row.identity_id, row.reported_at)
    return max(sorted(by.values())[min(cover, len(by)) - 1] for by in times.values())


def _good_at(served: Sequence[tuple[datetime, float]]) -> datetime | None:
    """Since when nothing slower than `WITHIN` has been served."""
    since = None
    for published_at, slowdown in served:
        if slowdown > WITHIN:
            since = None
        elif since is None:
            since = published_at
    return since


def _most(reported: Sequence[ReportedTimeRow], until: datetime) -> int:
    counts: dict[UUID, int] = defaultdict(int)
    for row in reported:
        counts[row.identity_id] += row.reported_at <= until
    return max(counts.values())

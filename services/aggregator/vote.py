"""Counts ballots, and says whether the vote is final.

`standings` is the weighted majority of nnJIT section 5.3: each identity gives its fastest kernel 5
points, the next 4, and so on; the sum decides.

A vote is final when nothing measured so far contradicts what is served. Among one's own agents a
kernel is measured by one of them, and by more while it leads. What is served may then be behind a
kernel that too few have measured to put it in its place: the race for the first places ends before
the agents' more careful last rounds, and a measurement beside a disturbed reference leads it
astray. Such kernels contend: they are lent, beside what is served, to those who have not measured
them, until as many as a quorum have, or they are no longer faster.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from kernelzoo.domain.ballot import RANK_WEIGHTS, Ballot
from services.aggregator.challenge import MARGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`relative_time`: median over the ballots that name the candidate."""

    candidate_id: str
    weight: int
    ballots: int
    relative_time: float


def standings(ballots: tuple[Ballot, ...]) -> tuple[Standing, ...]:
    """Best first. Equal weights are ordered by relative time, then by id, so never by chance."""
    weights: dict[str, int] = defaultdict(int)
    times: dict[str, list[float]] = defaultdict(list)
    for ballot in ballots:
        for weight, line in zip(RANK_WEIGHTS, ballot.lines, strict=False):
            weights[line.candidate_id] += weight
            times[line.candidate_id].append(line.relative_time)
    counted = (
        Standing(
            candidate_id=candidate_id,
            weight=weight,
            ballots=len(times[candidate_id]),
            relative_time=median(times[candidate_id]),
        )
        for candidate_id, weight in weights.items()
    )
    return tuple(sorted(counted, key=lambda s: (-s.weight, s.relative_time, s.candidate_id)))


AT_ONCE = 2
"""Contenders that are measured before the next are named. Most that look faster than what is served
do so by chance, and what is served changes while they are measured."""


def median_times(voters: Sequence[Mapping[str, float]], default_id: str) -> dict[str, float]:
    """The median of each kernel that any has measured, over those who have; 1 for the default."""
    return {name: median(found) for name, found in by_kernel(voters).items()} | {default_id: 1.0}


def by_kernel(voters: Sequence[Mapping[str, float]]) -> Mapping[str, Sequence[float]]:
    """Collects for each kernel what those who have measured it say, ascending."""
    told: defaultdict[str, list[float]] = defaultdict(list)
    for times in voters:
        for candidate_id, relative_time in times.items():
            told[candidate_id].append(relative_time)
    return {name: sorted(found) for name, found in told.items()}


def rank(times: Mapping[str, float], candidate_id: str) -> int:
    """Its place among all that were measured, from 1; equals have the same."""
    return 1 + sum(other < times[candidate_id] for other in times.values())


def spread(found: Sequence[float]) -> float | None:
    """Returns how far apart the middle half of these times are, over their median; None of one."""
    if len(found) < 2:
        return None
    low, middle, high = quantiles(found, n=4, method="inclusive")
    return (high - low) / middle


def contenders(
    times: Mapping[str, float], served_id: str, reported: Mapping[str, int], quorum: int
) -> tuple[str, ...]:
    """The fastest first. `times`: the medians, of what is served too. `reported`: how many
    identities have reported each kernel, failures too.
    """
    ahead = [
        name
        for name, relative_time in times.items()
        if relative_time < times[served_id] * (1 - MARGIN) and reported.get(name, 0) < quorum
    ]
    return tuple(sorted(ahead, key=lambda name: (times[name], name))[:AT_ONCE])

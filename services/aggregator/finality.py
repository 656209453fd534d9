"""Whether a vote is final: nothing measured so far contradicts what is served.

Among one's own agents a kernel is measured by one of them, and by more while it leads. What is
served may then be behind a kernel that too few have measured to put it in its place: the race for
the first places ends before the agents' more careful last rounds, and a measurement beside a
disturbed reference leads it astray. Such kernels contend: they are lent, beside what is served, to
those who have not measured them, until as many as a quorum have, or they are no longer faster.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

from services.aggregator.challenge import MARGIN

AT_ONCE = 2
"""Contenders that are measured before the next are named. Most that look faster than what is served
do so by chance, and what is served changes while they are measured."""


def median_times(voters: Sequence[Mapping[str, float]], default_id: str) -> dict[str, float]:
    """Of each kernel that any has measured, over those who have; 1 of the default by definition."""
    told: defaultdict[str, list[float]] = defaultdict(list)
    for times in voters:
        for candidate_id, relative_time in times.items():
            told[candidate_id].append(relative_time)
    return {name: median(found) for name, found in told.items()} | {default_id: 1.0}


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

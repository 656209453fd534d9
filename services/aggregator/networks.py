"""How much one network may weigh in a vote."""

from collections import Counter

from kernelzoo.domain.ballot import CastBallot

IDENTITIES_PER_NETWORK = 2
"""An identity costs a page load; addresses of another network cost more. The devices of a household
or an office speak for themselves, and no more loudly than two strangers."""


def capped(cast: tuple[CastBallot, ...]) -> tuple[CastBallot, ...]:
    """The first ballots of each network, so that new identities never displace older ones.

    Ballots without a network are of the operator's own agents and count without limit.
    """
    seen: Counter[str] = Counter()
    counted = []
    for each in cast:
        seen[each.network] += 1
        if not each.network or seen[each.network] <= IDENTITIES_PER_NETWORK:
            counted.append(each)
    return tuple(counted)

"""Ballots in one line."""

from collections.abc import Mapping
from types import MappingProxyType

from kernelzoo.domain.ballot import Ballot, BallotLine, CastBallot


def ballot(identity: str, *ranking: str, time: float = 1.0, step: float = 0.0) -> Ballot:
    """Names `ranking` in order; the first takes `time`, each next one `step` more."""
    return Ballot(
        identity=identity,
        lines=tuple(
            BallotLine(candidate_id=name, relative_time=time + step * place)
            for place, name in enumerate(ranking)
        ),
    )


def cast(
    *ballots: Ballot,
    network: str | None = None,
    measured: Mapping[str, float] = MappingProxyType({}),
) -> tuple[CastBallot, ...]:
    """`measured`: relative times of what these identities measured and do not name. `network`: ''
    for the operator's agents; each has one of its own where none is told.
    """
    lines = tuple(BallotLine(candidate_id=c, relative_time=t) for c, t in measured.items())
    return tuple(
        CastBallot(
            network=f"network of {each.identity}" if network is None else network,
            ballot=each,
            measured=lines,
        )
        for each in ballots
    )

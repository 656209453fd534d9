"""Which ballots count, and what they are taken to say."""

from dataclasses import replace

from kernelzoo.domain.ballot import Ballot, BallotLine, CastBallot
from kernelzoo.domain.trust import Defence
from services.aggregator.controls import consistent
from services.aggregator.networks import capped

WHOLE_LEASES = 1
"""Valid ones before a ballot counts: as many as make sure that its author cannot choose what to
answer. With more, ballots of visitors who leave early would be lost, and an attacker who is honest
in what is checked would lose nothing (docs/trust.md)."""


def credible(cast: tuple[CastBallot, ...], defences: frozenset[Defence]) -> tuple[CastBallot, ...]:
    """`cast`: those of older identities first."""
    proven = tuple(
        each
        for each in cast
        if Defence.PROOF not in defences or each.valid_in_row >= WHOLE_LEASES or not each.network
    )
    counted = capped(proven) if Defence.NETWORKS in defences else proven
    if Defence.CONTROLS not in defences:
        return counted
    return tuple(_as_measured(each) for each in counted)


def _as_measured(cast: CastBallot) -> CastBallot:
    """Lines that the identity's own measurements contradict say what was measured instead.

    Controls judge measurements. Without this an attacker would be honest there, and lie in its
    ballot.
    """
    measured = {line.candidate_id: line.relative_time for line in cast.measured}
    lines = tuple(_line(line, measured.get(line.candidate_id)) for line in cast.ballot.lines)
    return replace(cast, ballot=Ballot(identity=cast.ballot.identity, lines=lines))


def _line(line: BallotLine, measured: float | None) -> BallotLine:
    if measured is None or consistent(line.relative_time, measured):
        return line
    return replace(line, relative_time=measured)

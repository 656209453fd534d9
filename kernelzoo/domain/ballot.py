"""A ballot: one identity's fastest kernels for a key, fastest first (nnJIT section 5.3)."""

from dataclasses import dataclass

RANK_WEIGHTS = (5, 4, 3, 2, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BallotLine:
    """`relative_time`: best time of the candidate over best time of the reference kernel."""

    candidate_id: str
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """At most `len(RANK_WEIGHTS)` lines; rank 1 first."""

    identity: str
    lines: tuple[BallotLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CastBallot:
    """`network`: keyed hash of where its identity first came from; '' for the operator's agents."""

    network: str
    ballot: Ballot

"""Weighted majority over ballots: nnJIT section 5.3.

Each identity gives its fastest kernel 5 points, the next 4, and so on; the sum decides.
"""

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from kernelzoo.domain.ballot import RANK_WEIGHTS, Ballot


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

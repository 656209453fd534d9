"""A ballot: one identity's fastest kernels for a key, fastest first (nnJIT section 5.3)."""

from dataclasses import dataclass

from kernelzoo.domain.device import Engine

RANK_WEIGHTS = (5, 4, 3, 2, 1)

MOST_LINES = 8
"""A ballot has as many as an agent compares kernels in its last rounds. Those behind the fifth have
no weight, and a time."""

UNTOLD = Engine(name="", version="")


@dataclass(frozen=True, slots=True, kw_only=True)
class BallotLine:
    """`relative_time`: best time of the candidate over best time of the reference kernel."""

    candidate_id: str
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """At most `MOST_LINES` lines; rank 1 first.

    `paired`: the lines say what rounds found in which all of them and the reference took turns.
    `in_tokens`: the fastest were timed within whole tokens of a language model, too, and the lines
    say what those say.
    """

    identity: str
    lines: tuple[BallotLine, ...]
    in_tokens: bool = False
    paired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CastBallot:
    """A ballot with what is known of who cast it.

    `network`: keyed hash of where the identity first came from; '' for the operator's agents.
    `engine`: the browser that it was cast in. `measured`: every kernel of the key that it measured
    in this major version of it, with a verified output. `valid_in_row`: its valid leases since one
    failed a check.
    """

    network: str
    ballot: Ballot
    measured: tuple[BallotLine, ...]
    engine: Engine = UNTOLD
    valid_in_row: int = 1

    @property
    def paired_times(self) -> dict[str, float]:
        """By candidate, of those that took turns with each other; none of a ballot of before."""
        lines = self.ballot.lines if self.ballot.paired else ()
        return {line.candidate_id: line.relative_time for line in lines}

    @property
    def relative_times(self) -> dict[str, float]:
        """By candidate. A ballot's own times come from more rounds."""
        lines = (*self.measured, *self.ballot.lines)
        return {line.candidate_id: line.relative_time for line in lines}

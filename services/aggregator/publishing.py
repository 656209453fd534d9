"""When the zoo changes what it serves for a key."""

from dataclasses import dataclass

from kernelzoo.domain.ballot import Ballot
from kernelzoo.domain.zoo import EntryState, Evidence
from services.aggregator.vote import standings


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No ballot can be counted yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The live entry stands; only its evidence is newer."""

    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """A new version: another winner, or the same one in another state."""

    candidate_id: str
    state: EntryState
    evidence: Evidence


Decision = Nothing | Keep | Publish


@dataclass(frozen=True, slots=True, kw_only=True)
class Champion:
    candidate_id: str
    state: EntryState


def decide(ballots: tuple[Ballot, ...], champion: Champion | None, quorum: int) -> Decision:
    """`quorum`: distinct identities with a countable ballot that make a winner `confirmed`."""
    ranking = standings(ballots)
    if not ranking:
        return Nothing()
    winner = ranking[0]
    evidence = Evidence(
        ballots=len(ballots),
        weight=winner.weight,
        total_weight=sum(standing.weight for standing in ranking),
        relative_time=winner.relative_time,
    )
    state = EntryState.CONFIRMED if len(ballots) >= quorum else EntryState.PROVISIONAL
    if champion == Champion(candidate_id=winner.candidate_id, state=state):
        return Keep(evidence=evidence)
    return Publish(candidate_id=winner.candidate_id, state=state, evidence=evidence)

"""When the zoo changes what it serves for a key.

The champion is the live entry, and before there is one the default kernel, which every device gets
anyway. It stays unless the winner of the vote is faster by a margin. Kernels near the limit of a
device differ by less than the noise; without the margin a vote among them would be a lottery, which
could serve a kernel that is slower than none at all.
"""

from dataclasses import dataclass

from kernelzoo.domain.ballot import Ballot
from kernelzoo.domain.zoo import EntryState, Evidence
from services.aggregator.vote import Standing, standings

MARGIN = 0.01
"""The noise of a best of seven interleaved rounds, as a share: kernels closer than this change
places between two ballots of one device (5 agents, matmul 384x768x768, Chromium 156)."""


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
    """The live entry of a key."""

    candidate_id: str
    state: EntryState


def decide(
    ballots: tuple[Ballot, ...], live: Champion | None, *, default_id: str, quorum: int
) -> Decision:
    """`default_id`: the kernel that relative times are relative to.

    `quorum`: distinct identities with a countable ballot that make an entry `confirmed`.
    """
    ranking = standings(ballots)
    if not ranking:
        return Nothing()
    served = _served(ranking, live.candidate_id if live else default_id, default_id)
    evidence = Evidence(
        ballots=len(ballots),
        weight=served.weight,
        total_weight=sum(standing.weight for standing in ranking),
        relative_time=served.relative_time,
    )
    state = EntryState.CONFIRMED if len(ballots) >= quorum else EntryState.PROVISIONAL
    if live == Champion(candidate_id=served.candidate_id, state=state):
        return Keep(evidence=evidence)
    return Publish(candidate_id=served.candidate_id, state=state, evidence=evidence)


def _served(ranking: tuple[Standing, ...], champion_id: str, default_id: str) -> Standing:
    """The winner of the vote if it beats champion and default by the margin, else the better."""
    by_id = {standing.candidate_id: standing for standing in ranking}
    default = _measured_against_itself(by_id.get(default_id), default_id)
    champion = by_id.get(champion_id, default)
    if champion.relative_time > default.relative_time * (1 - MARGIN):
        champion = default
    winner = ranking[0]
    return winner if winner.relative_time < champion.relative_time * (1 - MARGIN) else champion


def _measured_against_itself(standing: Standing | None, default_id: str) -> Standing:
    """The default's relative time is 1 by definition, whatever the noise of a ballot says."""
    return Standing(
        candidate_id=default_id,
        weight=standing.weight if standing else 0,
        ballots=standing.ballots if standing else 0,
        relative_time=1.0,
    )

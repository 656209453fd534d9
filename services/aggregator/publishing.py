"""When the zoo changes what it serves for a key.

The champion is the confirmed entry, and before there is one the default kernel, which every device
gets anyway. It stays unless a kernel of the vote passes the test of `challenge`, tried in the order
of the vote. Kernels near the limit of a device differ by less than the noise; without the margin of
that test a vote among them would be a lottery, which could serve one slower than the default.
"""

from dataclasses import dataclass, replace
from itertools import takewhile
from statistics import median

from kernelzoo.domain.ballot import CastBallot
from kernelzoo.domain.trust import ALL_DEFENCES, Defence
from kernelzoo.domain.zoo import EntryState, Evidence
from services.aggregator.challenge import MARGIN, Challenge, passes, preferences
from services.aggregator.credibility import credible
from services.aggregator.drift import electorate, engines
from services.aggregator.vote import Standing, standings


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No ballot can be counted yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The live entry stands; only its evidence is newer."""

    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """A new version: another winner, or the same one in another state.

    `reason`: the engine versions whose voters alone decided, '' where all did.
    """

    candidate_id: str
    state: EntryState
    evidence: Evidence
    reason: str = ""


Decision = Nothing | Keep | Publish


@dataclass(frozen=True, slots=True, kw_only=True)
class Champion:
    """The live entry of a key."""

    candidate_id: str
    state: EntryState


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a zoo asks for before it changes what it serves.

    `quorum`: distinct identities with a countable ballot that make an entry `confirmed`. `liars`:
    the largest share of identities that may collude, 0 where all agents are the zoo's own.
    """

    quorum: int
    liars: float
    defences: frozenset[Defence] = ALL_DEFENCES


def decide(
    cast: tuple[CastBallot, ...], live: Champion | None, *, default_id: str, rule: Rule
) -> Decision:
    """`cast`: the countable ballots, those of older identities first. `default_id`: the kernel
    that relative times are relative to.
    """
    known = credible(cast, rule.defences)
    today = electorate(known, quorum=rule.quorum, liars=rule.liars)
    ballots, rule = today.ballots, replace(rule, liars=today.liars)
    counted = standings(tuple(each.ballot for each in ballots))
    served = _served(ballots, counted, live, default_id, rule) if counted else None
    if served is None:
        return Nothing()
    standing, state = served
    evidence = Evidence(
        ballots=len(ballots),
        weight=standing.weight,
        total_weight=sum(each.weight for each in counted),
        relative_time=standing.relative_time,
        engines=engines(ballots),
    )
    if live == Champion(candidate_id=standing.candidate_id, state=state):
        return Keep(evidence=evidence)
    reason = f"measured again in {', '.join(today.renewed)}" if today.renewed else ""
    return Publish(
        candidate_id=standing.candidate_id, state=state, evidence=evidence, reason=reason
    )


def _served(
    ballots: tuple[CastBallot, ...],
    counted: tuple[Standing, ...],
    live: Champion | None,
    default_id: str,
    rule: Rule,
) -> tuple[Standing, EntryState] | None:
    """Who passes the test, else the champion; before the quorum, who leads.

    None for a champion whose quorum is gone, or that no ballot names: its evidence stands.
    """
    confirmed = live is not None and live.state is EntryState.CONFIRMED
    champion_id = live.candidate_id if live is not None and confirmed else default_id
    challengers = _challengers(counted, default_id)
    if len(ballots) < rule.quorum:
        return None if confirmed else (challengers[0], EntryState.PROVISIONAL)
    voters = tuple(each.relative_times for each in ballots)
    if not any(champion_id in times for times in voters):
        champion_id = default_id
    winner = _winner(voters, challengers, champion_id, rule)
    named = (s for s in (*challengers, *counted) if s.candidate_id == champion_id)
    standing = winner or next(named, None)
    return (standing, EntryState.CONFIRMED) if standing else None


def _challengers(counted: tuple[Standing, ...], default_id: str) -> tuple[Standing, ...]:
    """Those that beat the default in the vote and in time, in the order of the vote; then it.

    The default's relative time is 1 by definition, whatever the noise of a ballot says.
    """
    ahead = tuple(takewhile(lambda s: s.candidate_id != default_id, counted))
    default = Standing(candidate_id=default_id, weight=0, ballots=0, relative_time=1.0)
    if len(ahead) < len(counted):
        default = replace(counted[len(ahead)], relative_time=1.0)
    return (*(s for s in ahead if s.relative_time < 1 - MARGIN), default)


def _winner(
    voters: tuple[dict[str, float], ...],
    challengers: tuple[Standing, ...],
    champion_id: str,
    rule: Rule,
) -> Standing | None:
    """The first challenger that passes the test against the champion. Most of a quorum prefer it:
    with one preference enough, a demo of five agents on a busy machine confirmed 15 versions.

    Preferences may go in a circle. Among one's own agents only who is ahead of the champion in the
    vote may challenge it, so that the same ballots come to rest; liars could hold that lead. Who
    has not measured the champion takes the others' word for its time; liars would give theirs.
    """
    if Defence.CHALLENGE not in rule.defences:
        return challengers[0]
    default_id = challengers[-1].candidate_id
    if not rule.liars:
        challengers = tuple(takewhile(lambda s: s.candidate_id != champion_id, challengers))
        voters = _all_knowing(voters, champion_id)
    for challenger in challengers:
        challenge = Challenge(
            challenger_id=challenger.candidate_id, champion_id=champion_id, default_id=default_id
        )
        if passes(preferences(voters, challenge), rule.liars, least=rule.quorum // 2 + 1):
            return challenger
    return None


def _all_knowing(
    voters: tuple[dict[str, float], ...], champion_id: str
) -> tuple[dict[str, float], ...]:
    """Relative times in which the champion's is the median where a voter has none of its own."""
    told = [times[champion_id] for times in voters if champion_id in times]
    return tuple({champion_id: median(told), **times} for times in voters) if told else voters

"""Decides when the zoo changes what it serves for a key.

The champion is the confirmed entry, and before there is one the default kernel, which every device
gets anyway. It stays unless a kernel of the vote passes the test of `challenge` against it and
against the default, and of those that do, the one that none of the others passes it against.
Kernels near the limit of a device differ by less than the noise; without the margin of that test a
vote among them would be a lottery, which could serve one slower than the default. So what is within
the margin of the best is one choice with it, and the default is served if it is among them.

Agents of the operator are believed: where a quorum of them has voted, they decide alone, as in a
zoo without strangers.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from types import MappingProxyType

from kernelzoo.domain.ballot import RANK_WEIGHTS, CastBallot
from kernelzoo.domain.lease import cover
from kernelzoo.domain.trust import ALL_DEFENCES, Defence, Trust
from kernelzoo.domain.zoo import EntryState, Evidence
from services.aggregator.challenge import MARGIN, SETTLED_MARGIN, Challenge, passes, preferences
from services.aggregator.electorate import Electorate, credible, electorate, engines
from services.aggregator.vote import (
    Standing,
    by_kernel,
    contenders,
    median_times,
    rank,
    spread,
    standings,
)


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

    `reason`: the engine versions whose voters alone decided, and whether those who timed whole
    tokens did; '' where all did.
    """

    candidate_id: str
    state: EntryState
    evidence: Evidence
    reason: str = ""


NextEntry = Nothing | Keep | Publish


@dataclass(frozen=True, slots=True, kw_only=True)
class Champion:
    """The live entry of a key."""

    candidate_id: str
    state: EntryState


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A zoo asks for this before it changes what it serves.

    `quorum`: voters with a countable ballot, of strangers one of each network, before anything is
    `confirmed`. `malicious_share`: the largest share of them that may collude, 0 where all agents
    are the zoo's own. `minimum`: networks that confirm what neither the operator's agents nor
    another class bears out. `trust`: whose ballots are counted.
    """

    quorum: int
    malicious_share: float
    minimum: int = 1
    trust: Trust = Trust.CROWD
    defences: frozenset[Defence] = ALL_DEFENCES

    @property
    def most(self) -> int:
        """Voters, of a quorum."""
        return self.quorum // 2 + 1


FEWEST = 3
"""Voters whose median one of them cannot move as it likes."""

DOUBTED = 0.25
"""Share of those who measured a kernel, of which more must not have found it slower than the
default by the margin; one may always be mistaken. Five browsers on a machine with much other work,
whose paired rounds differed by up to 20 %, had a median of 0.90 of the default's time for a kernel
that takes 1.02 of it; two of them had found it slower."""

NOBODY: Mapping[str, int] = MappingProxyType({})


def decide(
    cast: tuple[CastBallot, ...],
    live: Champion | None,
    *,
    default_id: str,
    rule: Rule,
    elsewhere: frozenset[str] = frozenset(),
    reported: Mapping[str, int] = NOBODY,
) -> NextEntry:
    """`cast`: the countable ballots, those of older identities first. `default_id`: the kernel
    that relative times are relative to. `elsewhere`: what other classes that speak for this one
    have confirmed. `reported`: how many identities have reported each that it can run.
    """
    known, today = heard(cast, rule)
    poll = _Poll(
        known=known,
        ballots=today.ballots,
        default_id=default_id,
        elsewhere=elsewhere,
        rule=replace(rule, malicious_share=today.malicious_share),
    )
    counted = standings(tuple(each.ballot for each in poll.ballots))
    served = _served(poll, counted, live) if counted else None
    if served is None:
        return Nothing()
    standing, state = served
    contending = _contending(poll, standing.candidate_id, reported)
    covered = all(number >= cover(rule.malicious_share) for number in reported.values())
    told = by_kernel(poll.voters)
    times = median_times(poll.voters, default_id)
    evidence = Evidence(
        ballots=len(poll.ballots),
        weight=standing.weight,
        total_weight=sum(each.weight for each in counted),
        relative_time=standing.relative_time,
        engines=engines(poll.ballots),
        contenders=contending,
        final=(
            state is EntryState.CONFIRMED
            and covered
            and not contending
            and not _is_behind(poll, standing.candidate_id)
        ),
        rank=rank({standing.candidate_id: standing.relative_time} | times, standing.candidate_id),
        spread=spread(told.get(standing.candidate_id, ())),
    )
    if live == Champion(candidate_id=standing.candidate_id, state=state):
        return Keep(evidence=evidence)
    return Publish(
        candidate_id=standing.candidate_id, state=state, evidence=evidence, reason=_reason(today)
    )


def _reason(today: Electorate) -> str:
    again = f"measured again in {', '.join(today.renewed)}" if today.renewed else ""
    return "; ".join(
        each for each in (again, today.in_tokens and "decided by whole tokens") if each
    )


def heard(cast: tuple[CastBallot, ...], rule: Rule) -> tuple[tuple[CastBallot, ...], Electorate]:
    """The credible ballots, and those of them that count today: those of the operator's agents
    alone, once they are a quorum.
    """
    own = tuple(each for each in cast if not each.network)
    if rule.malicious_share and len(own) >= rule.quorum:
        cast, rule = own, replace(rule, malicious_share=0)
    # One's own agents share a network, and a ballot's more careful rounds are believed against the
    # first measurement.
    needless = frozenset() if rule.malicious_share else {Defence.CONTROLS, Defence.NETWORKS}
    known = credible(cast, rule.defences - needless)
    return known, electorate(known, quorum=rule.quorum, malicious_share=rule.malicious_share)


Times = Mapping[str, float]
"""The relative times of one voter, by candidate."""


@dataclass(frozen=True, kw_only=True)
class _Poll:
    """`known`: all credible ballots; `ballots`: those of them that a new browser version has not
    replaced. `rule.attackers` is the share that may collude among these.
    """

    known: tuple[CastBallot, ...]
    ballots: tuple[CastBallot, ...]
    default_id: str
    elsewhere: frozenset[str]
    rule: Rule

    def challenge(self, challenger_id: str, champion_id: str) -> Challenge:
        return Challenge(
            challenger_id=challenger_id, champion_id=champion_id, default_id=self.default_id
        )

    @cached_property
    def voters(self) -> tuple[Times, ...]:
        """Among one's own agents, those that have timed a kernel in turn with others speak for it
        alone, once they are most of a quorum.
        """
        voters = tuple(_times(each, self.rule) for each in self.ballots)
        if self.rule.malicious_share:
            return voters
        paired = [each.paired_times for each in self.ballots]
        compared = Counter(name for times in paired for name in times)
        careful = {name for name, number in compared.items() if number >= self.rule.most}
        return tuple(
            {name: time for name, time in times.items() if name in own or name not in careful}
            for times, own in zip(voters, paired, strict=True)
        )


def _times(cast: CastBallot, rule: Rule) -> Times:
    """Among one's own agents, what a voter has measured and does not name is slower than the last
    that it names: a single measurement beside a disturbed reference may say else, the ballot knows
    better. A stranger may measure something after its ballot, or leave it out for a reason.
    """
    times, lines = cast.relative_times, cast.ballot.lines
    if rule.malicious_share or len(lines) < len(RANK_WEIGHTS):
        return times
    last = lines[-1].relative_time / (1 - MARGIN)
    named = {line.candidate_id for line in lines}
    return {name: time if name in named else max(time, last) for name, time in times.items()}


def _contending(poll: _Poll, served_id: str, reported: Mapping[str, int]) -> tuple[str, ...]:
    """Among one's own agents, once a quorum of them has voted."""
    if poll.rule.malicious_share or len(poll.ballots) < poll.rule.quorum:
        return ()
    times = median_times(poll.voters, poll.default_id)
    return contenders(times, served_id, reported, poll.rule.quorum)


def _is_behind(poll: _Poll, served_id: str) -> bool:
    """Tells whether most of a quorum or more of strangers that measured both prefer another."""
    if not poll.rule.malicious_share:
        return False
    others = {*by_kernel(poll.voters), poll.default_id} - {served_id}
    found = (preferences(poll.voters, poll.challenge(each, served_id)) for each in others)
    return any(
        each.challenger + each.champion >= poll.rule.quorum and each.challenger > each.champion
        for each in found
    )


def _served(
    poll: _Poll, counted: tuple[Standing, ...], live: Champion | None
) -> tuple[Standing, EntryState] | None:
    """Picks the kernel that passes the test, else the champion; before the quorum, the one that
    leads. What nobody bears out is provisional, or leaves a confirmed entry as it is.

    None for a champion whose quorum is gone, or that no ballot of strangers names: its evidence
    stands.
    """
    confirmed = live is not None and live.state is EntryState.CONFIRMED
    champion_id = live.candidate_id if live is not None and confirmed else poll.default_id
    challengers = _challengers(counted, poll.default_id)
    if len(poll.ballots) < poll.rule.quorum:
        return None if confirmed else (challengers[0], EntryState.PROVISIONAL)
    if not any(champion_id in times for times in poll.voters):
        champion_id = poll.default_id
    if not poll.rule.malicious_share and Defence.CHALLENGE in poll.rule.defences:
        return _fastest(poll, counted, champion_id), EntryState.CONFIRMED
    winner = _winner(poll, challengers, champion_id)
    named = (s for s in (*challengers, *counted) if s.candidate_id == champion_id)
    standing = winner or next(named, None)
    if standing is None:
        return None
    if confirmed and standing.candidate_id == champion_id:
        return standing, EntryState.CONFIRMED
    if _borne_out(poll, standing.candidate_id, champion_id):
        return standing, EntryState.CONFIRMED
    return None if confirmed else (standing, EntryState.PROVISIONAL)


def _borne_out(poll: _Poll, candidate_id: str, champion_id: str) -> bool:
    """Returns whether these voters may confirm a kernel in the champion's place.

    Whoever comes first to a class is all of its voters, so that no share of attackers is an
    assumption there. Few networks therefore need the operator's agents, most of which must prefer
    the kernel too, or another class that found the same: what the chain would serve here anyway.
    """
    if not poll.rule.malicious_share or Defence.MINIMUM not in poll.rule.defences:
        return True
    networks = {each.network for each in poll.known if each.network}
    if len(networks) >= poll.rule.minimum or candidate_id in poll.elsewhere:
        return True
    own = tuple(each.relative_times for each in poll.known if not each.network)
    if candidate_id == champion_id:
        return bool(own)
    found = preferences(own, poll.challenge(candidate_id, champion_id))
    return found.challenger > found.champion


def _challengers(counted: tuple[Standing, ...], default_id: str) -> tuple[Standing, ...]:
    """Lists those that beat the default in the vote and in time, in the order of the vote; then it.

    The default's relative time is 1 by definition, whatever the noise of a ballot says.
    """
    ahead = tuple(takewhile(lambda s: s.candidate_id != default_id, counted))
    default = Standing(candidate_id=default_id, weight=0, ballots=0, relative_time=1.0)
    if len(ahead) < len(counted):
        default = replace(counted[len(ahead)], relative_time=1.0)
    return (*(s for s in ahead if s.relative_time < 1 - MARGIN), default)


def _winner(poll: _Poll, challengers: tuple[Standing, ...], champion_id: str) -> Standing | None:
    """The first challenger that passes the test against the champion and the default, or another
    that does and passes it against that one, too.
    """
    if Defence.CHALLENGE not in poll.rule.defences:
        return challengers[0]
    winner = None
    for challenger in challengers:
        name = challenger.candidate_id
        against = {champion_id, poll.default_id, winner.candidate_id if winner else champion_id}
        if all(_passes(poll, name, other) for other in against - {name}):
            winner = challenger
    return winner if winner is None or winner.candidate_id != champion_id else None


def _passes(poll: _Poll, challenger_id: str, champion_id: str) -> bool:
    found = preferences(poll.voters, poll.challenge(challenger_id, champion_id))
    return passes(found, poll.rule.malicious_share)


def _fastest(poll: _Poll, counted: tuple[Standing, ...], champion_id: str) -> Standing:
    """Among one's own agents: what follows the champion, and what follows that, until nothing does.
    One step alone would leave it to the next ballot to take the others, and there may be none.
    """
    times = median_times(poll.voters, poll.default_id)
    served = [champion_id]
    while (follower := _follower(poll, times, served[-1])) not in served:
        served.append(follower)
    return _standing(served[-1], counted, times)


def _follower(poll: _Poll, times: Times, champion_id: str) -> str:
    """Picks the fastest kernel that most of a quorum prefer to the champion and to the default,
    else the champion, unless most of a quorum find the default as fast but for the margin. With one
    preference enough, a demo of five agents on a busy machine confirmed 15 versions.

    Preferences may go in a circle, medians do not: only who is faster by the median may challenge,
    so that the same ballots come to rest. Who has not measured the champion takes the others' word
    for its time; attackers would give theirs. Where a whole quorum has measured the challenger the
    median alone decides. What too many find slower than the default is not served instead of it,
    whatever the median says.
    """
    knowing = tuple({champion_id: times[champion_id], **each} for each in poll.voters)
    told = by_kernel(poll.voters)

    def is_doubted(name: str) -> bool:
        found = told.get(name, ())
        slower = sum(time > 1 + MARGIN for time in found)
        return name != poll.default_id and slower > max(1, DOUBTED * len(found))

    def is_faster(name: str, other: str) -> bool:
        known = len(told.get(name, ())) >= max(poll.rule.quorum, FEWEST)
        margin = SETTLED_MARGIN if known and other != poll.default_id else MARGIN
        if times[name] >= times[other] * (1 - margin):
            return False
        found = preferences(knowing, poll.challenge(name, other))
        return known or passes(found, 0, least=poll.rule.most)

    for name in sorted(times.keys() - {champion_id}, key=lambda each: (times[each], each)):
        others = {champion_id, poll.default_id} - {name}
        if not is_doubted(name) and all(is_faster(name, other) for other in others):
            return name
    over_default = preferences(knowing, poll.challenge(champion_id, poll.default_id))
    is_near = times[champion_id] > 1 - MARGIN and over_default.champion >= poll.rule.most
    return poll.default_id if is_near or is_doubted(champion_id) else champion_id


def _standing(candidate_id: str, counted: tuple[Standing, ...], times: Times) -> Standing:
    """Looks up the standing of a candidate: the weight that the vote gives it, if it is named at
    all, and its median time."""
    unnamed = Standing(candidate_id=candidate_id, weight=0, ballots=0, relative_time=1.0)
    found = next((each for each in counted if each.candidate_id == candidate_id), unnamed)
    return replace(found, relative_time=times[candidate_id])

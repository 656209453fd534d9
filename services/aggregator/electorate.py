"""Decides whose ballots count, and what they are taken to say.

`credible` holds ballots against networks and measurements. `electorate` drops those that a new
major version of a browser has replaced (docs/trust.md, "Drift"): it may compile a kernel to other
code, so that what was true of the old one is history. Once enough identities have voted in the new
one, no older ballots of this engine count. Nor do ballots of kernels that were timed alone, once
enough identities have timed theirs in whole tokens of a language model.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelzoo.domain.ballot import BallotLine, CastBallot
from kernelzoo.domain.trust import Defence
from kernelzoo.domain.zoo import EngineVotes
from services.aggregator.networks import capped
from services.aggregator.reported_times import consistent

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
    return replace(cast, ballot=replace(cast.ballot, lines=lines))


def _line(line: BallotLine, measured: float | None) -> BallotLine:
    if measured is None or consistent(line.relative_time, measured):
        return line
    return replace(line, relative_time=measured)


MOST_MALICIOUS = 0.45
"""At most this share of voters may collude; near one half a test would need hundreds of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Electorate:
    """The ballots that count, the largest share of attackers among them, the versions that have
    replaced older ones, and whether those who timed whole tokens decide alone.
    """

    ballots: tuple[CastBallot, ...]
    malicious_share: float
    renewed: tuple[str, ...] = ()
    in_tokens: bool = False


def electorate(cast: tuple[CastBallot, ...], *, quorum: int, malicious_share: float) -> Electorate:
    """Without the ballots that a newer major version has replaced, and those that a quorum of whole
    tokens has.

    A version and what was timed are what a browser says of itself: all attackers could tell a
    version that does not exist, and be alone in it. So of the ballots that are left the attackers
    may be as many as of all before. Where that were too large a share for any test, nothing is
    replaced yet.
    """
    newest = _newest(cast, quorum)
    today = Electorate(ballots=cast, malicious_share=malicious_share)
    left = tuple(each for each in cast if each.engine.major >= newest[each.engine.name])
    replaced = {each.engine.name for each in cast if each not in left}
    renewed = tuple(f"{name} {newest[name]}" for name in sorted(replaced))
    if replaced:
        today = _among(left, today, renewed=renewed)
    in_tokens = tuple(each for each in today.ballots if each.ballot.in_tokens)
    if quorum <= len(in_tokens) < len(today.ballots):
        today = _among(in_tokens, today, renewed=today.renewed, in_tokens=True)
    return today


def _among(
    left: tuple[CastBallot, ...],
    before: Electorate,
    *,
    renewed: tuple[str, ...],
    in_tokens: bool = False,
) -> Electorate:
    """Makes an electorate of those `left`; returns the one before where too many of them may
    collude."""
    share = before.malicious_share * len(before.ballots) / len(left) if left else 1.0
    if share > MOST_MALICIOUS:
        return before
    return Electorate(ballots=left, malicious_share=share, renewed=renewed, in_tokens=in_tokens)


def _newest(cast: Sequence[CastBallot], quorum: int) -> dict[str, int]:
    """By engine: the latest major version such that a quorum voted in it or in later ones; 0
    without a quorum.
    """
    majors: dict[str, list[int]] = defaultdict(list)
    for each in cast:
        majors[each.engine.name].append(each.engine.major)
    return {
        name: sorted(found, reverse=True)[quorum - 1] if len(found) >= quorum else 0
        for name, found in majors.items()
    }


def engines(cast: Sequence[CastBallot]) -> tuple[EngineVotes, ...]:
    """Counts the engines in which these ballots were cast, the latest version of each engine
    first."""
    counted = Counter((each.engine.name, each.engine.major) for each in cast)
    return tuple(
        EngineVotes(name=name, major=major, ballots=counted[name, major])
        for name, major in sorted(counted, key=lambda engine: (engine[0], -engine[1]))
    )

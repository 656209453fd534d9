"""Whether a challenger takes the champion's place: a sequential test on paired preferences.

A ballot's times come from rounds in which its kernels ran in turn, so one ballot that names both is
a pair. Pairs are counted as they come, and the question is asked again after each. The test is a
likelihood ratio against a vote in which every liar and some honest devices by mistake prefer the
challenger; however often one looks, a challenger that is not faster passes it with a probability of
at most `ERROR` (Ville's inequality; Wald's sequential test). docs/trust.md has the error rates.
"""

from dataclasses import dataclass
from math import log

from kernelzoo.domain.ballot import Ballot

MARGIN = 0.01
"""The noise of a best of seven interleaved rounds, as a share: kernels closer than this change
places between two ballots of one device (5 agents, matmul 384x768x768, Chromium 156)."""

MISTAKES = 0.05
"""Share of honest devices that prefer, by more than the margin, what is not faster."""

ERROR = 0.005
"""Of one challenge. A key has a handful of challengers, so that its own rate stays near 1 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """`default_id`: the kernel whose relative time is 1 in every ballot. It may be either."""

    challenger_id: str
    champion_id: str
    default_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """How many identities find the challenger faster by the margin, and how many do not."""

    challenger: int
    champion: int


def preferences(ballots: tuple[Ballot, ...], challenge: Challenge) -> Preferences:
    """Ballots that tell nothing of the two are left out."""
    told = [preferred for b in ballots if (preferred := _prefers(b, challenge)) is not None]
    return Preferences(challenger=sum(told), champion=len(told) - sum(told))


def _prefers(ballot: Ballot, challenge: Challenge) -> bool | None:
    """Whether a ballot prefers the challenger. What it does not name is slower than all it names.

    The default's place is known to be behind whatever has a time below 1, named or not. None where
    the default challenges, and neither it nor the champion is named.
    """
    named = {line.candidate_id: line.relative_time for line in ballot.lines}
    times = named | {challenge.default_id: 1.0}
    if challenge.champion_id in times:
        champion = times[challenge.champion_id]
        return times.get(challenge.challenger_id, champion) < champion * (1 - MARGIN)
    if challenge.challenger_id in named:
        return True
    return None if challenge.challenger_id == challenge.default_id else False


def passes(found: Preferences, liars: float) -> bool:
    """`liars`: the largest share of identities that may collude, from 0 to below one half.

    Without liars, those who measured are one's own devices, and most of them are right.
    """
    if not liars:
        return found.challenger > found.champion
    wrongly, rightly = liars + (1 - liars) * MISTAKES, 1 - liars
    evidence = found.challenger * log(rightly / wrongly)
    evidence += found.champion * log((1 - rightly) / (1 - wrongly))
    return evidence >= -log(ERROR)

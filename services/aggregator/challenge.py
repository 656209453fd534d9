"""Decides whether a challenger takes the champion's place: a sequential test on paired preferences.

Whoever measured both kernels beside the same reference has a preference. Preferences are counted as
they come, and the question is asked again after each. The test is a likelihood ratio against a vote
in which every attacker and some honest devices by mistake prefer the challenger; however often one
looks, a challenger that is not faster passes it with a probability of at most `ERROR` (Ville's
inequality; Wald's sequential test). docs/trust.md has the error rates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

MARGIN = 0.01
"""The noise of a best of seven interleaved rounds, as a share: kernels closer than this change
places between two ballots of one device (5 agents, matmul 384x768x768, Chromium 156)."""

SETTLED_MARGIN = MARGIN / 2
"""Medians over a whole quorum of one's own agents need this margin."""

MISTAKES = 0.05
"""Share of honest devices that prefer, by more than the margin, what is not faster."""

ERROR = 0.005
"""The error rate of one challenge. A key has a handful of challengers, so that its own rate stays
near 1 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """`default_id`: the kernel whose relative time is 1 for everybody. It may be either."""

    challenger_id: str
    champion_id: str
    default_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """Counts the identities that find the challenger faster by the margin, and those that do
    not."""

    challenger: int
    champion: int


def preferences(voters: Sequence[Mapping[str, float]], challenge: Challenge) -> Preferences:
    """Counts preferences of those who measured both. A voter has relative times by candidate."""
    told = [preferred for each in voters if (preferred := _prefers(each, challenge)) is not None]
    return Preferences(challenger=sum(told), champion=len(told) - sum(told))


def _prefers(times: Mapping[str, float], challenge: Challenge) -> bool | None:
    challenger, champion = (
        1.0 if kernel == challenge.default_id else times.get(kernel)
        for kernel in (challenge.challenger_id, challenge.champion_id)
    )
    if challenger is None or champion is None:
        return None
    return challenger < champion * (1 - MARGIN)


def passes(found: Preferences, malicious_share: float, least: int = 1) -> bool:
    """`malicious_share`: the largest share of identities that may collude, from 0 to below one
    half.

    Without attackers, those who measured are one's own devices, and most of them are right: of
    `least` that prefer the challenger. Where agents share a space one alone has measured most
    kernels.
    """
    if not malicious_share:
        return found.challenger >= least and found.challenger > found.champion
    wrongly, rightly = malicious_share + (1 - malicious_share) * MISTAKES, 1 - malicious_share
    evidence = found.challenger * log(rightly / wrongly)
    evidence += found.champion * log((1 - rightly) / (1 - wrongly))
    return evidence >= -log(ERROR)

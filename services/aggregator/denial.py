"""Decides which kernels a class of devices must not run: those that fail where others work.

That a kernel fails is a claim like its time, and a crowd that may take kernels away is as much of
a target as one that promotes them. So the test is the same: failures against successes, in a
proportion that attackers cannot have made up.

A class is a claim too. One that nobody measures says nothing, and what is denied to one class
holds for the device's others by the successes on all of them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelzoo.domain.ballot import CastBallot
from services.aggregator.challenge import Preferences, passes
from services.aggregator.networks import capped

DENIERS = 3
"""Networks of strangers at least, however few attackers a zoo expects; of the operator's agents
one."""

MEASURERS = 3
"""Networks that have measured anything of a class before failures on it count; of the operator's
agents one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """One identity, or one network's pages, said this last of an artifact. `stage` is '' where the
    kernel ran; `network` is '' for the operator's agents."""

    network: str
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """`stage`: where most of them failed."""

    stage: str
    failed: int
    ran: int
    operated: bool


def denial(voices: Sequence[Voice], malicious_share: float) -> Denial | None:
    """`voices`: those of older identities first. What the operator's own agents say is decisive."""
    own = [voice for voice in voices if not voice.network]
    counted = own or capped(voices)
    stages = Counter(voice.stage for voice in counted if voice.stage)
    failed = stages.total()
    found = Preferences(challenger=failed, champion=len(counted) - failed)
    enough = failed > found.champion if own else _convicts(found, malicious_share)
    if not enough:
        return None
    return Denial(
        stage=stages.most_common(1)[0][0],
        failed=failed,
        ran=found.champion,
        operated=bool(own),
    )


def _convicts(found: Preferences, malicious_share: float) -> bool:
    return found.challenger >= DENIERS and passes(found, malicious_share)


def suspicious(failed: int, ran: int, malicious_share: float, *, operated: bool) -> bool:
    """Returns whether there may be a `denial` where `failed` networks of strangers at most say that
    an artifact fails, and `ran` at least that it runs; `operated`: an agent of the operator does.
    """
    found = Preferences(challenger=failed, champion=ran)
    return operated or _convicts(found, malicious_share)


def inhabited(networks: int, operated: int) -> bool:
    """Returns whether a class is known to exist, by who measured anything of it that counts."""
    return operated > 0 or networks >= MEASURERS


def without(cast: Sequence[CastBallot], denied_ids: frozenset[str]) -> tuple[CastBallot, ...]:
    """Ballots as if nobody had measured what is denied; empty ones are left out."""
    kept = tuple(_without(each, denied_ids) for each in cast)
    return tuple(each for each in kept if each.ballot.lines)


def _without(cast: CastBallot, denied_ids: frozenset[str]) -> CastBallot:
    lines = tuple(line for line in cast.ballot.lines if line.candidate_id not in denied_ids)
    return replace(
        cast,
        ballot=replace(cast.ballot, lines=lines),
        measured=tuple(line for line in cast.measured if line.candidate_id not in denied_ids),
    )

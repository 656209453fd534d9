"""Decides which classes speak for devices that nobody has measured, and by which of their voters.

A device class is a claim and costs nothing, so that classes are not counted. What costs something
is a network: each has one voice, in the class that it measured first, however many identities it
has and classes it visits. A class speaks once enough voters are left to it, some of whom somebody
vouches for: the operator, whose agents they are, or a verifier that attested them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.trust import Defence
from services.aggregator.networks import capped


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """An identity that measured the winner of a class. `network`: '' for the operator's agents."""

    device_class: DeviceClass
    identity: str
    network: str
    attested: bool

    @property
    def vouched(self) -> bool:
        return self.attested or not self.network


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """A class that speaks, with the voters that count for no other. `voices`: how much it weighs.
    `operated`: most of its voters are the operator's.
    """

    identities: tuple[str, ...]
    voices: int
    operated: bool

    def alone(self, minimum: int) -> bool:
        """Returns whether a class may speak where no other is heard beside it."""
        return self.operated or self.voices >= minimum


def speakers(
    voters: Sequence[Voter], quorum: int, defences: frozenset[Defence]
) -> Mapping[DeviceClass, Speaker]:
    """By device class. `voters`: in the order in which each first measured for its class."""
    if Defence.SPEAKERS in defences:
        return _of_their_own(voters, quorum)
    by_class: dict[DeviceClass, list[str]] = defaultdict(list)
    for voter in voters:
        by_class[voter.device_class].append(voter.identity)
    return {
        device_class: Speaker(identities=tuple(found), voices=1, operated=True)
        for device_class, found in by_class.items()
    }


def _of_their_own(voters: Sequence[Voter], quorum: int) -> Mapping[DeviceClass, Speaker]:
    """Classes of wasm and of webgpu have no kernel in common, and a visitor's browser is of both,
    so that it speaks once for each.
    """
    by_target: dict[TargetKind, list[Voter]] = defaultdict(list)
    for voter in voters:
        by_target[voter.device_class.target.kind].append(voter)
    by_class: dict[DeviceClass, list[Voter]] = defaultdict(list)
    for of_target in by_target.values():
        for voter in capped(of_target):
            by_class[voter.device_class].append(voter)
    return {
        device_class: Speaker(
            identities=tuple(each.identity for each in own),
            voices=len(own),
            operated=2 * sum(not each.network for each in own) > len(own),
        )
        for device_class, own in by_class.items()
        if len(own) >= quorum and _vouched_for(own, quorum)
    }


def _vouched_for(own: Sequence[Voter], quorum: int) -> bool:
    """One agent of the operator's is enough; of attested strangers, most of a quorum."""
    if any(not each.network for each in own):
        return True
    return sum(each.vouched for each in own) > quorum // 2

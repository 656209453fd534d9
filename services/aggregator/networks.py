"""Limits how much one network may weigh."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class OfNetwork(Protocol):
    """`network`: keyed hash of where somebody came from; '' for the operator's agents."""

    @property
    def network(self) -> str: ...


Voice = TypeVar("Voice", bound=OfNetwork)


def capped(voices: Sequence[Voice]) -> tuple[Voice, ...]:
    """The first of each network, so that new identities never displace older ones.

    An identity costs a page load; addresses of another network cost more. With two identities of
    each, a fifth of the networks would be a third of the votes wherever attackers send two and
    honest visitors come alone. Those of the operator's own agents count without limit.
    """
    seen: set[str] = set()
    counted = []
    for voice in voices:
        if not voice.network or voice.network not in seen:
            counted.append(voice)
        seen.add(voice.network)
    return tuple(counted)

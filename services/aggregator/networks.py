"""How much one network may weigh."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar

IDENTITIES_PER_NETWORK = 2
"""An identity costs a page load; addresses of another network cost more. The devices of a household
or an office speak for themselves, and no more loudly than two strangers."""


class OfNetwork(Protocol):
    """`network`: keyed hash of where somebody came from; '' for the operator's agents."""

    @property
    def network(self) -> str: ...


Voice = TypeVar("Voice", bound=OfNetwork)


def capped(voices: Sequence[Voice], of_each: int = IDENTITIES_PER_NETWORK) -> tuple[Voice, ...]:
    """The first of each network, so that new identities never displace older ones.

    Those of the operator's own agents count without limit.
    """
    seen: Counter[str] = Counter()
    counted = []
    for voice in voices:
        seen[voice.network] += 1
        if not voice.network or seen[voice.network] <= of_each:
            counted.append(voice)
    return tuple(counted)

"""Manifests remembered until what they were made from changes.

Anybody can ask for manifests of device classes that nobody is of. So those of classes that have
voted are kept apart from the others, and of these what two networks asked for from the rest.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass
from math import inf

from services.gateway.manifests import KeptManifest, Key, ServedManifest, issue_time
from services.gateway.wake import Wake

MOST_VOTED = 10_000
MOST_WANTED = 4_000
MOST_OTHERS = 2_000
OUTDATED_S = 2.0
RENEWED_EVERY_S = 0.5
SURE_S = 60.0
"""For so long one is kept over changes of what it was not made from: settings that similar shapes
found are offered, too, and new ones of these are not waited for."""
GUESSED_S = 3600.0
"""So old one is given where there is no time to build it anew."""


@dataclass(slots=True)
class _Held:
    """`generation`: the last in which it was seen to be right, the first before its rows were read.
    `network`: the one that asked for it first. `renewed_s`: when a newer one was begun.
    """

    served: ServedManifest
    generation: int
    built_s: float
    network: str
    renewed_s: float = -inf


class _Recent(OrderedDict[Key, _Held]):
    """Forgets what was asked for least recently."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def add(self, key: Key, held: _Held) -> None:
        self[key] = held
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class ManifestCache:
    """Remembers manifests while the gateway hears of every change, and for as long as they would be
    signed with the same time.

    Those of classes that have voted are known to be real when they have to be built again. Outdated
    ones of theirs are still given for `OUTDATED_S` while newer ones are built: where agents vote,
    something changes many times a second.
    """

    def __init__(
        self,
        wake: Wake,
        *,
        most_voted: int = MOST_VOTED,
        most_wanted: int = MOST_WANTED,
        most_others: int = MOST_OTHERS,
    ) -> None:
        self._wake = wake
        self._voted, self._wanted = _Recent(most_voted), _Recent(most_wanted)
        self._others = _Recent(most_others)
        self._known: set[Key] = set()
        self._most_known = most_voted

    def get(self, key: Key) -> ServedManifest | None:
        """Gives what is right now."""
        held = self._held(key)
        return held.served if held is not None and self._is_right(held) else None

    def outdated(self, key: Key) -> ServedManifest | None:
        """Gives what was right a moment ago, for a class that has voted. Not past a denial."""
        held = self._held(key)
        if held is None or key not in self._known:
            return None
        if held.generation < self._wake.denied_generation:
            return None
        return held.served if self._wake.outdated_s(held.generation) <= OUTDATED_S else None

    def guess(self, key: Key) -> ServedManifest | None:
        """Gives a class that has not voted what others had found, who may have found more since."""
        held = self._find(key) if self._wake.connected else None
        if held is None or time.monotonic() > held.built_s + GUESSED_S:
            return None
        changes = self._wake.changes
        changed = changes.other_than_offers(held.generation, held.served.sources)
        return None if changed else held.served

    def latest(self, key: Key) -> KeptManifest | None:
        """Gives what was built last, right or not."""
        held = self._find(key)
        if held is None:
            return None
        age_s = time.monotonic() - held.built_s
        return KeptManifest(served=held.served, built_s=time.time() - age_s)

    def renew(self, key: Key) -> bool:
        """Says whether an outdated one is to be built anew now: once in `RENEWED_EVERY_S`."""
        held, now_s = self._held(key), time.monotonic()
        if held is None or now_s < held.renewed_s + RENEWED_EVERY_S:
            return False
        held.renewed_s = now_s
        return True

    def knows(self, key: Key) -> bool:
        """Says whether the class had voted when it was last asked for, be that before a change."""
        return key in self._known

    def is_lasting(self, key: Key) -> bool:
        """Says whether it is of a class that has voted, or two networks asked for it."""
        return key in self._voted or key in self._wanted

    def asked(self, key: Key, network: str) -> None:
        """To be told of every request for what is here."""
        held = self._others.get(key)
        if held is not None and held.network != network:
            self._wanted.add(key, self._others.pop(key))
            return
        for kept in (self._voted, self._wanted, self._others):
            if key in kept:
                kept.move_to_end(key)

    def put(self, key: Key, served: ServedManifest, *, generation: int, network: str) -> None:
        """`generation` is the one seen before the rows were read."""
        before, wanted = self._find(key), key in self._wanted
        for kept in (self._voted, self._wanted, self._others):
            kept.pop(key, None)
        held = _Held(served, generation, time.monotonic(), network)
        if before is not None:
            held.network, held.renewed_s = before.network, before.renewed_s
            wanted = wanted or before.network != network
            held = held if before.generation <= generation else before
        if len(self._known) >= self._most_known:
            self._known.clear()
        (self._known.add if held.served.voted else self._known.discard)(key)
        if held.served.voted:
            self._voted.add(key, held)
        else:
            (self._wanted if wanted else self._others).add(key, held)

    def _find(self, key: Key) -> _Held | None:
        return self._voted.get(key) or self._wanted.get(key) or self._others.get(key)

    def _held(self, key: Key) -> _Held | None:
        """None while nobody hears of changes, and where it would be signed with another time."""
        held = self._find(key) if self._wake.connected else None
        return held if held is not None and held.served.issued_at == issue_time() else None

    def _is_right(self, held: _Held) -> bool:
        now = self._wake.served_generation
        if held.generation == now:
            return True
        sure = time.monotonic() <= held.built_s + SURE_S
        if not sure or self._wake.changes.since(held.generation, held.served.sources):
            return False
        held.generation = now
        return True

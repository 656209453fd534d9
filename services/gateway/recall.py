"""Manifests from memory where they are in it; else they are built and kept. While the database is
away those that were kept are given as they are.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from psycopg import OperationalError
from psycopg_pool import PoolTimeout
from starlette.types import Scope

from kernelzoo.metrics import CacheResult
from services.gateway.cache import ManifestCache
from services.gateway.manifests import KeptManifest, Key, ServedManifest, class_name
from services.gateway.standby import names_any
from services.gateway.state import State

Make = Callable[[], Awaitable[ServedManifest]]
IN_HASTE = "kernelzoo.in_haste"
"""Member of the scope of a request for which there is no time to build anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`network`: the one that asks. `device_classes`: those that it asks for. `after`: the serial
    of a manifest that it has seen, and 0 where it has seen none, or none that is later than what it
    was given.
    """

    network: str
    device_classes: tuple[str, ...]
    after: int = 0
    in_haste: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """`age_s` is 0 where it is right now."""

    served: ServedManifest
    cache: CacheResult
    age_s: int = 0

    def headers(self, cache_control: str) -> dict[str, str]:
        told = {"ETag": self.served.etag, "Cache-Control": cache_control}
        return {**told, "Age": str(self.age_s)} if self.cache == CacheResult.KEPT else told


def asked(scope: Scope, network: str, after: int, *device_classes: str) -> Asked:
    return Asked(
        network=network,
        device_classes=tuple(class_name(each) for each in device_classes),
        after=after,
        in_haste=IN_HASTE in scope,
    )


async def recalled(state: State, cache: ManifestCache, key: Key, by: Asked, make: Make) -> Recalled:
    """One that was right a moment ago is given at once, and built anew for those who come next."""
    _note_request(state, cache, key, by)
    current = cache.get(key)
    # Another gateway may have built the same later, for which its serial is a later one.
    behind = current is not None and by.after > current.serial and cache.renew(key)
    if current is not None and not behind:
        return Recalled(served=current, cache=CacheResult.HIT)
    if by.in_haste and (guess := cache.guess(key)) is not None:
        return Recalled(served=guess, cache=CacheResult.HIT)
    if state.wake.away and (kept := await _kept(state, cache, key, by)) is not None:
        return kept
    generation = state.wake.served_generation

    async def made() -> ServedManifest:
        served = await make()
        cache.put(key, served, generation=generation, network=by.network)
        if cache.is_lasting(key):
            state.standby.keep_manifest(key, served)
        return served

    building, known = (generation, *key), cache.knows(key)
    if not behind and (outdated := cache.outdated(key)) is not None:
        if cache.renew(key):
            state.builds.begin(building, made, known=known)
        return Recalled(served=outdated, cache=CacheResult.HIT)
    try:
        served = await state.builds.build(building, made, known=known)
    except (OperationalError, PoolTimeout):
        kept = await _kept(state, cache, key, by)
        if kept is None:
            raise
        return kept
    return Recalled(served=served, cache=CacheResult.MISS)


def _note_request(state: State, cache: ManifestCache, key: Key, by: Asked) -> None:
    """From now on this is kept if a second network asks for it."""
    lasting = cache.is_lasting(key)
    cache.asked(key, by.network)
    if not lasting and cache.is_lasting(key) and (latest := cache.latest(key)) is not None:
        state.standby.keep_manifest(key, latest.served)


async def _kept(state: State, cache: ManifestCache, key: Key, by: Asked) -> Recalled | None:
    """Returns the one that was built last, in memory or on the disk; None where nothing is kept,
    and where it has a kernel that was denied since.
    """
    if not state.standby.keeps:
        return None
    kept: KeptManifest | None = cache.latest(key) or await state.standby.manifest(key)
    if kept is None:
        return None
    if names_any(kept.served, await state.denied.hashes(by.device_classes)):
        return None
    return Recalled(served=kept.served, cache=CacheResult.KEPT, age_s=kept.age_s)

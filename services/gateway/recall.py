"""Manifests from memory where they are in it; else they are built and kept."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import Scope

from kernelzoo.metrics import CacheResult
from services.gateway.cache import Key, ManifestCache
from services.gateway.manifests import ServedManifest
from services.gateway.state import State

Make = Callable[[], Awaitable[ServedManifest]]
IN_HASTE = "kernelzoo.in_haste"
"""Member of the scope of a request for which there is no time to build anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`network`: the one that asks. `after`: the serial of a manifest that it has seen, and 0
    where it has seen none, or none that is later than what it was given.
    """

    network: str
    after: int = 0
    in_haste: bool = False


def asked(scope: Scope, network: str, after: int) -> Asked:
    return Asked(network=network, after=after, in_haste=IN_HASTE in scope)


async def recalled(
    state: State, cache: ManifestCache, key: Key, by: Asked, make: Make
) -> tuple[ServedManifest, CacheResult]:
    """One that was right a moment ago is given at once, and built anew for those who come next."""
    cache.asked(key, by.network)
    current = cache.get(key)
    # Another gateway may have built the same later, for which its serial is a later one.
    behind = current is not None and by.after > current.serial and cache.renew(key)
    if current is not None and not behind:
        return current, CacheResult.HIT
    if by.in_haste and (guess := cache.guess(key)) is not None:
        return guess, CacheResult.HIT
    generation = state.wake.served_generation

    async def made() -> ServedManifest:
        served = await make()
        cache.put(key, served, generation=generation, network=by.network)
        return served

    building, known = (generation, *key), cache.knows(key)
    if not behind and (outdated := cache.outdated(key)) is not None:
        if cache.renew(key):
            state.builds.begin(building, made, known=known)
        return outdated, CacheResult.HIT
    return await state.builds.build(building, made, known=known), CacheResult.MISS

"""Manifests from memory where they are in it; else they are built and kept."""

from collections.abc import Awaitable, Callable

from kernelzoo.metrics import CacheResult
from services.gateway.manifests import Key, ManifestCache, ServedManifest
from services.gateway.state import State

Make = Callable[[], Awaitable[ServedManifest]]


async def recalled(
    state: State, cache: ManifestCache, key: Key, make: Make
) -> tuple[ServedManifest, CacheResult]:
    """One that was right a moment ago is given at once, and built anew for those who come next."""
    if (current := cache.get(*key)) is not None:
        return current, CacheResult.HIT
    generation = state.wake.served_generation

    async def made() -> ServedManifest:
        served = await make()
        cache.put(*key, served=served, generation=generation)
        return served

    building, known = (generation, *key), cache.knows(*key)
    if (outdated := cache.outdated(*key)) is not None:
        if cache.renew(*key):
            state.builds.begin(building, made, known=known)
        return outdated, CacheResult.HIT
    return await state.builds.build(building, made, known=known), CacheResult.MISS

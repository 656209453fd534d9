"""What liars do besides measuring and voting: over HTTP, as anybody may."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from cli.simulate.crowd import Crowd
from cli.simulate.members import Member, class_of, raiders_of
from cli.simulate.scenario import Raid
from cli.simulate.world import World
from kernelzoo.domain.workload import Workload
from services.gateway.wire.denials import FailureReport

WEAK_GFLOPS = 0.5
"""A peak that no device of an honest visitor is as slow as."""

FOREIGN_RHO = "r1-1"
"""A primitive vector that no member has."""

Raiding = Callable[[Crowd, Member], Awaitable[None]]


async def claim(crowd: Crowd, member: Member) -> None:
    async with crowd.arrived(member, WEAK_GFLOPS):
        pass


async def hoard(crowd: Crowd, member: Member) -> None:
    """Borrows until there is nothing left, and answers nothing."""
    async with crowd.arrived(member) as one:
        while one is not None and (lease := await one.lease(0)) is not None:
            if not lease.candidates:
                return
            crowd.see(member, one, lease)


async def deny(crowd: Crowd, member: Member) -> None:
    """Says of every kernel but the slowest that it fails, on a class of the same device id."""
    elsewhere = class_of(member.device, FOREIGN_RHO)
    own = class_of(member.device)
    keys = [key for key in crowd.keys.values() if key.device_class == own]
    async with crowd.arrived(member) as one:
        if one is None:
            return
        for key in keys:
            world = World(seed=crowd.scenario.seed, flops=Workload.parse(key.workload).flops)
            slowest = max(key.artifacts, key=lambda name: world.call_ns(member.device, name))
            for artifact in sorted(set(key.artifacts.values()) - {key.artifacts[slowest]}):
                failure = FailureReport(
                    workload=key.workload,
                    device_class=elsewhere,
                    artifact=artifact,
                    stage="run",
                    detail="",
                )
                await one.fail(failure)


BEFORE: Mapping[Raid, Raiding] = MappingProxyType({Raid.CLAIM: claim, Raid.HOARD: hoard})
AFTER: Mapping[Raid, Raiding] = MappingProxyType({Raid.DENY: deny})
"""By when they are made: before anybody has measured, or after all have voted."""


async def raid(crowd: Crowd, raids: Mapping[Raid, Raiding]) -> None:
    """Those of the scenario's tactics, in every class."""
    door = asyncio.Semaphore(crowd.scenario.tactics.at_once)

    async def one_raid(raiding: Raiding, member: Member) -> None:
        async with door:
            await raiding(crowd, member)

    for raid_name, raiding in raids.items():
        if raid_name in crowd.scenario.tactics.raids:
            async with asyncio.TaskGroup() as group:
                for member in raiders_of(crowd.scenario):
                    group.create_task(one_raid(raiding, member))

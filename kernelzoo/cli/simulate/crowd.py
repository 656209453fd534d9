"""The crowd of a scenario: who comes from where, and what each one does in every key."""

import asyncio
from dataclasses import dataclass, field
from random import Random

from kernelzoo.cli.simulate.conduct import (
    CLAIM,
    Timing,
    claimed_timing,
    fastest,
    honest_lines,
    honest_timing,
)
from kernelzoo.cli.simulate.members import Member, members_of, session_of
from kernelzoo.cli.simulate.scenario import Attack, Scenario
from kernelzoo.cli.simulate.stranger import Stranger, stranger
from kernelzoo.cli.simulate.world import World
from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.workload import Workload
from services.aggregator.verification import expected_entries
from services.gateway.wire.leases import (
    BallotLineWire,
    BallotRequest,
    Lease,
    MeasurementWire,
    Report,
)

AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as its voters saw it."""

    device: str
    device_class: str
    workload: str
    reference_id: str
    candidate_ids: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Crowd:
    """Runs a scenario against the gateway at `url`; remembers the keys that it saw."""

    url: str
    scenario: Scenario
    keys: dict[tuple[str, str], Key] = field(default_factory=dict)
    measurements: int = 0
    turned_away: int = 0
    honest: set[str] = field(default_factory=set)
    liars: set[str] = field(default_factory=set)
    _replayed: dict[str, list[float]] = field(default_factory=dict)
    _measured: dict[tuple[str, str], Timing] = field(default_factory=dict)

    async def vote(self) -> None:
        """All members of all classes, in an order of chance, a few at a time."""
        door = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for member in members_of(self.scenario):
                group.create_task(self._visit(member, door))

    async def _visit(self, member: Member, door: asyncio.Semaphore) -> None:
        async with door, stranger(self.url, member.address, session_of(member)) as one:
            if one is None:
                self.turned_away += 1
                return
            (self.liars if member.lies else self.honest).add(one.identity)
            while (lease := await one.lease()) is not None:
                await self._answer(member, one, lease)

    async def _answer(self, member: Member, one: Stranger, lease: Lease) -> None:
        key = self._see(member, one, lease)
        world = World(seed=self.scenario.seed, flops=lease.flops)
        chance = Random(f"{self.scenario.seed}/{member.name}/{lease.workload}")
        reference_ns = world.call_ns(member.device, key.reference_id)
        times = {name: world.call_ns(member.device, name) for name in key.candidate_ids}
        claims = self._claims(member, lease.workload, times, chance)
        timings = {
            name: self._timing(member, name, claims, chance, times[name], reference_ns)
            for name in (kernel.candidate for kernel in lease.candidates)
        }
        await one.report(lease, _report(lease, timings, self._entries(member, lease)))
        self.measurements += len(timings)
        if lease.unmeasured == 0:
            relative = {name: time / reference_ns for name, time in times.items()}
            lines = fastest(claims) if claims else honest_lines(chance, relative)
            await one.vote(_ballot(lease.workload, lines))

    def _timing(
        self,
        member: Member,
        candidate: str,
        claims: dict[str, float],
        chance: Random,
        call_ns: float,
        reference_ns: float,
    ) -> Timing:
        """What a member reports of a candidate; a copier what the first of them did."""
        measured = honest_timing(chance, call_ns, reference_ns)
        if member.lies and self.scenario.attack is Attack.COPY:
            return self._measured.setdefault((member.device, candidate), measured)
        if candidate in claims:
            return claimed_timing(chance, claims[candidate], reference_ns)
        return measured

    def _see(self, member: Member, one: Stranger, lease: Lease) -> Key:
        """The key of a lease; a second lease of it adds its candidates."""
        place = (one.device_class, lease.workload)
        known = self.keys[place].candidate_ids if place in self.keys else ()
        lent = (kernel.candidate for kernel in lease.candidates)
        self.keys[place] = Key(
            device=member.device,
            device_class=one.device_class,
            workload=lease.workload,
            reference_id=lease.reference.candidate,
            candidate_ids=tuple(dict.fromkeys((*known, *lent))),
        )
        return self.keys[place]

    def _claims(
        self, member: Member, workload: str, times: dict[str, float], chance: Random
    ) -> dict[str, float]:
        """Relative times that a liar makes up; none of who reports what was measured."""
        if not member.lies:
            return {}
        match self.scenario.attack:
            case Attack.RANDOM:
                return {name: chance.uniform(CLAIM, 2) for name in times}
            case Attack.OWN:
                return {chance.choice(sorted(times)): CLAIM}
            case Attack.SLOW if workload != self.scenario.workloads[-1]:
                return {}
        return {max(times, key=lambda name: times[name]): CLAIM}

    def _entries(self, member: Member, lease: Lease) -> list[float]:
        """The sampled entries of a right output; a replayer's are of somebody else's lease."""
        if (
            member.lies
            and self.scenario.attack is Attack.REPLAY
            and lease.workload in self._replayed
        ):
            return self._replayed[lease.workload]
        found = expected_entries(Workload.parse(lease.workload), lease.seed)
        right = [float(entry) for entry in found]
        self._replayed[lease.workload] = right
        return right


def _report(lease: Lease, timings: dict[str, Timing], entries: list[float]) -> Report:
    measurements = [
        MeasurementWire(
            candidate=candidate,
            outcome=Outcome.OK,
            samples_ns=list(timing.samples_ns),
            reference_ns=list(timing.reference_ns),
            calls_per_sample=1,
            sampled_entries=entries,
            detail="",
        )
        for candidate, timing in timings.items()
    ]
    return Report(nonce=lease.nonce, measurements=measurements)


def _ballot(workload: str, lines: tuple[tuple[str, float], ...]) -> BallotRequest:
    wired = [BallotLineWire(candidate=name, relative_time=time) for name, time in lines]
    return BallotRequest(workload=workload, lines=wired)

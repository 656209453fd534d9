"""The crowd of a scenario: where each one comes from, what it does, and what attackers add."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType

from cli.simulate.conduct import (
    BOLDNESS,
    BURIED,
    CLAIM,
    Condition,
    Timing,
    ambush_claims,
    claimed_timing,
    condition,
    fastest,
    honest_timing,
    measured_again,
)
from cli.simulate.members import Member, class_of, members_of, raiders_of, session_of
from cli.simulate.scenario import Attack, Raid, Scenario
from cli.simulate.stranger import Stranger, stranger
from cli.simulate.world import PEAK_GFLOPS, World
from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import StackError
from services.aggregator.verification import expected_entries
from services.gateway.wire.denials import FailureReport
from services.gateway.wire.leases import (
    BallotLineWire,
    BallotRequest,
    Lease,
    LeaseReport,
    MeasurementWire,
)

WAIT_S = 2.0
PATIENCE_S = 300.0
PATIENCE = 40
"""A member waits for what others hold, and for what is not yet verified, on a machine that has
other work: beside `PATIENCE_S`, so many measurements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedKey:
    """A key as its voters saw it. `artifacts`: hashes of the bytes, by candidate. `honest_ids`:
    what honest ones were lent.
    """

    device: str
    device_class: str
    workload: str
    reference_id: str
    candidate_ids: tuple[str, ...]
    artifacts: Mapping[str, str]
    honest_ids: frozenset[str]


@dataclass(slots=True, kw_only=True)
class MemberVisit:
    """One member has said this of one workload: the relative times that it reported."""

    chance: Random
    condition: Condition
    told: dict[str, float] = field(default_factory=dict)
    closed: bool = False


@dataclass(slots=True, kw_only=True)
class Crowd:
    """Runs a scenario against the gateway at `url`; remembers the keys that it saw.

    `at_once` members are there at a time, or as many as its tactics say; if `together`, which takes
    that many, all of them before the first is lent anything. A measurement takes each `cost_s`.
    `greet` is told of each identity that came. Who is not `patient` leaves as soon as there is
    nothing to measure.
    """

    url: str
    scenario: Scenario
    at_once: int | None = None
    cost_s: float = 0.0
    together: bool = False
    greet: Callable[[str], None] | None = None
    patient: bool = True
    keys: dict[tuple[str, str], SimulatedKey] = field(default_factory=dict)
    turned_away: int = 0
    honest: set[str] = field(default_factory=set)
    malicious: set[str] = field(default_factory=set)
    measurements: int = 0
    _replayed: dict[str, list[float]] = field(default_factory=dict)
    _measured: dict[tuple[str, str], Timing] = field(default_factory=dict)
    _pushed: dict[tuple[str, str], str] = field(default_factory=dict)
    _kept: dict[str, str] = field(default_factory=dict)

    async def vote(self, members: Sequence[Member] | None = None) -> None:
        """Lets members vote in this order, a few at a time; all of the scenario unless told."""
        members = members_of(self.scenario) if members is None else members
        await self._enrol(members)
        door = asyncio.Semaphore(self.at_once or self.scenario.tactics.at_once)
        present = asyncio.Barrier(len(members) if self.together else 1)
        async with asyncio.TaskGroup() as group:
            for member in members:
                group.create_task(self._visit(member, door, present))

    async def _enrol(self, members: Sequence[Member]) -> None:
        """Opens sessions; a member that comes several times comes back as the same identity."""
        shared = {member.identity: member for member in members if member.identity != member.name}
        for member in shared.values():
            if member.identity not in self._kept:
                async with self.arrived(member):
                    pass

    @asynccontextmanager
    async def arrived(
        self, member: Member, peak_gflops: float = PEAK_GFLOPS
    ) -> AsyncIterator[Stranger | None]:
        """None where it is turned away."""
        session = session_of(member, peak_gflops, self._kept.get(member.identity))
        async with stranger(self.url, member.address, session) as one:
            if one is None:
                self.turned_away += 1
            else:
                self._kept[member.identity] = one.kept
                if self.greet is not None:
                    self.greet(one.identity)
                (self.malicious if member.lies else self.honest).add(one.identity)
            yield one

    async def _visit(
        self, member: Member, door: asyncio.Semaphore, present: asyncio.Barrier
    ) -> None:
        async with door, self.arrived(member) as one:
            await present.wait()
            if one is None:
                return
            visits = {
                workload: MemberVisit(
                    chance=Random(f"{self.scenario.seed}/{member.name}/{workload}"),
                    condition=condition(self.scenario.seed, member.name),
                )
                for workload in self.scenario.workloads
            }
            patience_s = PATIENCE_S + PATIENCE * self.cost_s if self.patient else 0.0
            async for lease in _leases(one, visits, patience_s):
                measured = sum(len(visit.told) for visit in visits.values())
                await self._answer(member, one, lease, visits[lease.workload], measured)

    async def _answer(
        self, member: Member, one: Stranger, lease: Lease, visit: MemberVisit, measured: int
    ) -> None:
        """Reports what was lent, whatever for: nobody is told. Votes after each lease, and again
        when its best are measured against each other, as the agent of a browser does.

        `measured`: how much this member has measured before.
        """
        key = self.see(member, one, lease)
        lent = [kernel.candidate for kernel in lease.candidates]
        times = {
            name: call_ns * visit.condition.slowdown(name, measured)
            for name, call_ns in self._true_times(member, key, lease.flops).items()
        }
        reference_ns = times[key.reference_id]
        claims = self._claims(member, key, times, visit, lent)
        timings = {
            name: self._timing(member, name, claims, visit, times[name], reference_ns)
            for name in lent
        }
        await asyncio.sleep(self.cost_s * len(lent))
        if lent:
            entries = self._entries(member, lease)
            await one.report(lease, _report(lease, timings, entries))
        self.measurements += len(lent)
        visit.told |= {name: timing.relative_time for name, timing in timings.items()} | claims
        visit.closed |= lease.complete
        if visit.told:
            await one.vote(_ballot(lease.workload, fastest(visit.told)))
        if lease.complete and visit.told and not member.lies:
            relative = {name: time / reference_ns for name, time in times.items()}
            again = measured_again(
                visit.chance, visit.condition, visit.told, relative, lease.finalists
            )
            await asyncio.sleep(self.cost_s * len(again))
            await one.vote(_ballot(lease.workload, fastest(again, len(again)), paired=True))

    async def bury(self, member: Member, one: Stranger, leases: Sequence[Lease]) -> None:
        """Answers the leases of an ambush, all of which were seen before, and votes."""
        for workload in self.scenario.workloads:
            key = self.keys[one.device_class, workload]
            chance = Random(f"{self.scenario.seed}/{member.name}/{workload}")
            visit = MemberVisit(chance=chance, condition=condition(self.scenario.seed, member.name))
            times = self._true_times(member, key, Workload.parse(workload).flops)
            reference_ns = times[key.reference_id]
            relative = {
                name: time / reference_ns
                for name, time in times.items()
                if name != key.reference_id
            }
            said = ambush_claims(visit.chance, relative)
            slow = {name: claim for name, claim in said.items() if claim is not None}
            for lease in (each for each in leases if each.workload == workload):
                lent = [kernel.candidate for kernel in lease.candidates]
                failing = [name for name in lent if said.get(name, 0) is None]
                timings = {
                    name: self._timing(member, name, slow, visit, times[name], reference_ns)
                    for name in lent
                    if name not in failing
                }
                entries = self._entries(member, lease)
                await one.report(lease, _report(lease, timings, entries, failing))
                self.measurements += len(lent)
                visit.told |= {name: timing.relative_time for name, timing in timings.items()}
            await one.vote(_ballot(workload, fastest(visit.told), paired=True))

    def _true_times(self, member: Member, key: SimulatedKey, flops: int) -> dict[str, float]:
        """Nanoseconds of a call of each kernel of a key on the member's device while it is idle."""
        world = World(seed=self.scenario.seed, flops=flops)
        names = {*key.candidate_ids, key.reference_id}
        return {name: world.call_ns(member.device, name) for name in names}

    def _timing(
        self,
        member: Member,
        candidate: str,
        claims: dict[str, float],
        visit: MemberVisit,
        call_ns: float,
        reference_ns: float,
    ) -> Timing:
        """Makes what a member reports of a candidate; a copier reports what the first of them
        did."""
        measured = honest_timing(visit.chance, visit.condition, call_ns, reference_ns)
        if member.lies and self.scenario.attack is Attack.COPY:
            return self._measured.setdefault((member.device, candidate), measured)
        if candidate in claims:
            return claimed_timing(visit.chance, claims[candidate], reference_ns)
        return measured

    def see(self, member: Member, one: Stranger, lease: Lease) -> SimulatedKey:
        """The key of a lease; a second lease of it adds its candidates."""
        place = (one.device_class, lease.workload)
        known = self.keys.get(place)
        kernels = (lease.reference, *lease.candidates)
        lent = tuple(kernel.candidate for kernel in lease.candidates)
        candidate_ids = (*(known.candidate_ids if known else ()), *lent)
        artifacts = {kernel.candidate: kernel.sha256 for kernel in kernels}
        found = frozenset() if member.lies else frozenset(lent)
        self.keys[place] = SimulatedKey(
            device=member.device,
            device_class=one.device_class,
            workload=lease.workload,
            reference_id=lease.reference.candidate,
            candidate_ids=tuple(dict.fromkeys(candidate_ids)),
            artifacts={**artifacts, **(known.artifacts if known else {})},
            honest_ids=found | (known.honest_ids if known else frozenset()),
        )
        return self.keys[place]

    def _claims(
        self,
        member: Member,
        key: SimulatedKey,
        times: dict[str, float],
        visit: MemberVisit,
        lent: list[str],
    ) -> dict[str, float]:
        """Relative times that an attacker makes up of what it was lent, and who knows the true
        `times` of the key; none of who reports what was measured.
        """
        if not member.lies or not lent:
            return {}
        best = (1 - BOLDNESS) * min(times.values()) / times[key.reference_id]
        match self.scenario.attack:
            case Attack.RANDOM:
                return {name: visit.chance.uniform(CLAIM, 2) for name in lent}
            case Attack.OWN:
                return {} if visit.told else {visit.chance.choice(sorted(lent)): best}
            case Attack.BURY:
                reference_ns = times[key.reference_id]
                good = [name for name in lent if times[name] < reference_ns]
                return {name: BURIED * times[name] / reference_ns for name in good}
            case Attack.SLOW if key.workload != self.scenario.workloads[-1]:
                return {}
            case Attack.BOAST:
                best = CLAIM
        slowest = max(lent, key=lambda name: times[name])
        pushed = self._pushed.setdefault((key.device, key.workload), slowest)
        return {pushed: best} if pushed in lent else {}

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


async def _leases(
    one: Stranger, visits: Mapping[str, MemberVisit], patience_s: float
) -> AsyncIterator[Lease]:
    """Until it has done its share of every workload and nothing new is served.

    Raises StackError when it waits in vain; without patience it leaves instead.
    """
    waited_s = 0.0
    while waited_s < patience_s or not patience_s:
        closed = all(visit.closed for visit in visits.values()) or not patience_s
        lease = await one.lease(0 if closed else WAIT_S)
        if lease is not None:
            waited_s = 0.0
            yield lease
        elif closed:
            return
        else:
            waited_s += WAIT_S
    raise StackError(f"a member of the crowd waited {waited_s:.0f} s for its next lease")


def _report(
    lease: Lease,
    timings: Mapping[str, Timing],
    entries: list[float],
    failing: Sequence[str] = (),
) -> LeaseReport:
    ran = [
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
    failed = [
        MeasurementWire(
            candidate=candidate,
            outcome=Outcome.RUN,
            samples_ns=[],
            reference_ns=[],
            calls_per_sample=1,
            sampled_entries=[],
            detail="",
        )
        for candidate in failing
    ]
    return LeaseReport(nonce=lease.nonce, measurements=[*ran, *failed])


def _ballot(
    workload: str, lines: tuple[tuple[str, float], ...], *, paired: bool = False
) -> BallotRequest:
    wired = [BallotLineWire(candidate=name, relative_time=time) for name, time in lines]
    return BallotRequest(workload=workload, lines=wired, paired=paired)


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


UNBELIEVED_S = 25.0
"""For so long a lease is held before its candidates are lent to others as well: a third of its
time, and what the rest of the attackers take to borrow."""


async def ambush(crowd: Crowd, member: Member) -> None:
    """Holds the whole space as the others do, and only then says of it what buries the best."""
    async with crowd.arrived(member) as one:
        if one is None:
            return
        clock = asyncio.get_running_loop().time
        leases, until_s = [], clock() + UNBELIEVED_S
        while clock() < until_s:
            lease = await one.lease(WAIT_S)
            if lease is not None and lease.candidates:
                crowd.see(member, one, lease)
                leases.append(lease)
        await crowd.bury(member, one, leases)


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


BEFORE: Mapping[Raid, Raiding] = MappingProxyType(
    {Raid.CLAIM: claim, Raid.HOARD: hoard, Raid.AMBUSH: ambush}
)
AFTER: Mapping[Raid, Raiding] = MappingProxyType({Raid.DENY: deny})
"""By when they are made: before anybody has measured, or after all have voted."""


async def raid(crowd: Crowd, raids: Mapping[Raid, Raiding]) -> None:
    """Carries out the raids of the scenario's tactics, in every class."""
    door = asyncio.Semaphore(crowd.scenario.tactics.at_once)

    async def one_raid(raiding: Raiding, member: Member) -> None:
        async with door:
            await raiding(crowd, member)

    for raid_name, raiding in raids.items():
        if raid_name in crowd.scenario.tactics.raids:
            async with asyncio.TaskGroup() as group:
                for member in raiders_of(crowd.scenario):
                    group.create_task(one_raid(raiding, member))

"""One simulation: a stack of its own, its scenarios one after the other, their verdicts."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from uuid import UUID

from cli.gateway_client import GatewayClient
from cli.simulate.crowd import AFTER, BEFORE, Crowd, SimulatedKey, raid
from cli.simulate.judge import (
    Fate,
    ScenarioVerdict,
    ServedPage,
    Unseen,
    fate,
    over,
    unseen,
    verdict,
)
from cli.simulate.members import UNSEEN, Member, class_of, hardware_of, phases_of
from cli.simulate.scenario import Raid, Scenario
from cli.simulate.world import World
from cli.stack.place import Place
from cli.stack.plan import StackOptions
from cli.stack.ports import LOOPBACK, free_port
from cli.stack.processes import Environment
from cli.stack.supervisor import Stack, running
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.trust import Defence
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import StackError
from kernelzoo.store import agents, ballots, chain, leases, trust, zoo
from kernelzoo.store.blocking import Database, connected, execute, fetch_all, fetch_one
from services.aggregator.publishing import Rule

POLL_S = 0.2
COMPILE_S = 120.0
SETTLE_S = 120.0
SILENT_S = 30.0
"""A visitor of a class where all is held comes so long after it was borrowed: half a lease."""
AT_A_TIME = 64
"""Members whose reports are verified before the next come."""
UNBOUNDED = "1000000000"
"""A run is many days of a crowd, and of attackers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOutcome:
    """A scenario came to this under the given defences. `caught`: share of the attackers that ever
    failed a check, `wronged`: of the honest. `controls`: share of the leases that carried one.
    `lent`: share of the space that the honest visitors of a key were lent. `unseen`: what devices
    are served that nobody has measured, where attackers care.
    """

    scenario: Scenario
    defences: frozenset[Defence]
    verdict: ScenarioVerdict
    unseen: Unseen | None
    measurements: int
    turned_away: int
    caught: float
    wronged: float
    controls: float
    lent: float
    elapsed_s: float

    @property
    def per_confirmed(self) -> float | None:
        """Measurements for each confirmed key; None where none is."""
        confirmed = self.verdict.confirmed * self.verdict.keys
        return self.measurements / confirmed if confirmed else None


def simulated(place: Place, rule: Rule, scenarios: Iterable[Scenario]) -> Iterator[ScenarioOutcome]:
    """Raises StackError where a service fails or does not come to an end."""
    options = StackOptions(
        host=LOOPBACK,
        port=free_port(),
        redis_port=free_port(),
        trust=rule.trust,
        overrides=environment_of(rule),
    )
    with running(place, options) as stack:
        for scenario in scenarios:
            compile_spaces(stack, scenario)
            crowd = Crowd(
                url=stack.url,
                scenario=scenario,
                greet=_attesting(stack),
                patient=_is_patient(scenario),
            )
            yield outcome_of(stack, rule, crowd)


def _is_patient(scenario: Scenario) -> bool:
    """Returns whether members wait for others: they would in vain where all is held or nobody is
    believed."""
    tactics = scenario.tactics
    return tactics.votes or not tactics.raids & {Raid.HOARD, Raid.CLAIM}


def environment_of(rule: Rule) -> Environment:
    """The settings of a zoo with this rule. What is bounded by day is not bounded here: who waits
    long enough is through.
    """
    return (
        ("KERNELZOO_QUORUM", str(rule.quorum)),
        ("KERNELZOO_MAX_MALICIOUS_SHARE", str(rule.malicious_share)),
        ("KERNELZOO_MINIMUM_NETWORKS", str(rule.minimum)),
        ("KERNELZOO_DEFENCES", json.dumps(sorted(rule.defences))),
        # A member opens one session, and waits its turn for longer than a page stays open.
        ("KERNELZOO_SESSION_S", "86400"),
        ("KERNELZOO_LENT_PER_NETWORK_PER_DAY", UNBOUNDED),
        ("KERNELZOO_LENT_PER_CLASS_PER_DAY", UNBOUNDED),
        ("KERNELZOO_LENT_PER_KEY_PER_DAY", UNBOUNDED),
        ("KERNELZOO_IDENTITIES_PER_NETWORK_PER_DAY", UNBOUNDED),
        ("KERNELZOO_CLASSES_PER_IDENTITY_PER_DAY", UNBOUNDED),
        ("KERNELZOO_CLASSES_PER_NETWORK_PER_DAY", UNBOUNDED),
        ("KERNELZOO_FAILURES_PER_NETWORK_PER_DAY", UNBOUNDED),
        ("KERNELZOO_SESSIONS_RATE", ""),
        ("KERNELZOO_AGENT_RATE", ""),
        ("KERNELZOO_REPORTS_RATE", ""),
    )


def _attesting(stack: Stack) -> Callable[[str], None]:
    """Everybody passes the verifier, attackers as well: it tells browsers, not honest people."""

    def attest(identity: str) -> None:
        with connected(stack.postgres.url) as db:
            execute(db, agents.attest(UUID(identity)))

    return attest


def compile_spaces(stack: Stack, scenario: Scenario) -> None:
    """Every member finds the whole space compiled."""
    until_s = time.monotonic() + COMPILE_S
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for workload in scenario.workloads:
            job = gateway.register(Workload.parse(workload), TargetKind.WASM)
            while not job.candidates or job.compiled + job.failed < job.candidates:
                _wait(until_s, f"{workload} is not compiled; read {stack.log('compile')}")
                job = gateway.job(job.job)


def outcome_of(stack: Stack, rule: Rule, crowd: Crowd) -> ScenarioOutcome:
    """Lets the crowd vote, and waits until all of it is counted."""
    started_s = time.monotonic()
    asyncio.run(raid(crowd, BEFORE))
    if Raid.HOARD in crowd.scenario.tactics.raids:
        time.sleep(SILENT_S)
    for phase in phases_of(crowd.scenario):
        # Attackers report faster than reports are verified, and who waits for a verdict loses its
        # patience behind too many of them.
        for members in _batches(_present(crowd, phase)):
            asyncio.run(crowd.vote(members))
            settle(stack)
    asyncio.run(raid(crowd, AFTER))
    settle(stack)
    visited = {class_of(crowd.scenario.device(n)) for n in range(crowd.scenario.classes)}
    keys = [key for key in crowd.keys.values() if key.device_class in visited]
    with (
        connected(stack.postgres.url) as db,
        GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway,
    ):
        fates = tuple(_fates(db, gateway, crowd.scenario, keys))
        failed = {str(row.id) for row in fetch_all(db, trust.ever_failed())}
        controls = fetch_one(
            db,
            leases.controlled(
                [DeviceClass.parse(text) for text in sorted({place[0] for place in crowd.keys})]
            ),
        )
        lent = fmean(_lent(gateway, key) for key in keys)
        found = _unseen(db, gateway, crowd) if _invents(crowd.scenario) else None
    return ScenarioOutcome(
        scenario=crowd.scenario,
        defences=rule.defences,
        verdict=verdict(fates),
        unseen=found,
        measurements=crowd.measurements,
        turned_away=crowd.turned_away,
        caught=_share(crowd.malicious, failed),
        wronged=_share(crowd.honest, failed),
        controls=controls.share if controls else 0.0,
        lent=lent,
        elapsed_s=time.monotonic() - started_s,
    )


def _present(crowd: Crowd, phase: Sequence[Member]) -> Sequence[Member]:
    """Picks who is present: where all is held the first honest visitor of each class shows what is
    left for it."""
    if Raid.HOARD not in crowd.scenario.tactics.raids:
        return phase
    return list({member.device: member for member in phase}.values())


def _batches(members: Sequence[Member]) -> Iterator[Sequence[Member]]:
    return (members[first : first + AT_A_TIME] for first in range(0, len(members), AT_A_TIME))


def _invents(scenario: Scenario) -> bool:
    return Raid.INVENT in scenario.tactics.raids


def settle(stack: Stack) -> None:
    """Waits until all that was told is verified and counted. Raises StackError when there is no
    progress for `SETTLE_S`."""
    fewest, until_s = sys.maxsize, 0.0
    with connected(stack.postgres.url) as db:
        while (left := fetch_one(db, ballots.unsettled())) and left.rows:
            if left.rows < fewest:
                fewest, until_s = left.rows, time.monotonic() + SETTLE_S
            _wait(until_s, f"{left.rows} rows are not settled; read {stack.log('aggregate')}")


def _share(members: set[str], failed: set[str]) -> float:
    return len(members & failed) / len(members) if members else 0.0


def _lent(gateway: GatewayClient, key: SimulatedKey) -> float:
    job = gateway.register(Workload.parse(key.workload), TargetKind.WASM)
    return len(key.honest_ids) / job.candidates


def _fates(
    db: Database, gateway: GatewayClient, scenario: Scenario, keys: Sequence[SimulatedKey]
) -> Iterator[Fate]:
    for device_class in {key.device_class for key in keys}:
        rows = fetch_all(db, zoo.versions(DeviceClass.parse(device_class)))
        versions = {k: tuple(v) for k, v in groupby(rows, lambda row: row.workload_key)}
        for key in keys:
            if key.device_class == device_class:
                page = _page(gateway, key.workload, key.device)
                yield fate(
                    _world(scenario, key.workload), key, versions.get(key.workload, ()), page
                )


def _page(gateway: GatewayClient, workload: str, device: str) -> ServedPage | None:
    """Asks for what a page on this device is given."""
    manifest = gateway.manifest(workload, class_of(device), hardware=hardware_of(device))
    served = manifest.entries[0].wasm if manifest.entries else None
    if served is None:
        return None
    return ServedPage(served_id=served.kernel.candidate, default_id=served.fallback.candidate)


def _unseen(db: Database, gateway: GatewayClient, crowd: Crowd) -> Unseen | None:
    """Over the relative of each family that nobody is."""
    until_s = time.monotonic() + SETTLE_S
    while fetch_all(db, chain.unaggregated(1)):
        _wait(until_s, "classes are not aggregated")
    found = []
    for workload in crowd.scenario.workloads:
        keys = [key for key in crowd.keys.values() if key.workload == workload]
        space = {name for key in keys for name in key.candidate_ids}
        for family in crowd.scenario.families:
            device = f"{family}/{UNSEEN}"
            if page := _page(gateway, workload, device):
                found.append(unseen(_world(crowd.scenario, workload), device, space, page))
    return over(found)


def _world(scenario: Scenario, workload: str) -> World:
    return World(seed=scenario.seed, flops=Workload.parse(workload).flops)


def _wait(until_s: float, why: str) -> None:
    if time.monotonic() > until_s:
        raise StackError(f"the simulation does not go on: {why}")
    time.sleep(POLL_S)

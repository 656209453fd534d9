"""One simulation: a stack of its own, its scenarios one after the other, their verdicts."""

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from kernelzoo.cli.gateway_client import GatewayClient
from kernelzoo.cli.simulate.crowd import Crowd
from kernelzoo.cli.simulate.judge import Fate, Verdict, fate, verdict
from kernelzoo.cli.simulate.scenario import Scenario
from kernelzoo.cli.simulate.world import World
from kernelzoo.cli.stack.place import Place
from kernelzoo.cli.stack.plan import StackOptions
from kernelzoo.cli.stack.ports import LOOPBACK, free_port
from kernelzoo.cli.stack.process import Environment
from kernelzoo.cli.stack.supervisor import Stack, running
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.trust import Defence
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import StackError
from kernelzoo.store import ballots, leases, trust, zoo
from kernelzoo.store.blocking import Database, connected, fetch_all, fetch_one
from services.aggregator.publishing import Rule

POLL_S = 0.2
COMPILE_S = 120.0
SETTLE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a scenario came to under the given defences. `caught`: share of the liars that ever
    failed a check, `wronged`: of the honest. `controls`: share of the leases that carried one.
    """

    scenario: Scenario
    defences: frozenset[Defence]
    verdict: Verdict
    measurements: int
    turned_away: int
    caught: float
    wronged: float
    controls: float
    elapsed_s: float

    @property
    def per_confirmed(self) -> float | None:
        """Measurements for each confirmed key; None where none is."""
        confirmed = self.verdict.confirmed * self.verdict.keys
        return self.measurements / confirmed if confirmed else None


def simulated(place: Place, rule: Rule, scenarios: Iterable[Scenario]) -> Iterator[Outcome]:
    """Raises StackError where a service fails or does not come to an end."""
    options = StackOptions(
        host=LOOPBACK, port=free_port(), redis_port=free_port(), overrides=environment_of(rule)
    )
    with running(place, options) as stack:
        for scenario in scenarios:
            compile_spaces(stack, scenario)
            crowd = Crowd(url=stack.url, scenario=scenario)
            yield outcome_of(stack, rule, crowd)


def environment_of(rule: Rule) -> Environment:
    """The settings of a zoo with this rule."""
    return (
        ("KERNELZOO_QUORUM", str(rule.quorum)),
        ("KERNELZOO_LIARS", str(rule.liars)),
        ("KERNELZOO_DEFENCES", json.dumps(sorted(rule.defences))),
    )


def compile_spaces(stack: Stack, scenario: Scenario) -> None:
    """Every member finds the whole space compiled."""
    until_s = time.monotonic() + COMPILE_S
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        for workload in scenario.workloads:
            job = gateway.register(Workload.parse(workload), TargetKind.WASM)
            while not job.candidates or job.compiled + job.failed < job.candidates:
                _wait(until_s, f"{workload} is not compiled; read {stack.log('compile')}")
                job = gateway.job(job.job)


def outcome_of(stack: Stack, rule: Rule, crowd: Crowd) -> Outcome:
    """Lets the crowd vote, and waits until all of it is counted."""
    started_s = time.monotonic()
    asyncio.run(crowd.vote())
    settle(stack)
    with connected(stack.postgres.url) as db:
        fates = tuple(_fates(db, rule, crowd))
        failed = {str(row.id) for row in fetch_all(db, trust.ever_failed())}
        controls = fetch_one(db, leases.controlled(sorted({place[0] for place in crowd.keys})))
    return Outcome(
        scenario=crowd.scenario,
        defences=rule.defences,
        verdict=verdict(fates),
        measurements=crowd.measurements,
        turned_away=crowd.turned_away,
        caught=_share(crowd.liars, failed),
        wronged=_share(crowd.honest, failed),
        controls=controls.share if controls else 0.0,
        elapsed_s=time.monotonic() - started_s,
    )


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


def _fates(db: Database, rule: Rule, crowd: Crowd) -> Iterator[Fate]:
    for device_class in {key.device_class for key in crowd.keys.values()}:
        rows = fetch_all(db, zoo.versions(device_class))
        versions = {k: tuple(v) for k, v in groupby(rows, lambda row: row.workload_key)}
        for key in crowd.keys.values():
            if key.device_class == device_class:
                world = World(seed=crowd.scenario.seed, flops=Workload.parse(key.workload).flops)
                yield fate(world, key, versions.get(key.workload, ()), rule.quorum)


def _wait(until_s: float, why: str) -> None:
    if time.monotonic() > until_s:
        raise StackError(f"the simulation does not go on: {why}")
    time.sleep(POLL_S)

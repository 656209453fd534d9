"""A zoo in which every device of a world has voted, in a real database."""

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.crowd.chain_regret import Truth, times
from fixtures.postgres import Postgres
from fixtures.rows import compile_row, lend_all, plan
from kernelzoo.domain.device import DeviceClass, Hardware
from kernelzoo.domain.measurement import Measurement, Outcome
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import EntryState, Evidence
from kernelzoo.store import chain, measurements, orders, tuning, zoo
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one
from services.aggregator.challenge import MARGIN
from services.aggregator.publishing import Rule
from services.tuner.cost_model.dataset import Observation, ProbedDevice, Race
from services.tuner.cost_model.model import CostModel
from workers.families import aggregate_by_family

QUORUM = 1
"""A measured time stands for the median of a crowd; no attackers are simulated here."""
RULE = Rule(quorum=QUORUM, malicious_share=0)
UNIT_NS = 1e6

Architectures = dict[str, str]
"""Processor architectures by the hardware name of a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutWorld:
    """`architectures`: what the browsers of these devices would tell. `halves`: races of the same
    devices by one half of their passes and by the other, where they measured several times.
    `held_out`: the devices of which each is held out in turn.
    """

    name: str
    races: tuple[Race, ...]
    architectures: Architectures
    held_out: tuple[str, ...]
    halves: tuple[tuple[Race, ...], ...] = ()

    def truth(self, race: Race) -> Truth:
        """Returns what is known of this race."""
        halves = ([each for each in half if _same(each, race)] for half in self.halves)
        return Truth(
            all=times(race), halves=tuple(times(each) for found in halves for each in found)
        )

    def hardware(self, device: ProbedDevice) -> Hardware:
        return Hardware(
            cpu_architecture=self.architectures[device.hardware],
            logical_cores=4,
            gpu_vendor="",
            gpu_architecture="",
        )


def _same(one: Race, other: Race) -> bool:
    return (one.device, one.workload_key) == (other.device, other.workload_key)


@contextmanager
def database() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder:
        server = Postgres.start(Path(folder))
        try:
            url = server.url(server.create_database())
            with closing(psycopg.connect(url, autocommit=True)) as db:
                yield db
        finally:
            server.stop()


def fill(db: Database, world: HeldOutWorld) -> None:
    with db.transaction():
        jobs = {space[0].candidate.workload.key: _open(db, space) for space in _spaces(world)}
        for race in world.races:
            _vote(db, world, race, jobs[race.workload_key])
        _pool(db)


def _spaces(world: HeldOutWorld) -> Iterable[tuple[Observation, ...]]:
    """For each workload the largest space that any device has measured, in the order of promise."""
    widest: dict[str, tuple[Observation, ...]] = defaultdict(tuple)
    for race in world.races:
        widest[race.workload_key] = max(widest[race.workload_key], race.observations, key=len)
    return widest.values()


def _open(db: Database, space: tuple[Observation, ...]) -> int:
    workload = space[0].candidate.workload
    execute(db, tuning.register_workload(workload))
    opened = fetch_one(db, tuning.open_job(workload.key, TargetKind.WASM))
    assert opened is not None
    plan(db, opened.id, [each.candidate for each in space])
    for each in space:
        compile_row(db, each.candidate)
    return opened.id


def _vote(db: Database, world: HeldOutWorld, race: Race, job_id: int) -> None:
    """Stores what an honest agent reports, and the entry of its class."""
    told = times(race)
    architecture = world.architectures[race.device.hardware]
    identity_id, lease_id = lend_all(db, race.device, architecture, job_id, list(told))
    device_class = str(race.device.device_class)
    found = [_measurement(*each) for each in told.items()]
    fetch_one(db, measurements.accept(lease_id, identity_id, "", found))
    db.execute("UPDATE measurement SET verdict = 'verified' WHERE lease_id = %s", (lease_id,))
    default, *_ = told
    best = min(told, key=told.__getitem__)
    winner = best if told[best] < told[default] * (1 - MARGIN) else default
    evidence = Evidence(
        ballots=QUORUM, weight=1, total_weight=1, relative_time=told[winner] / told[default]
    )
    confirmed = EntryState.CONFIRMED
    execute(
        db,
        zoo.publish(
            race.workload_key, DeviceClass.parse(device_class), winner, confirmed, evidence
        ),
    )


def _measurement(candidate_id: str, relative_time: float) -> Measurement:
    return Measurement(
        candidate_id=candidate_id,
        outcome=Outcome.OK,
        samples_ns=(relative_time * UNIT_NS,),
        reference_ns=(UNIT_NS,),
        calls_per_sample=1,
        sampled_entries=(),
        detail="",
    )


@contextmanager
def without(db: Database, keys: Iterable[tuple[str, str]]) -> Iterator[None]:
    """The zoo as it would be had nobody voted on these workloads and device classes."""
    with db.transaction(force_rollback=True):
        for workload_key, device_class in keys:
            execute(db, zoo.retire(workload_key, DeviceClass.parse(device_class)))
        _pool(db)
        yield


def order(db: Database, races: Iterable[Race], model: CostModel) -> None:
    """Stores what the model expects of these devices, as `order_spaces` would."""
    for race in races:
        (job,) = fetch_all(db, tuning.progress(workload_key=race.workload_key))
        space = model.order([each.candidate for each in race.observations], race.device)
        ids = [candidate.candidate_id for candidate in space]
        execute(db, orders.put_order(job.id, race.device.device_class, 1, ids))


def _pool(db: Database) -> None:
    while fetch_all(db, chain.unaggregated(1)):
        aggregate_by_family(db, RULE)


def workloads(world: HeldOutWorld) -> list[str]:
    keys = dict.fromkeys(race.workload_key for race in world.races)
    return [Workload.parse(key).key for key in keys]

"""Database flows of the `aggregate` queue: check outputs, count ballots, publish."""

import structlog

from kernelzoo import jobs
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.seeded import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import EntryState
from kernelzoo.settings import WorkerSettings
from kernelzoo.store import ballots, leases, measurements, wake, zoo
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one
from services.aggregator.publishing import Champion, Decision, Keep, Nothing, Publish, Rule, decide
from services.aggregator.verification import expected_entries, judge

log = structlog.get_logger(__name__)


def verify_lease(db: Database, lease_id: int) -> tuple[jobs.Job, ...]:
    """Judges a lease's pending measurements. Returns the tally of its key, if any was judged."""
    with db.transaction():
        lease = fetch_one(db, leases.lease(lease_id))
        pending = fetch_all(db, measurements.pending(lease_id))
        if lease is None or not pending:
            return ()
        workload = Workload.parse(lease.workload_key)
        kind = DeviceClass.parse(lease.device_class).target.kind
        tolerance = comparison_tolerance(workload, kind)
        expected = expected_entries(workload, lease.seed)
        for row in pending:
            found = judge(Outcome(row.outcome), tuple(row.sampled_entries), expected, tolerance)
            execute(db, measurements.judge(lease_id, row.candidate_id, found.verdict, found.detail))
    return (jobs.tally(lease.workload_key, lease.device_class),)


def tally(db: Database, workload_key: str, device_class: str, rule: Rule) -> None:
    """Counts a key's ballots and brings its zoo entry up to date. Takes turns with its like."""
    with db.transaction():
        execute(db, ballots.lock_key(workload_key, device_class))
        execute(db, ballots.tallied(workload_key, device_class))
        filed = fetch_all(db, ballots.countable(workload_key, device_class))
        live = fetch_one(db, zoo.live_entry(workload_key, device_class))
        default = fetch_one(db, zoo.default_of(workload_key, DeviceClass.parse(device_class)))
        if default is None:
            return
        decision = decide(
            tuple(row.to_cast() for row in filed),
            _champion(live),
            default_id=default.candidate_id,
            rule=rule,
        )
        _carry_out(db, workload_key, device_class, decision)


def rule_of(settings: WorkerSettings) -> Rule:
    return Rule(quorum=settings.quorum, liars=settings.liars, defences=settings.defences)


def _champion(live: zoo.LiveEntry | None) -> Champion | None:
    if live is None:
        return None
    return Champion(candidate_id=live.candidate_id, state=EntryState(live.state))


def _carry_out(db: Database, workload_key: str, device_class: str, decision: Decision) -> None:
    match decision:
        case Nothing():
            return
        case Keep(evidence=evidence):
            execute(db, zoo.update_evidence(workload_key, device_class, evidence))
        case Publish(candidate_id=candidate_id, state=state, evidence=evidence, reason=reason):
            execute(db, zoo.retire(workload_key, device_class))
            execute(
                db, zoo.publish(workload_key, device_class, candidate_id, state, evidence, reason)
            )
            log.info(
                "published",
                workload=workload_key,
                device_class=device_class,
                candidate=candidate_id,
                state=state,
                ballots=evidence.ballots,
                reason=reason,
            )
    execute(db, wake.zoo_changed())

"""Database flows of the `aggregate` queue: check outputs, count ballots, publish."""

from collections.abc import Mapping

import structlog

from kernelzoo import jobs
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.measurement import Outcome, Verdict
from kernelzoo.domain.seeded import comparison_tolerance
from kernelzoo.domain.trust import ALL_DEFENCES, Defence
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import EntryState
from kernelzoo.metrics import PROMOTIONS, VERDICTS
from kernelzoo.settings import WorkerSettings
from kernelzoo.store import ballots, denials, leases, measurements, trust, wake, zoo
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one
from kernelzoo.store.measurements import PendingRow
from services.aggregator.denial import without
from services.aggregator.publishing import Champion, Decision, Keep, Nothing, Publish, Rule, decide
from services.aggregator.verification import Judgement, expected_entries, judge
from workers.denying import deny_failing, roll_back
from workers.suspecting import settle, times_fault, verdict_of

log = structlog.get_logger(__name__)


def verify_lease(
    db: Database, lease_id: int, defences: frozenset[Defence] = ALL_DEFENCES
) -> tuple[jobs.Job, ...]:
    """Judges a lease's pending measurements, and who made them. Returns the tally of its key, if
    any was judged, and those of other keys where its author is believed no more, or again.
    """
    with db.transaction():
        lease = fetch_one(db, leases.lease(lease_id))
        holder = fetch_one(db, trust.holder(lease_id))
        pending = fetch_all(db, measurements.pending(lease_id))
        if lease is None or holder is None or not pending:
            return ()
        found = _outputs(lease, pending)
        fault = _wrong(found) or times_fault(db, lease, holder, pending, defences)
        settlement, others = settle(db, holder, fault, defences)
        for candidate_id, each in found.items():
            verdict = verdict_of(each.verdict, settlement)
            detail = fault if verdict is Verdict.QUARANTINED else each.detail
            execute(db, measurements.judge(lease_id, candidate_id, verdict, detail))
            VERDICTS.labels(verdict).inc()
    if fault:
        log.info("failed a check", lease=lease_id, identity=str(lease.identity_id), why=fault)
    own = jobs.tally(lease.workload_key, lease.device_class)
    return (own, *(job for job in others if job != own))


def _outputs(lease: leases.LeaseRow, pending: list[PendingRow]) -> dict[str, Judgement]:
    """By candidate."""
    workload = Workload.parse(lease.workload_key)
    kind = DeviceClass.parse(lease.device_class).target.kind
    tolerance = comparison_tolerance(workload, kind)
    expected = expected_entries(workload, lease.seed)
    return {
        row.candidate_id: judge(
            Outcome(row.outcome), tuple(row.sampled_entries), expected, tolerance
        )
        for row in pending
    }


def _wrong(found: Mapping[str, Judgement]) -> str:
    """The first complaint about an output; '' where all are right."""
    return next((each.detail for each in found.values() if each.detail), "")


def tally(db: Database, workload_key: str, device_class: str, rule: Rule) -> None:
    """Counts a key's ballots and brings its zoo entry up to date. Takes turns with its like."""
    with db.transaction():
        execute(db, ballots.lock_key(workload_key, device_class))
        execute(db, ballots.tallied(workload_key, device_class))
        if Defence.DENIALS in rule.defences:
            changed = deny_failing(db, workload_key, device_class, rule.liars)
            if roll_back(db, workload_key, device_class) or changed:
                execute(db, wake.zoo_changed())
        filed = fetch_all(db, ballots.countable(workload_key, device_class))
        denied = fetch_all(db, denials.denied_of(workload_key, device_class))
        live = fetch_one(db, zoo.live_entry(workload_key, device_class))
        default = fetch_one(db, zoo.default_of(workload_key, DeviceClass.parse(device_class)))
        if default is None:
            return
        decision = decide(
            without([row.to_cast() for row in filed], frozenset(d.candidate_id for d in denied)),
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
            PROMOTIONS.labels(state).inc()
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

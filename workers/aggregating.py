"""Database flows of the `aggregate` queue: check outputs, count ballots, publish."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from uuid import UUID

import structlog
from psycopg import OperationalError

from kernelzoo import jobs
from kernelzoo.domain.ballot import CastBallot
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.lease import cover
from kernelzoo.domain.measurement import Outcome, Preparation, Verdict
from kernelzoo.domain.trust import ALL_DEFENCES, Defence
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import EntryState
from kernelzoo.metrics import PROMOTIONS, VERDICTS
from kernelzoo.settings import WorkerSettings
from kernelzoo.store import (
    agents,
    ballots,
    coverage,
    denials,
    leases,
    measurements,
    models,
    notifications,
    programs,
    queue,
    tallies,
    trust,
    zoo,
)
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one
from kernelzoo.store.measurements import Judged, PendingRow
from services.aggregator.by_runs import Cost, offers
from services.aggregator.denial import without
from services.aggregator.publishing import Champion, Keep, Nothing, Publish, Rule, decide, heard
from services.aggregator.reputation import LeaseFinding, Settlement
from services.aggregator.verification import TAKEN_AS_TOLD, Judgement, expected, judge
from workers.denying import deny_failing, roll_back
from workers.suspecting import LeaseFault, settle, times_fault, verdict_of

log = structlog.get_logger(__name__)

RETRIES = 3
"""Judging a report is tried again so often, after 5, 20 and 80 seconds with the default
`stalled_s`."""


def verify_leases(
    db: Database, lease_ids: Sequence[int], defences: frozenset[Defence] = ALL_DEFENCES
) -> Iterator[jobs.Message]:
    """`verify_lease` of each. One that cannot be judged holds up no other: what went wrong is
    raised at the end.
    """
    errors: list[Exception] = []
    for lease_id in lease_ids:
        try:
            yield from _try_to_verify(db, lease_id, defences)
        except OperationalError:
            raise
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
    if errors:
        raise ExceptionGroup(f"{len(errors)} of {len(lease_ids)} leases not judged", errors)


def _try_to_verify(
    db: Database, lease_id: int, defences: frozenset[Defence]
) -> tuple[jobs.Message, ...]:
    """Gives a report up after `RETRIES`; until then its error is raised. A database that is away is
    no fault of the report.
    """
    attempt = fetch_one(db, measurements.begin(lease_id))
    retries = attempt.retries if attempt else 0
    if retries > RETRIES:
        _give_up(db, lease_id, "every worker that tried to judge this died")
        return ()
    try:
        return verify_lease(db, lease_id, defences)
    except OperationalError:
        raise
    except Exception as error:
        if retries < RETRIES:
            raise
        _give_up(db, lease_id, f"judging this failed: {type(error).__name__}: {error}")
        return ()


def _give_up(db: Database, lease_id: int, reason: str) -> None:
    given_up = fetch_all(db, measurements.give_up(lease_id, reason[:500]))
    VERDICTS.labels(Verdict.UNJUDGED).inc(len(given_up))
    log.error("given up", lease=lease_id, measurements=len(given_up), why=reason[:500])


def verify_lease(
    db: Database, lease_id: int, defences: frozenset[Defence] = ALL_DEFENCES
) -> tuple[jobs.Message, ...]:
    """Judges a lease's pending measurements, and who made them. Returns the tally of its key, if
    any was judged, and those of other keys where its author is believed no more, or again.
    """
    with db.transaction():
        execute(db, measurements.commit_unawaited())
        lease = fetch_one(db, leases.lease(lease_id))
        holder = fetch_one(db, trust.holder(lease_id))
        pending = fetch_all(db, measurements.pending(lease_id))
        if lease is None or holder is None or not pending:
            return ()
        workload = programs.workloads(db, (lease.workload_key,))[lease.workload_key]
        found = _outputs(workload, lease, pending)
        fault = _wrong(found) or times_fault(db, workload, lease, holder, pending, defences)
        settlement, others = settle(db, holder, fault, defences)
        judged = [_judged(name, each, settlement, fault) for name, each in found.items()]
        execute(db, measurements.judge(lease_id, judged))
        for verdict in (each.verdict for each in judged):
            VERDICTS.labels(verdict).inc()
        if not holder.operated:
            execute(db, notifications.lease_judged(lease_id))
        execute(db, agents.count_judged(lease.device_class, len(found)))
    if fault:
        log.info(
            "failed a check", lease=lease_id, identity=str(lease.identity_id), why=fault.detail
        )
    own = jobs.tally(lease.workload_key, lease.device_class)
    return (own, *(job for job in others if job != own))


def _judged(
    candidate_id: str, found: Judgement, settlement: Settlement, fault: LeaseFault | None
) -> Judged:
    verdict = verdict_of(found.verdict, settlement)
    detail = fault.detail if fault and verdict is Verdict.QUARANTINED else found.detail
    return Judged(candidate_id=candidate_id, verdict=verdict, detail=detail)


def _outputs(
    workload: Workload, lease: leases.LeaseRow, pending: list[PendingRow]
) -> dict[str, Judgement]:
    """By candidate. A failure claims no output, so that nothing is computed for it."""
    ran = [row for row in pending if row.outcome == Outcome.OK]
    found = {row.candidate_id: TAKEN_AS_TOLD for row in pending}
    if not ran:
        return found
    target = lease.device_class.target.kind
    right = expected(workload, target, lease.seed)
    judged = {row.candidate_id: judge(row.sampled_entries, right) for row in ran}
    return found | judged


def _wrong(found: Mapping[str, Judgement]) -> LeaseFault | None:
    """The first complaint about an output; None where all are right."""
    complaints = (each.detail for each in found.values() if each.detail)
    return next((LeaseFault(finding=LeaseFinding.FAILED, detail=each) for each in complaints), None)


def tally(db: Database, workload_key: str, device_class: DeviceClass, rule: Rule) -> None:
    """Counts a key's ballots and brings its zoo entry up to date. Takes turns with its like."""
    with _turn(db, workload_key, device_class):
        _count(db, workload_key, device_class, rule)
        # Alone, as tallies of other classes wait for the rows that it writes.
        execute(db, queue.note_times(workload_key, device_class.target.kind))


def _count(db: Database, workload_key: str, device_class: DeviceClass, rule: Rule) -> None:
    with db.transaction():
        execute(db, ballots.tallied(workload_key, device_class))
        if Defence.DENIALS in rule.defences:
            changed = deny_failing(db, workload_key, device_class, rule)
            if roll_back(db, workload_key, device_class) or changed:
                execute(db, notifications.zoo_changed())
        filed = fetch_all(db, ballots.countable(workload_key, device_class, rule.trust))
        denied = fetch_all(db, denials.denied_of(workload_key, device_class))
        live = fetch_one(db, zoo.live_entry(workload_key, device_class))
        default = fetch_one(db, zoo.default_of(workload_key, device_class))
        if default is None:
            return
        elsewhere = fetch_all(db, zoo.confirmed_elsewhere(workload_key, device_class))
        enough = max(rule.quorum, cover(rule.malicious_share))
        reported = fetch_all(db, measurements.reported(workload_key, device_class, enough=enough))
        cast = without([row.to_cast() for row in filed], frozenset(d.candidate_id for d in denied))
        decision = decide(
            cast,
            _champion(live),
            default_id=default.candidate_id,
            rule=rule,
            elsewhere=frozenset(row.candidate_id for row in elsewhere),
            reported={row.candidate_id: row.identities for row in reported},
        )
        if isinstance(decision, Nothing):
            execute(db, coverage.note_times(workload_key, device_class))
        else:
            _carry_out(db, workload_key, device_class, decision)
            _offer(db, workload_key, device_class, cast, rule)
            execute(db, notifications.entry_changed(workload_key, device_class))


@contextmanager
def _turn(db: Database, workload_key: str, device_class: DeviceClass) -> Iterator[None]:
    """One tally of the key is at work, and of those that wait for it none takes another's row."""
    execute(db, tallies.take_turn(workload_key, device_class))
    try:
        execute(db, tallies.begun(workload_key, device_class))
        yield
    finally:
        if not db.broken:
            execute(db, tallies.leave_turn(workload_key, device_class))


def newly_asked(db: Database, wanted: Iterable[jobs.Message]) -> Iterator[jobs.Message]:
    """The tallies of which none waits yet. All that are left where the database is away: a message
    too many costs less than one that is missing.
    """
    for job in wanted:
        workload_key, device_class = map(str, job.arguments)
        try:
            asked = fetch_all(db, tallies.ask(workload_key, DeviceClass.stored(device_class)))
        except OperationalError:
            yield job
        else:
            yield from (job for _ in asked)


def _offer(
    db: Database,
    workload_key: str,
    device_class: DeviceClass,
    cast: tuple[CastBallot, ...],
    rule: Rule,
) -> None:
    """Brings what is offered beside a confirmed entry up to date."""
    live = fetch_one(db, zoo.live_entry(workload_key, device_class))
    if live is None or live.state != EntryState.CONFIRMED:
        return
    _, today = heard(cast, rule)
    identities = [each.ballot.identity for each in today.ballots]
    told: dict[UUID, dict[str, Cost]] = defaultdict(dict)
    for row in fetch_all(db, measurements.costs(workload_key, device_class, identities)):
        told[row.identity_id][row.candidate_id] = _cost(row)
    believed = replace(rule, malicious_share=today.malicious_share)
    offered = [
        zoo.OfferedCost(
            candidate_id=each.candidate_id,
            runs=each.runs,
            **asdict(each.cost.preparation),
            run_ns=each.cost.run_ns,
            voters=each.voters,
        )
        for each in offers(tuple(told.values()), live.candidate_id, believed)
    ]
    execute(db, zoo.offer(workload_key, device_class, live.version, offered))


def _cost(row: measurements.CostRow) -> Cost:
    preparation = Preparation(
        compile_ns=row.compile_ns,
        optimise_ns=row.optimise_ns,
        pack_ns=row.pack_ns,
        first_run_ns=row.first_run_ns,
    )
    return Cost(preparation=preparation, run_ns=row.run_ns)


def rule_of(settings: WorkerSettings) -> Rule:
    return Rule(
        quorum=settings.quorum,
        malicious_share=settings.max_malicious_share,
        minimum=settings.minimum_networks,
        trust=settings.trust,
        defences=settings.defences,
    )


def _champion(live: zoo.LiveEntry | None) -> Champion | None:
    if live is None:
        return None
    return Champion(candidate_id=live.candidate_id, state=EntryState(live.state))


def _carry_out(
    db: Database, workload_key: str, device_class: DeviceClass, decision: Keep | Publish
) -> None:
    match decision:
        case Keep(evidence=evidence):
            execute(db, zoo.update_evidence(workload_key, device_class, evidence))
        case Publish(candidate_id=candidate_id, state=state, evidence=evidence, reason=reason):
            execute(db, zoo.retire(workload_key, device_class))
            execute(
                db, zoo.publish(workload_key, device_class, candidate_id, state, evidence, reason)
            )
            execute(db, models.prioritise(workload_key))
            PROMOTIONS.labels(state).inc()
            log.info(
                "published",
                workload=workload_key,
                device_class=str(device_class),
                candidate=candidate_id,
                state=state,
                ballots=evidence.ballots,
                reason=reason,
            )

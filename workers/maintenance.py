"""The periodic upkeep of rows: work whose message was lost is requeued, what is old is removed."""

import structlog

from kernelzoo import jobs
from kernelzoo.metrics import ROWS_REMOVED, Removed
from kernelzoo.store import (
    ballots,
    candidates,
    denials,
    lending_quotas,
    measurements,
    models,
    programs,
    retention,
    tallies,
    tuning,
)
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one

MAX_CANDIDATES = 1024


def stalled(db: Database, stalled_s: float, batch: int) -> tuple[jobs.Message, ...]:
    """Jobs of rows that nobody touched for `stalled_s`; marks the rows as requeued."""
    with db.transaction():
        waiting = sorted(
            fetch_all(db, candidates.requeue_waiting(stalled_s, MAX_CANDIDATES)),
            key=lambda row: (row.job_id, row.ordinal),
        )
        return (
            *(jobs.plan_space(row.id) for row in fetch_all(db, tuning.requeue_jobs(stalled_s))),
            *jobs.compile_defaults(
                [row.candidate_id for row in fetch_all(db, candidates.requeue_defaults(stalled_s))]
            ),
            # Last: they may as well be waiting for their turn.
            *jobs.compile_batches([row.candidate_id for row in waiting], batch, share=0.0),
            # One by one: where a lease cannot be verified, others need not wait with it.
            *(
                jobs.verify_leases((row.lease_id,))
                for row in fetch_all(db, measurements.requeue_pending(stalled_s))
            ),
            *(
                jobs.tally(row.workload_key, row.device_class)
                for row in dict.fromkeys(
                    (
                        *fetch_all(db, tallies.requeue_waiting(stalled_s)),
                        *fetch_all(db, ballots.requeue_waiting(stalled_s)),
                        *fetch_all(db, denials.requeue_waiting(stalled_s)),
                    )
                )
            ),
        )


log = structlog.get_logger(__name__)

STANDING = 64
"""Ballots of a key, and verified measurements of a candidate on a class, that stay however old they
are: twice what a plan of a lease looks at (kernelzoo/store/prospects.py)."""

UNUSED_PROGRAM_DAYS = 7
"""After which a program that nothing was tuned for is removed."""

UNUSED_MODULE_DAYS = 30
"""After which a linked module that no gateway names is removed. Caches keep its name a day."""


AGAIN = 48
"""Batches of what was kept before that an hour's run looks at: of a million leases all in four
days, and of any number as many in a run."""


def remove_old(db: Database, again: int, *, days: int, quorum: int) -> int | None:
    """One batch of leases and one of sessions: of those that have grown old, else of those that
    were kept before, of which `again` batches were looked at in this run. The number for the next
    call; None once the run is at its end.
    """
    standing = max(STANDING, 4 * quorum)
    grown_old = (
        _remove_leases(db, days, standing, kept=False),
        _remove_sessions(db, kept=False),
    )
    if any(grown_old):
        return again
    if again < AGAIN:
        kept = (_remove_leases(db, days, standing, kept=True), _remove_sessions(db, kept=True))
        if any(kept):
            return again + 1
    _count(Removed.IDENTITY, execute(db, retention.remove_erased()))
    execute(db, lending_quotas.forget_earlier_days())
    execute(db, models.remove_unused_modules(UNUSED_MODULE_DAYS))
    with db.transaction():
        execute(db, tuning.lock_workloads(alone=True))
        _count(Removed.PROGRAM, execute(db, programs.remove_unused(UNUSED_PROGRAM_DAYS)))
    return None


def _remove_leases(db: Database, days: int, standing: int, *, kept: bool) -> bool:
    """Removes old leases of one turn, and returns whether there were any to look at."""
    with db.transaction():
        execute(db, retention.take_turns())
        batch = _begin(db, "lease", days, kept=kept)
        if batch is None:
            return False
        first, last = batch
        ballots = execute(db, retention.remove_ballots(first, last, days, standing))
        measurements = execute(db, retention.remove_measurements(first, last, days, standing))
        execute(db, retention.remove_items(first, last))
        leases = execute(db, retention.remove_leases(first, last))
    _count(Removed.BALLOT, ballots)
    _count(Removed.MEASUREMENT, measurements)
    _count(Removed.LEASE, leases)
    return True


def _remove_sessions(db: Database, *, kept: bool) -> bool:
    """Removes old sessions of one turn, and returns whether there were any to look at."""
    with db.transaction():
        execute(db, retention.take_turns())
        batch = _begin(db, "agent_session", retention.UNUSED_DAYS, kept=kept)
        if batch is None:
            return False
        removed = fetch_all(db, retention.remove_sessions(*batch))
        identity_ids = sorted({row.identity_id for row in removed})
        identities = execute(db, retention.remove_identities(identity_ids))
        execute(
            db, retention.remove_classes(sorted({row.device_class for row in removed}, key=str))
        )
        execute(db, retention.remove_devices(sorted({row.device_id for row in removed})))
    _count(Removed.SESSION, len(removed))
    _count(Removed.IDENTITY, identities)
    return True


def _begin(
    db: Database, table: retention.Table, days: int, *, kept: bool
) -> tuple[int, int] | None:
    """The next batch, of those kept before or of those `days` old, whose mark is set: it holds if
    the transaction of the batch does.
    """
    batch = fetch_one(db, retention.kept(table) if kept else retention.grown_old(table, days))
    assert batch is not None, "each table has its mark"
    if kept:
        execute(db, retention.looked_again(table, batch.last or 0))
    elif batch.last is not None:
        execute(db, retention.reached(table, batch.last))
    return None if batch.last is None else (batch.first, batch.last)


def _count(table: Removed, rows: int) -> None:
    if rows:
        ROWS_REMOVED.labels(table).inc(rows)
        log.info("removed what is old", what=table, rows=rows)

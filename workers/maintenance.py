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


def remove_old(
    db: Database, after_lease: int, after_session: int, *, days: int, quorum: int
) -> tuple[int, int] | None:
    """One batch of each, beyond what earlier ones have looked at. Where the next ones begin; None
    once nothing is left that is old enough.
    """
    leases = _remove_leases(db, after_lease, days, max(STANDING, 4 * quorum))
    sessions = _remove_sessions(db, after_session)
    if leases is None and sessions is None:
        _count(Removed.IDENTITY, execute(db, retention.remove_erased()))
        execute(db, lending_quotas.forget_earlier_days())
        execute(db, models.remove_unused_modules(UNUSED_MODULE_DAYS))
        with db.transaction():
            execute(db, tuning.lock_workloads(alone=True))
            _count(Removed.PROGRAM, execute(db, programs.remove_unused(UNUSED_PROGRAM_DAYS)))
        return None
    return leases or after_lease, sessions or after_session


def _remove_leases(db: Database, after: int, days: int, standing: int) -> int | None:
    with db.transaction():
        execute(db, retention.take_turns())
        batch = fetch_one(db, retention.leases_after(after, days))
        if batch is None or (last := batch.last) is None:
            return None
        ballots = execute(db, retention.remove_ballots(after, last, days, standing))
        measurements = execute(db, retention.remove_measurements(after, last, days, standing))
        execute(db, retention.remove_items(after, last))
        leases = execute(db, retention.remove_leases(after, last))
    _count(Removed.BALLOT, ballots)
    _count(Removed.MEASUREMENT, measurements)
    _count(Removed.LEASE, leases)
    return last


def _remove_sessions(db: Database, after: int) -> int | None:
    with db.transaction():
        execute(db, retention.take_turns())
        batch = fetch_one(db, retention.sessions_after(after))
        if batch is None or (last := batch.last) is None:
            return None
        removed = fetch_all(db, retention.remove_sessions(after, last))
        identity_ids = sorted({row.identity_id for row in removed})
        identities = execute(db, retention.remove_identities(identity_ids))
        execute(
            db, retention.remove_classes(sorted({row.device_class for row in removed}, key=str))
        )
        execute(db, retention.remove_devices(sorted({row.device_id for row in removed})))
    _count(Removed.SESSION, len(removed))
    _count(Removed.IDENTITY, identities)
    return last


def _count(table: Removed, rows: int) -> None:
    if rows:
        ROWS_REMOVED.labels(table).inc(rows)
        log.info("removed what is old", what=table, rows=rows)

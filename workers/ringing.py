"""Finds rows whose message was lost, whatever lost it, and names the jobs to send again."""

from kernelzoo import jobs
from kernelzoo.store import ballots, candidates, denials, measurements, tuning
from kernelzoo.store.blocking import Database, fetch_all

MAX_CANDIDATES = 1024


def stalled(db: Database, stalled_s: float, batch: int) -> tuple[jobs.Job, ...]:
    """Jobs of rows that nobody touched for `stalled_s`; marks the rows as rung."""
    with db.transaction():
        waiting = sorted(
            fetch_all(db, candidates.ring_waiting(stalled_s, MAX_CANDIDATES)),
            key=lambda row: (row.job_id, row.ordinal),
        )
        return (
            *(jobs.plan_space(row.id) for row in fetch_all(db, tuning.ring_jobs(stalled_s))),
            *jobs.compile_batches([row.candidate_id for row in waiting], batch),
            # One by one: where a lease cannot be verified, others need not wait with it.
            *(
                jobs.verify_leases((row.lease_id,))
                for row in fetch_all(db, measurements.ring_pending(stalled_s))
            ),
            *(
                jobs.tally(row.workload_key, row.device_class)
                for row in dict.fromkeys(
                    (
                        *fetch_all(db, ballots.ring_waiting(stalled_s)),
                        *fetch_all(db, denials.ring_waiting(stalled_s)),
                    )
                )
            ),
        )

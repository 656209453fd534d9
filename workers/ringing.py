"""Finds rows whose message was lost, whatever lost it, and names the jobs to send again."""

from collections import defaultdict
from typing import Any

from psycopg import Connection

from kernelzoo import jobs
from kernelzoo.store import ballots, candidates, measurements, tuning
from kernelzoo.store.blocking import fetch_all

MAX_CANDIDATES = 1024


def stalled(db: Connection[Any], stalled_s: float, batch: int) -> tuple[jobs.Job, ...]:
    """Jobs of rows that nobody touched for `stalled_s`; marks the rows as rung."""
    with db.transaction():
        waiting = fetch_all(db, candidates.ring_waiting(stalled_s, MAX_CANDIDATES))
        return (
            *(jobs.plan_space(row.id) for row in fetch_all(db, tuning.ring_jobs(stalled_s))),
            *_batches(waiting, batch),
            *(
                jobs.verify_lease(row.lease_id)
                for row in fetch_all(db, measurements.ring_pending(stalled_s))
            ),
            *(
                jobs.tally(row.workload_key, row.device_class)
                for row in fetch_all(db, ballots.ring_waiting(stalled_s))
            ),
        )


def _batches(waiting: list[candidates.WaitingRow], batch: int) -> tuple[jobs.Job, ...]:
    ordinals_by_job: dict[int, list[int]] = defaultdict(list)
    for row in sorted(waiting, key=lambda row: (row.job_id, row.ordinal)):
        ordinals_by_job[row.job_id].append(row.ordinal)
    return tuple(
        job
        for job_id, ordinals in ordinals_by_job.items()
        for job in jobs.compile_batches(job_id, ordinals, batch)
    )

"""Finds what a page that tunes the model it runs may try: compiled candidates, and those yet to
come."""

from dataclasses import dataclass

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.gpu import first_space
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.chain import stranger_of
from kernelzoo.store.query import Query, Statement

TIMED_BY = 32
"""Measurements of a candidate that its expected time is the median of: the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRow:
    """A candidate that is compiled, since `compiled_s` of 1970, or waits to be. `relative_time`:
    what devices of any class measured, as of the last count of ballots; null where none has.
    `predicted`: the same as the cost model foretells it; null where it does not. All but the
    workload are null for one whose space nobody has enumerated yet.
    """

    workload_key: WorkloadKey
    candidate_id: str | None
    compiled_s: float | None
    relative_time: float | None
    predicted: float | None


def queued(workload_keys: list[str], device_class: DeviceClass, space: str) -> Query[QueuedRow]:
    """Lists the candidates of these workloads that a class can run, that are not denied to it and
    are not its default; in the order in which the class, or one like it that nobody knows, measures
    them; where nothing says in which, kernels of wasm that use most of the class's features first,
    as the others are slower. Of a workload that was not planned for its GPU's `space` it is given
    those for any GPU; of one that is not measured, nothing.
    """
    return Query(
        sql="""
            -- Each table is read once and then joined: there are thousands of candidates, and to
            -- look each up takes most of the time.
            WITH job AS MATERIALIZED (
                SELECT j.id, j.workload_key, j.state, j.cancelled_at, d.candidate_id AS default_id,
                       o.candidate_ids AS ordered, o.costs,
                       o.costs[array_position(o.candidate_ids, d.candidate_id)] AS default_cost
                FROM tuning_job j
                LEFT JOIN LATERAL default_kernel(j.workload_key, %(class)s) d ON true
                LEFT JOIN LATERAL (
                    SELECT o.candidate_ids, o.costs FROM evaluation_order o
                    WHERE o.job_id = j.id AND o.device_class IN (%(class)s, %(stranger)s)
                    ORDER BY o.device_class <> %(class)s LIMIT 1
                ) o ON true
                JOIN workload w ON w.key = j.workload_key
                WHERE j.workload_key = ANY (%(keys)s) AND j.target = %(target)s AND w.measured
                  AND (j.space = %(space)s OR j.space = %(any)s AND NOT EXISTS (
                    SELECT FROM tuning_job own
                    WHERE own.workload_key = j.workload_key AND own.target = j.target
                      AND own.space = %(space)s AND own.state = 'planned'))
            ), able AS MATERIALIZED (
                SELECT c.candidate_id, c.state, c.compiled_at,
                       CASE WHEN c.target = 'wasm' THEN cardinality(c.requires) END AS features
                FROM candidate c
                WHERE c.workload_key = ANY (%(keys)s) AND c.target = %(target)s
                  AND c.state <> 'failed'
                  -- So PostgreSQL expects half of them, where of <@ alone it expects 1 in 200.
                  AND (c.requires <@ %(features)s::text[]) IS DISTINCT FROM false
                  AND coalesce(c.artifact_sha256, '') NOT IN (
                    SELECT d.artifact_sha256 FROM denied d
                    WHERE d.device_class = %(class)s AND d.denied)
            ), point AS MATERIALIZED (
                SELECT job.id AS job_id, job.workload_key, job.cancelled_at, p.candidate_id,
                       p.ordinal
                FROM job
                -- An array, or the points of all jobs are read.
                CROSS JOIN LATERAL unnest(ARRAY(
                    SELECT p.candidate_id FROM space_point p WHERE p.job_id = job.id
                    ORDER BY p.ordinal)) WITH ORDINALITY AS p (candidate_id, ordinal)
                WHERE p.candidate_id IS DISTINCT FROM job.default_id
            ), foretold AS MATERIALIZED (
                SELECT job.id AS job_id, o.candidate_id, o.place,
                       2 ^ (o.cost - job.default_cost) AS predicted
                FROM job
                CROSS JOIN LATERAL ROWS FROM (unnest(job.ordered), unnest(job.costs))
                    WITH ORDINALITY AS o (candidate_id, cost, place)
            ), timed AS MATERIALIZED (
                SELECT t.candidate_id, t.relative_time FROM candidate_time t
                WHERE t.workload_key = ANY (%(keys)s)
            ), space AS (
                SELECT p.workload_key, p.candidate_id, c.compiled_at, o.place, o.predicted,
                       t.relative_time, c.features, p.ordinal
                FROM point p
                JOIN able c ON c.candidate_id = p.candidate_id
                LEFT JOIN foretold o ON o.job_id = p.job_id AND o.candidate_id = p.candidate_id
                LEFT JOIN timed t ON t.candidate_id = p.candidate_id
                WHERE c.state = 'compiled' OR p.cancelled_at IS NULL
                UNION ALL
                SELECT workload_key, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM job
                WHERE state = 'waiting' AND cancelled_at IS NULL
            )
            SELECT workload_key, candidate_id,
                   date_part('epoch', compiled_at) AS compiled_s, relative_time, predicted
            FROM space
            ORDER BY place NULLS LAST, relative_time NULLS LAST, features DESC, ordinal
        """,
        parameters={
            "keys": workload_keys,
            "class": device_class,
            "target": device_class.target.kind,
            "space": space,
            "any": first_space(device_class.target.kind),
            "stranger": stranger_of(device_class),
            "features": list(device_class.target.features),
        },
        row=QueuedRow,
    )


def note_times(workload_key: str, target: TargetKind) -> Statement:
    """Notes what devices of all classes measured lately of a workload's candidates. It reads
    `TIMED_BY` measurements of each, and writes those of which something has changed.
    """
    return Statement(
        sql="""
            -- In one order, so that no two classes of a workload wait for each other.
            INSERT INTO candidate_time AS t (workload_key, candidate_id, relative_time)
            SELECT c.workload_key, c.candidate_id, (
                SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY latest.relative_time)
                FROM (
                    SELECT m.relative_time FROM measurement m
                    WHERE m.candidate_id = c.candidate_id AND m.outcome = 'ok'
                      AND m.verdict = 'verified' AND m.relative_time IS NOT NULL
                    ORDER BY m.created_at DESC LIMIT %(timed_by)s
                ) latest)
            FROM candidate c WHERE c.workload_key = %(key)s AND c.target = %(target)s
            ORDER BY c.candidate_id
            ON CONFLICT (workload_key, candidate_id) DO UPDATE
            SET relative_time = EXCLUDED.relative_time
            WHERE t.relative_time IS DISTINCT FROM EXCLUDED.relative_time
        """,
        parameters={"key": workload_key, "target": target, "timed_by": TIMED_BY},
    )

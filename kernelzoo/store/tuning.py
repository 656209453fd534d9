"""Workloads and their tuning jobs."""

from dataclasses import dataclass
from typing import LiteralString

from kernelzoo.domain.gpu import first_space
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import CONSTANT_WEIGHTS, Workload, WorkloadKey
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    id: int
    workload_key: WorkloadKey
    target: str
    space: str
    state: str
    priority: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """Counts of candidates, of accepted measurements by any agent that there ever were, of agents
    that made them, of ballots, of live entries of the zoo and of those whose vote is final. `total`
    counts jobs without the limit.
    """

    id: int
    workload_key: WorkloadKey
    target: str
    space: str
    state: str
    detail: str
    flops: int
    candidates: int
    compiled: int
    failed: int
    compile_ns_median: float | None
    compile_ns_last: int | None
    measurements: int
    agents: int
    ballots: int
    skipped_by: list[str]
    best_ns: float | None
    entries: int
    final: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobId:
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRow:
    workload_key: WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A workload of a set. `serial`: how far what the zoo serves had come before any other row was
    read.
    """

    workload_key: WorkloadKey
    serial: int


def register_workload(workload: Workload) -> Statement:
    return Statement(
        sql="""
            INSERT INTO workload (key, flops, measured)
            VALUES (%(key)s, %(flops)s, %(measured)s)
            ON CONFLICT (key) DO NOTHING
        """,
        parameters={
            "key": workload.key,
            "flops": workload.flops,
            "measured": workload.is_measured,
        },
    )


ASKED_FOR = 1.0
"""Priority of a job that somebody asked for by itself."""


def open_job(workload_key: str, target: TargetKind, *, priority: float = ASKED_FOR) -> Query[JobId]:
    """One row if the job is new, none if it exists. The workload must be registered."""
    return Query(
        sql="""
            INSERT INTO tuning_job (workload_key, target, space, priority)
            VALUES (%(key)s, %(target)s, %(space)s, %(priority)s)
            ON CONFLICT (workload_key, target, space) DO NOTHING
            RETURNING id
        """,
        parameters={
            "key": workload_key,
            "target": target,
            "space": first_space(target),
            "priority": priority,
        },
        row=JobId,
    )


MODELS_OF_NETWORK = 3
"""GPU models of which strangers of a network may open the jobs in a day. A model is a claim, and
each costs a space for every workload; a household has one or two."""


def open_jobs_for(device_id: str, network: str, *, operated: bool) -> Query[JobId]:
    """Opens the jobs that the GPU of a device lacks: one in its model's space for each workload
    that is tuned for webgpu at all, unless its network claimed too many models within a day. Gives
    those that are new.
    """
    return Query(
        sql="""
            INSERT INTO tuning_job (workload_key, target, space)
            SELECT j.workload_key, j.target, d.gpu_model
            FROM tuning_job j JOIN device d ON d.device_id = %(device_id)s
            WHERE j.target = 'webgpu' AND j.space = %(first)s AND j.state = 'planned'
              AND j.cancelled_at IS NULL
              AND NOT EXISTS (
                SELECT FROM tuning_job o
                WHERE o.workload_key = j.workload_key AND o.target = j.target
                  AND o.space = d.gpu_model)
              AND (%(operated)s OR %(models)s >= (
                SELECT count(DISTINCT claimed.gpu_model)
                FROM agent_session s JOIN device claimed ON claimed.device_id = s.device_id
                WHERE s.network = %(network)s AND s.created_at > now() - interval '1 day'
                  AND s.target = 'webgpu'))
            ORDER BY j.id
            ON CONFLICT (workload_key, target, space) DO NOTHING
            RETURNING id
        """,
        parameters={
            "device_id": device_id,
            "first": first_space(TargetKind.WEBGPU),
            "network": network,
            "operated": operated,
            "models": MODELS_OF_NETWORK,
        },
        row=JobId,
    )


def job(job_id: int) -> Query[JobRow]:
    return Query(
        sql="""
            SELECT id, workload_key, target, space, priority,
                   CASE WHEN cancelled_at IS NULL THEN state ELSE 'cancelled' END AS state
            FROM tuning_job WHERE id = %(id)s
        """,
        parameters={"id": job_id},
        row=JobRow,
    )


def compiling(workload_keys: list[str], target: TargetKind) -> Query[WorkloadRow]:
    """Names those of the workloads whose defaults wait for a worker, or are with one."""
    return Query(
        sql="""
            SELECT j.workload_key FROM tuning_job j
            WHERE j.workload_key = ANY (%(keys)s) AND j.target = %(target)s
              AND j.space = %(space)s AND j.cancelled_at IS NULL
              AND (j.state = 'waiting' OR j.state = 'planned' AND EXISTS (
                SELECT FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
                WHERE p.job_id = j.id AND c.state = 'waiting' AND c.is_default))
        """,
        parameters={"keys": workload_keys, "target": target, "space": first_space(target)},
        row=WorkloadRow,
    )


def resume_jobs(workload_key: str, target: TargetKind) -> Statement:
    """Lets cancelled jobs of a workload go on, of every space."""
    return Statement(
        sql="""
            UPDATE tuning_job SET cancelled_at = NULL
            WHERE workload_key = %(key)s AND target = %(target)s AND cancelled_at IS NOT NULL
        """,
        parameters={"key": workload_key, "target": target},
    )


def ask_for_job(workload_key: str, target: TargetKind) -> Statement:
    """Puts jobs that are open for models alone before those, in every space."""
    return Statement(
        sql="""
            UPDATE tuning_job SET priority = %(priority)s
            WHERE workload_key = %(key)s AND target = %(target)s AND priority < %(priority)s
        """,
        parameters={"key": workload_key, "target": target, "priority": ASKED_FOR},
    )


def cancel_job(job_id: int) -> Statement:
    """Cancels a job; candidates that are lent already may still be reported."""
    return Statement(
        sql="""
            UPDATE tuning_job SET cancelled_at = now()
            WHERE id = %(id)s AND cancelled_at IS NULL
        """,
        parameters={"id": job_id},
    )


def job_planned(job_id: int) -> Statement:
    return Statement(
        sql="UPDATE tuning_job SET state = 'planned' WHERE id = %(id)s",
        parameters={"id": job_id},
    )


def job_failed(job_id: int, detail: str) -> Statement:
    return Statement(
        sql="UPDATE tuning_job SET state = 'failed', detail = %(detail)s WHERE id = %(id)s",
        parameters={"id": job_id, "detail": detail},
    )


def requeue_jobs(stalled_s: float) -> Query[JobId]:
    """Jobs whose message seems lost; marks them as requeued."""
    return Query(
        sql="""
            UPDATE tuning_job SET requeued_at = now()
            WHERE state = 'waiting' AND cancelled_at IS NULL
              AND requeued_at < now() - make_interval(secs => %(stalled_s)s)
            RETURNING id
        """,
        parameters={"stalled_s": stalled_s},
        row=JobId,
    )


def progress(
    *,
    job_id: int | None = None,
    workload_key: str | None = None,
    target: str | None = None,
    space: str | None = None,
    asked_by: int | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> Query[JobProgress]:
    """Progress of the jobs that have these properties, newest first; of all jobs without any.

    `asked_by`: those that this application has asked for.
    """
    return Query(
        sql="""
            SELECT j.id, j.workload_key, j.target, j.space,
                   CASE WHEN j.cancelled_at IS NULL THEN j.state ELSE 'cancelled' END AS state,
                   j.detail, w.flops,
                   space.candidates, space.compiled, space.failed, space.compile_ns_median,
                   space.compile_ns_last,
                   made.measurements, made.agents, made.ballots,
                   ARRAY(SELECT s FROM skipping(j.workload_key) s
                         WHERE target_of(s) = j.target
                           AND space_of(j.target, device_id_of(s)) = j.space) AS skipped_by,
                   made.best_ns, entered.entries, entered.final,
                   j.total
            FROM (
                SELECT *, count(*) OVER () AS total FROM tuning_job j
                WHERE (%(id)s::bigint IS NULL OR j.id = %(id)s)
                  AND (%(key)s::text IS NULL OR j.workload_key = %(key)s)
                  AND (%(target)s::text IS NULL OR j.target = %(target)s)
                  AND (%(space)s::text IS NULL OR j.space = %(space)s)
                  AND (%(asked_by)s::bigint IS NULL OR EXISTS (
                    SELECT FROM application_job a
                    WHERE a.application_id = %(asked_by)s AND a.job_id = j.id))
                ORDER BY j.id DESC LIMIT %(limit)s OFFSET %(offset)s
            ) j
            JOIN workload w ON w.key = j.workload_key
            CROSS JOIN LATERAL (
                SELECT count(*) AS candidates,
                       count(*) FILTER (WHERE c.state = 'compiled') AS compiled,
                       count(*) FILTER (WHERE c.state = 'failed') AS failed,
                       percentile_cont(0.5) WITHIN GROUP (ORDER BY c.compile_ns)
                           AS compile_ns_median,
                       (array_agg(c.compile_ns ORDER BY c.compiled_at DESC NULLS LAST))[1]
                           AS compile_ns_last
                FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
                WHERE p.job_id = j.id
            ) space
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(p.ok + p.validate + p.compile + p.run + p.compare + p.timeout
                                    + p.rejected), 0)::bigint AS measurements,
                       coalesce(sum(p.agents), 0) AS agents,
                       coalesce(sum(p.ballots), 0)::bigint AS ballots, min(p.best_ns) AS best_ns
                FROM job_progress p WHERE p.job_id = j.id
            ) made
            CROSS JOIN LATERAL (
                SELECT count(*) AS entries, count(*) FILTER (WHERE e.final) AS final
                FROM zoo_entry e
                WHERE e.workload_key = j.workload_key AND e.state <> 'retired'
                  AND e.target = j.target AND space_of(j.target, e.device_id) = j.space
            ) entered
            ORDER BY j.id DESC
        """,
        parameters={
            "id": job_id,
            "key": workload_key,
            "target": target,
            "space": space,
            "asked_by": asked_by,
            "limit": limit,
            "offset": offset,
        },
        row=JobProgress,
    )


def lock_workloads(*, alone: bool) -> Statement:
    """Until the transaction ends. Who registers workloads shares it; who may remove some is
    `alone`, lest one be registered and removed at once.
    """
    sql: LiteralString = "SELECT pg_advisory_xact_lock_shared(hashtextextended('workloads', 5))"
    if alone:
        sql = "SELECT pg_advisory_xact_lock(hashtextextended('workloads', 5))"
    return Statement(sql=sql)


def clear_set(name: str) -> Query[WorkloadRow]:
    """Empties a set, and returns what was in it."""
    return Query(
        sql="DELETE FROM workload_set WHERE name = %(name)s RETURNING workload_key",
        parameters={"name": name},
        row=WorkloadRow,
    )


def release_workloads(workload_keys: list[str]) -> Statement:
    """Removes those of them that nothing names any more."""
    return Statement(
        sql="""
            DELETE FROM workload w
            WHERE w.key = ANY (%(keys)s)
              AND NOT EXISTS (SELECT FROM workload_set s WHERE s.workload_key = w.key)
              AND NOT EXISTS (SELECT FROM model_workload m WHERE m.workload_key = w.key)
              AND NOT EXISTS (SELECT FROM tuning_job j WHERE j.workload_key = w.key)
              AND NOT EXISTS (SELECT FROM candidate c WHERE c.workload_key = w.key)
              AND NOT EXISTS (SELECT FROM ballot b WHERE b.workload_key = w.key)
              AND NOT EXISTS (SELECT FROM zoo_entry e WHERE e.workload_key = w.key)
              AND NOT EXISTS (SELECT FROM page_failure f WHERE f.workload_key = w.key)
              AND NOT EXISTS (SELECT FROM common_kernel k WHERE k.workload_key = w.key)
        """,
        parameters={"keys": workload_keys},
    )


def add_to_set(name: str, position: int, workload_key: str) -> Statement:
    return Statement(
        sql="""
            INSERT INTO workload_set (name, position, workload_key)
            VALUES (%(name)s, %(position)s, %(key)s)
        """,
        parameters={"name": name, "position": position, "key": workload_key},
    )


def workloads_of(name: str) -> Query[MemberRow]:
    """The workloads of a set in order. A workload key is a set of itself and of the workload that
    is the same but for constant weights, as a page knows only when it runs which of them it wants.
    """
    return Query(
        sql="""
            SELECT workload_key, (SELECT serial FROM publication) AS serial FROM (
                SELECT workload_key, position FROM workload_set WHERE name = %(name)s
                UNION ALL
                SELECT key, length(key) FROM workload WHERE key IN (%(name)s, %(constant)s)
            ) AS members ORDER BY position
        """,
        parameters={"name": name, "constant": f"{name}{CONSTANT_WEIGHTS}"},
        row=MemberRow,
    )

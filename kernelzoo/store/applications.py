"""Applications: their keys, what they own, and how much they may ask for."""

from dataclasses import dataclass
from datetime import datetime

from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """`sets` in all, `workloads_per_set` in each; jobs are counted over 24 hours."""

    jobs_per_day: int
    sets: int
    workloads_per_set: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationRow:
    id: int
    name: str
    key_hash: str
    origins: list[str]
    jobs_per_day: int
    sets: int
    workloads_per_set: int
    disabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """An application with what it has used: sets, and jobs of the last 24 hours."""

    name: str
    origins: list[str]
    jobs_per_day: int
    sets: int
    workloads_per_set: int
    disabled: bool
    created_at: datetime
    own_sets: int
    jobs_today: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginRow:
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedJobRow:
    job_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRow:
    """`application` is null for the operator's."""

    name: str
    application: str | None
    workloads: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    application_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    application_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredWorkloads:
    allowed: bool


def create(name: str, key_hash: str, origins: list[str], quota: Quota) -> Query[ApplicationRow]:
    """No row when there is one of this name."""
    return Query(
        sql="""
            INSERT INTO application
                (name, key_hash, origins, jobs_per_day, sets, workloads_per_set)
            VALUES (%(name)s, %(key_hash)s, %(origins)s::text[], %(jobs_per_day)s, %(sets)s,
                    %(workloads_per_set)s)
            ON CONFLICT (name) DO NOTHING
            RETURNING id, name, key_hash, origins, jobs_per_day, sets, workloads_per_set, disabled
        """,
        parameters={
            "name": name,
            "key_hash": key_hash,
            "origins": origins,
            "jobs_per_day": quota.jobs_per_day,
            "sets": quota.sets,
            "workloads_per_set": quota.workloads_per_set,
        },
        row=ApplicationRow,
    )


def change_key(name: str, key_hash: str) -> Query[ApplicationRow]:
    """The old key ends, and a disabled application comes back. No row for an unknown one."""
    return Query(
        sql="""
            UPDATE application SET key_hash = %(key_hash)s, disabled = false WHERE name = %(name)s
            RETURNING id, name, key_hash, origins, jobs_per_day, sets, workloads_per_set, disabled
        """,
        parameters={"name": name, "key_hash": key_hash},
        row=ApplicationRow,
    )


def disable(name: str) -> Statement:
    """Touches no row for an unknown one."""
    return Statement(
        sql="UPDATE application SET disabled = true WHERE name = %(name)s",
        parameters={"name": name},
    )


def change_origins(name: str, added: list[str], removed: list[str]) -> Query[ApplicationRow]:
    """No row for an unknown one."""
    return Query(
        sql="""
            UPDATE application SET origins = ARRAY(
                SELECT DISTINCT origin FROM unnest(origins || %(added)s::text[]) AS origin
                WHERE origin <> ALL(%(removed)s::text[]) ORDER BY origin)
            WHERE name = %(name)s
            RETURNING id, name, key_hash, origins, jobs_per_day, sets, workloads_per_set, disabled
        """,
        parameters={"name": name, "added": added, "removed": removed},
        row=ApplicationRow,
    )


def origins() -> Query[OriginRow]:
    """Origins of all applications that are not disabled."""
    return Query(
        sql="SELECT DISTINCT unnest(origins) AS origin FROM application WHERE NOT disabled",
        row=OriginRow,
    )


def by_id(application_id: int) -> Query[ApplicationRow]:
    return Query(
        sql="""
            SELECT id, name, key_hash, origins, jobs_per_day, sets, workloads_per_set, disabled
            FROM application WHERE id = %(id)s
        """,
        parameters={"id": application_id},
        row=ApplicationRow,
    )


def by_name(name: str) -> Query[ApplicationRow]:
    return Query(
        sql="""
            SELECT id, name, key_hash, origins, jobs_per_day, sets, workloads_per_set, disabled
            FROM application WHERE name = %(name)s
        """,
        parameters={"name": name},
        row=ApplicationRow,
    )


def usage() -> Query[UsageRow]:
    """Every application, by name."""
    return Query(
        sql="""
            SELECT a.name, a.origins, a.jobs_per_day, a.sets, a.workloads_per_set, a.disabled,
                   a.created_at,
                   (SELECT count(*) FROM application_set s WHERE s.application_id = a.id)
                       AS own_sets,
                   (SELECT count(*) FROM application_job j WHERE j.application_id = a.id
                       AND j.asked_at > now() - interval '1 day') AS jobs_today
            FROM application a ORDER BY a.name
        """,
        row=UsageRow,
    )


def lock(application_id: int) -> Statement:
    """Lets all that is counted against its quota take turns until the transaction ends."""
    return Statement(
        sql="SELECT FROM application WHERE id = %(id)s FOR UPDATE",
        parameters={"id": application_id},
    )


def ask_for_job(application_id: int, job_id: int, jobs_per_day: int) -> Query[RequestedJobRow]:
    """No row where this is one job too many within 24 hours; asking again is free. Lock before."""
    return Query(
        sql="""
            INSERT INTO application_job (application_id, job_id)
            SELECT %(application)s, %(job)s
            WHERE EXISTS (
                SELECT FROM application_job
                WHERE application_id = %(application)s AND job_id = %(job)s
            ) OR (
                SELECT count(*) FROM application_job
                WHERE application_id = %(application)s AND asked_at > now() - interval '1 day'
            ) < %(jobs_per_day)s
            ON CONFLICT (application_id, job_id) DO UPDATE SET asked_at = application_job.asked_at
            RETURNING job_id
        """,
        parameters={
            "application": application_id,
            "job": job_id,
            "jobs_per_day": jobs_per_day,
        },
        row=RequestedJobRow,
    )


def askers(job_id: int) -> Query[Asker]:
    """The applications that asked for a job."""
    return Query(
        sql="""
            SELECT application_id FROM application_job
            WHERE job_id = %(job)s ORDER BY application_id
        """,
        parameters={"job": job_id},
        row=Asker,
    )


def owner(set_name: str) -> Query[Owned]:
    """No row where there is no such set; null where it is the operator's."""
    return Query(
        sql="""
            SELECT application_id FROM application_set WHERE name = %(name)s
            UNION ALL
            SELECT NULL FROM workload_set WHERE name = %(name)s
            ORDER BY application_id NULLS LAST LIMIT 1
        """,
        parameters={"name": set_name},
        row=Owned,
    )


def own_set(application_id: int, set_name: str, sets: int) -> Query[Owned]:
    """No row where this is one set too many, or another's. Lock before."""
    return Query(
        sql="""
            INSERT INTO application_set (name, application_id)
            SELECT %(name)s, %(application)s
            WHERE EXISTS (
                SELECT FROM application_set
                WHERE application_id = %(application)s AND name = %(name)s
            ) OR (
                SELECT count(*) FROM application_set WHERE application_id = %(application)s
            ) < %(sets)s
            ON CONFLICT (name) DO UPDATE SET application_id = %(application)s
            WHERE application_set.application_id = %(application)s
            RETURNING application_id
        """,
        parameters={"application": application_id, "name": set_name, "sets": sets},
        row=Owned,
    )


def register_new(
    application_id: int, workload_keys: list[str], most: int
) -> Query[RegisteredWorkloads]:
    """Notes those that no set or job has registered yet. `allowed`: with them it has registered
    `most` new ones within 24 hours at most; the transaction takes them back. Lock before.
    """
    return Query(
        sql="""
            WITH over AS (
                DELETE FROM application_workload
                WHERE application_id = %(application)s
                  AND registered_at <= now() - interval '1 day'
            ), noted AS (
                INSERT INTO application_workload (application_id, workload_key)
                SELECT %(application)s, key FROM unnest(%(keys)s::text[]) AS key
                WHERE NOT EXISTS (SELECT FROM workload w WHERE w.key = key.key)
                ON CONFLICT (application_id, workload_key) DO UPDATE SET
                    registered_at = now()
                RETURNING workload_key
            )
            SELECT (SELECT count(*) FROM noted) + (
                SELECT count(*) FROM application_workload a
                WHERE a.application_id = %(application)s
                  AND a.registered_at > now() - interval '1 day'
                  AND a.workload_key NOT IN (SELECT workload_key FROM noted)
            ) <= %(most)s AS allowed
        """,
        parameters={"application": application_id, "keys": workload_keys, "most": most},
        row=RegisteredWorkloads,
    )


def sets(application_id: int | None) -> Query[SetRow]:
    """Lists the sets of an application by name, or those of all."""
    return Query(
        sql="""
            SELECT s.name, a.name AS application,
                   array_agg(s.workload_key ORDER BY s.position) AS workloads
            FROM workload_set s
            LEFT JOIN application_set o ON o.name = s.name
            LEFT JOIN application a ON a.id = o.application_id
            WHERE %(application)s::bigint IS NULL OR o.application_id = %(application)s
            GROUP BY s.name, a.name ORDER BY s.name
        """,
        parameters={"application": application_id},
        row=SetRow,
    )

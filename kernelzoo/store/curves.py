"""How fast a job's best kernel became, class by class: nnJIT's Figures 13 and 16."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store.query import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressOfClassRow:
    """Counts of measurements by outcome; `rejected` are those that a check refused. `elapsed_s`:
    from the first lease to the last measurement.
    """

    device_class: DeviceClass
    cpu_architecture: str
    logical_cores: int
    gpu_vendor: str
    gpu_architecture: str
    engines: list[str]
    identities: int
    strangers: int
    candidates: int
    ok: int
    validate: int
    compile: int
    run: int
    compare: int
    timeout: int
    rejected: int
    elapsed_s: float
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ImprovementRow:
    """`round`: how many measurements the class had made; `elapsed_s`: since its first lease."""

    device_class: DeviceClass
    round: int
    elapsed_s: float
    best_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedTimeRow:
    """A measurement: by whom and of what."""

    identity_id: UUID
    candidate_id: str
    relative_time: float | None
    lent_at: datetime
    reported_at: datetime


def by_class(job_id: int, limit: int) -> Query[ProgressOfClassRow]:
    """Classes that measured a job, the latest active first."""
    return Query(
        sql="""
            WITH measured AS (
                SELECT m.device_class, count(DISTINCT m.candidate_id) AS candidates,
                       count(*) FILTER (WHERE m.outcome = 'ok' AND m.verdict <> 'rejected') AS ok,
                       count(*) FILTER (WHERE m.outcome = 'validate') AS validate,
                       count(*) FILTER (WHERE m.outcome = 'compile') AS compile,
                       count(*) FILTER (WHERE m.outcome = 'run') AS run,
                       count(*) FILTER (WHERE m.outcome = 'compare') AS compare,
                       count(*) FILTER (WHERE m.outcome = 'timeout') AS timeout,
                       count(*) FILTER (WHERE m.verdict = 'rejected') AS rejected,
                       extract(epoch FROM max(m.created_at) - min(l.created_at))
                           ::double precision AS elapsed_s,
                       max(m.created_at) AS last_at
                FROM space_point p
                JOIN measurement m ON m.candidate_id = p.candidate_id
                JOIN lease l ON l.id = m.lease_id AND l.job_id = p.job_id
                WHERE p.job_id = %(job)s
                GROUP BY m.device_class
                ORDER BY last_at DESC LIMIT %(limit)s
            )
            SELECT measured.*, d.cpu_architecture, d.logical_cores, d.gpu_vendor,
                   d.gpu_architecture, c.engines, crowd.identities, crowd.strangers
            FROM measured
            JOIN device_class c ON c.device_class = measured.device_class
            JOIN device d ON d.device_id = c.device_id
            CROSS JOIN LATERAL (
                SELECT count(DISTINCT i.id) AS identities,
                       count(DISTINCT i.id) FILTER (WHERE NOT i.operated) AS strangers
                FROM agent_session s JOIN identity i ON i.id = s.identity_id
                WHERE s.device_class = measured.device_class
            ) crowd
            ORDER BY measured.last_at DESC
        """,
        parameters={"job": job_id, "limit": limit},
        row=ProgressOfClassRow,
    )


def improvements(job_id: int, device_classes: list[DeviceClass]) -> Query[ImprovementRow]:
    """Each measurement that was faster than all before it on its class, and not refused."""
    return Query(
        sql="""
            WITH rounds AS (
                SELECT m.device_class, m.best_ns, m.created_at, m.verdict, m.outcome,
                       row_number() OVER made AS round,
                       min(l.created_at) OVER (PARTITION BY m.device_class) AS begun_at,
                       min(m.best_ns) FILTER (WHERE m.verdict <> 'rejected') OVER (
                           PARTITION BY m.device_class ORDER BY m.created_at, m.candidate_id
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS best_before
                FROM space_point p
                JOIN measurement m ON m.candidate_id = p.candidate_id
                JOIN lease l ON l.id = m.lease_id AND l.job_id = p.job_id
                WHERE p.job_id = %(job)s AND m.device_class = ANY (%(classes)s)
                WINDOW made AS (PARTITION BY m.device_class ORDER BY m.created_at, m.candidate_id)
            )
            SELECT device_class, round, best_ns,
                   extract(epoch FROM created_at - begun_at)::double precision AS elapsed_s
            FROM rounds
            WHERE outcome = 'ok' AND verdict <> 'rejected'
              AND (best_before IS NULL OR best_ns < best_before)
            ORDER BY device_class, round
        """,
        parameters={"job": job_id, "classes": device_classes},
        row=ImprovementRow,
    )


def reported(job_id: int, device_class: DeviceClass) -> Query[ReportedTimeRow]:
    """Every measurement that was not refused, in the order of time."""
    return Query(
        sql="""
            SELECT m.identity_id, m.candidate_id, m.relative_time, l.created_at AS lent_at,
                   m.created_at AS reported_at
            FROM lease l JOIN measurement m ON m.lease_id = l.id
            WHERE l.job_id = %(job)s AND l.device_class = %(class)s AND m.verdict <> 'rejected'
            ORDER BY m.created_at, m.candidate_id
        """,
        parameters={"job": job_id, "class": device_class},
        row=ReportedTimeRow,
    )

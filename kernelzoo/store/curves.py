"""Tells how fast a job's best kernel became, class by class: nnJIT's Figures 13 and 16."""

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

    device_class: str
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

    device_class: str
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
                SELECT device_class, candidates, ok, validate, compile, run, compare, timeout,
                       rejected,
                       extract(epoch FROM last_at - begun_at)::double precision AS elapsed_s,
                       last_at
                FROM job_progress WHERE job_id = %(job)s AND last_at IS NOT NULL
                ORDER BY last_at DESC LIMIT %(limit)s
            )
            SELECT measured.*, d.cpu_architecture, d.logical_cores, d.gpu_vendor,
                   d.gpu_architecture, c.engines, c.crowd AS identities, c.strangers
            FROM measured
            JOIN device_class c ON c.device_class = measured.device_class
            JOIN device d ON d.device_id = c.device_id
            ORDER BY measured.last_at DESC
        """,
        parameters={"job": job_id, "limit": limit},
        row=ProgressOfClassRow,
    )


def improvements(job_id: int, device_classes: list[str]) -> Query[ImprovementRow]:
    """Each measurement that was faster than all before it on its class, and not refused."""
    return Query(
        sql="""
            SELECT device_class, round, best_ns, elapsed_s FROM improvement
            WHERE job_id = %(job)s AND device_class = ANY (%(classes)s)
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

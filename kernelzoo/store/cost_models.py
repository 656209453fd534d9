"""Cost models: what they learn from, and every one that was trained."""

from dataclasses import dataclass
from datetime import datetime

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store.candidates import Configured
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRow(Configured):
    """A candidate on a device class in one engine: the median over identities of their times,
    each relative to the best that this identity's reference took for the workload.
    """

    device_class: DeviceClass
    engine_name: str
    engine_version: str
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRow:
    """The latest session of a device class in one engine."""

    device_class: DeviceClass
    engine_name: str
    engine_version: str
    peak_gflops: float
    probe: dict[str, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthRow:
    """Verified measurements now, and when a model was last trained; of the latter those that are
    still there, so that what is removed for its age does not put off the next training.
    """

    measurements: int
    trained_with: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBody:
    version: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModelRow:
    version: int
    sha256: str
    published: bool
    reason: str
    evaluation: dict[str, object]
    measurements: int
    trained_at: datetime


def growth() -> Query[GrowthRow]:
    return Query(
        sql="""
            SELECT (SELECT count(*) FROM measurement
                    WHERE outcome = 'ok' AND verdict = 'verified') AS measurements,
                   coalesce((
                       SELECT least(measurements, (
                           SELECT count(*) FROM measurement
                           WHERE outcome = 'ok' AND verdict = 'verified'
                             AND created_at <= trained_at))
                       FROM cost_model ORDER BY version DESC LIMIT 1), 0) AS trained_with
        """,
        row=GrowthRow,
    )


def timed(limit: int) -> Query[RaceRow]:
    """Verified measurements of the `limit` latest races, in an order that depends on them alone.

    The race of an identity is one workload on one device class in one engine. Its reference is
    measured with every candidate; the best of them all is what no disturbance has touched.
    """
    return Query(
        sql="""
            WITH measured AS (
                SELECT m.identity_id, m.candidate_id, m.device_class, s.engine_name,
                       s.engine_version, l.job_id, m.lease_id, m.best_ns,
                       (SELECT min(ns) FROM unnest(m.reference_ns) ns) AS reference_ns
                FROM measurement m
                JOIN lease l ON l.id = m.lease_id
                JOIN agent_session s ON s.id = l.session_id
                WHERE m.outcome = 'ok' AND m.verdict = 'verified'
            ), raced AS (
                SELECT *, min(reference_ns) OVER race AS race_reference_ns,
                       max(lease_id) OVER race AS latest_lease
                FROM measured
                WINDOW race AS (
                    PARTITION BY identity_id, device_class, engine_name, engine_version, job_id)
            ), recent AS (
                SELECT *, dense_rank() OVER (ORDER BY latest_lease DESC) AS place FROM raced
            ), timed AS (
                SELECT device_class, engine_name, engine_version, candidate_id, job_id,
                       min(best_ns / race_reference_ns) AS relative_time
                FROM recent WHERE place <= %(limit)s
                GROUP BY identity_id, device_class, engine_name, engine_version, candidate_id,
                         job_id
            )
            SELECT t.device_class, t.engine_name, t.engine_version, c.workload_key, c.target,
                   c.config, c.requires,
                   percentile_cont(0.5) WITHIN GROUP (ORDER BY t.relative_time) AS relative_time
            FROM timed t
            JOIN candidate c ON c.candidate_id = t.candidate_id
            JOIN space_point p ON p.job_id = t.job_id AND p.candidate_id = t.candidate_id
            GROUP BY t.device_class, t.engine_name, t.engine_version, c.candidate_id
            ORDER BY t.device_class, t.engine_name, t.engine_version, c.workload_key,
                     min(p.ordinal), c.candidate_id
        """,
        parameters={"limit": limit},
        row=RaceRow,
    )


def probes(device_class: DeviceClass | None = None) -> Query[ProbeRow]:
    """Probes of every device class and engine, or of one class, the latest last."""
    return Query(
        sql="""
            SELECT device_class, engine_name, engine_version, peak_gflops, probe FROM (
                SELECT DISTINCT ON (device_class, engine_name, engine_version) *
                FROM agent_session
                WHERE %(class)s::text IS NULL OR device_class = %(class)s
                ORDER BY device_class, engine_name, engine_version,
                         probe IS NOT NULL DESC, id DESC
            ) AS latest ORDER BY id
        """,
        parameters={"class": device_class},
        row=ProbeRow,
    )


def lock_training() -> Statement:
    """Trainings take turns until the transaction ends."""
    return Statement(sql="SELECT pg_advisory_xact_lock(hashtextextended('cost model', 2))")


def store(
    *, sha256: str, body: bytes, published: bool, reason: str, evaluation: str, measurements: int
) -> Statement:
    """`evaluation` is JSON."""
    return Statement(
        sql="""
            INSERT INTO cost_model (sha256, body, published, reason, evaluation, measurements)
            VALUES (%(sha256)s, %(body)s, %(published)s, %(reason)s, %(evaluation)s::jsonb,
                    %(measurements)s)
        """,
        parameters={
            "sha256": sha256,
            "body": body,
            "published": published,
            "reason": reason,
            "evaluation": evaluation,
            "measurements": measurements,
        },
    )


def served() -> Query[ModelBody]:
    return Query(
        sql="SELECT version, body FROM cost_model WHERE published ORDER BY version DESC LIMIT 1",
        row=ModelBody,
    )


def trained(limit: int) -> Query[CostModelRow]:
    """The latest first, without their bytes."""
    return Query(
        sql="""
            SELECT version, sha256, published, reason, evaluation, measurements, trained_at
            FROM cost_model ORDER BY version DESC LIMIT %(limit)s
        """,
        parameters={"limit": limit},
        row=CostModelRow,
    )

"""Cost models: what they learn from, and every one that was trained."""

from dataclasses import dataclass
from datetime import datetime

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store.candidates import Configured
from kernelzoo.store.query import Query, Statement

LEASES_A_RACE = 16
"""Leases of which measurements are learned from, for each race: a space takes about eight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRow:
    """A device class in one engine, as a session of it told."""

    device_class: DeviceClass
    engine_name: str
    engine_version: str
    peak_gflops: float
    probe: dict[str, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRow(Configured):
    """A candidate on a device class in one engine: the median over identities of their times,
    each relative to the best that this identity's reference took for the workload. The probe is of
    the latest of their sessions that told one, and the same for all candidates.
    """

    device_class: DeviceClass
    engine_name: str
    engine_version: str
    peak_gflops: float
    probe: dict[str, int] | None
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthRow:
    """Measurements that were judged until now, and until a model was last trained; those that were
    removed since are among both.
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
    """Device classes count their measurements: nothing of these is read."""
    return Query(
        sql="""
            SELECT (SELECT coalesce(sum(measurements), 0)::bigint FROM device_class)
                       AS measurements,
                   coalesce((SELECT measurements FROM cost_model
                             ORDER BY version DESC LIMIT 1), 0) AS trained_with
        """,
        row=GrowthRow,
    )


def timed(limit: int) -> Query[RaceRow]:
    """Verified measurements of the `limit` latest races, in an order that depends on them alone.

    The race of an identity is one workload on one device class in one engine. Its reference is
    measured with every candidate; the best of them all is what no disturbance has touched. Races
    are looked for among the latest leases that have a verified measurement, and chosen before any
    measurement is read, so that those before them cost nothing.
    """
    return Query(
        sql="""
            WITH lent AS MATERIALIZED (
                SELECT l.id AS lease_id, l.identity_id, l.device_class, s.engine_name,
                       s.engine_version, l.job_id, s.id AS session_id,
                       CASE WHEN s.probe IS NOT NULL THEN s.id END AS probed_id
                FROM (
                    SELECT id, session_id, identity_id, device_class, job_id FROM lease
                    CROSS JOIN LATERAL (
                        SELECT FROM measurement m
                        WHERE m.lease_id = lease.id
                          AND m.outcome = 'ok' AND m.verdict = 'verified' LIMIT 1) one
                    ORDER BY id DESC LIMIT %(leases)s
                ) l
                -- By its number, as a join of so many leases begins with all sessions.
                CROSS JOIN LATERAL (
                    SELECT s.id, s.engine_name, s.engine_version, s.probe FROM agent_session s
                    WHERE s.id = l.session_id LIMIT 1) s
            ), race AS MATERIALIZED (
                SELECT identity_id, device_class, engine_name, engine_version, job_id
                FROM lent
                GROUP BY identity_id, device_class, engine_name, engine_version, job_id
                ORDER BY max(lease_id) DESC LIMIT %(limit)s
            ), raced AS (
                SELECT l.*, m.candidate_id, m.best_ns,
                       min((SELECT min(ns) FROM unnest(m.reference_ns) ns)) OVER (
                           PARTITION BY l.identity_id, l.device_class, l.engine_name,
                                        l.engine_version, l.job_id) AS reference_ns
                FROM race
                JOIN lent l USING (identity_id, device_class, engine_name, engine_version, job_id)
                JOIN measurement m ON m.lease_id = l.lease_id
                WHERE m.outcome = 'ok' AND m.verdict = 'verified'
            ), timed AS (
                SELECT device_class, engine_name, engine_version, candidate_id, job_id,
                       min(best_ns / reference_ns) AS relative_time,
                       max(session_id) AS session_id, max(probed_id) AS probed_id
                FROM raced
                GROUP BY identity_id, device_class, engine_name, engine_version, candidate_id,
                         job_id
            ), learned AS (
                SELECT t.device_class, t.engine_name, t.engine_version, c.workload_key, c.target,
                       c.config, c.requires, c.candidate_id, min(p.ordinal) AS ordinal,
                       percentile_cont(0.5) WITHIN GROUP (ORDER BY t.relative_time)
                           AS relative_time,
                       coalesce(max(max(t.probed_id)) OVER told, max(max(t.session_id)) OVER told)
                           AS session_id
                FROM timed t
                JOIN candidate c ON c.candidate_id = t.candidate_id
                JOIN space_point p ON p.job_id = t.job_id AND p.candidate_id = t.candidate_id
                GROUP BY t.device_class, t.engine_name, t.engine_version, c.candidate_id
                WINDOW told AS (PARTITION BY t.device_class, t.engine_name, t.engine_version)
            )
            SELECT l.device_class, l.engine_name, l.engine_version, l.workload_key, l.target,
                   l.config, l.requires, l.relative_time, s.peak_gflops, s.probe
            FROM learned l
            CROSS JOIN LATERAL (
                SELECT s.peak_gflops, s.probe FROM agent_session s
                WHERE s.id = l.session_id LIMIT 1) s
            ORDER BY l.device_class, l.engine_name, l.engine_version, l.workload_key, l.ordinal,
                     l.candidate_id
        """,
        parameters={"limit": limit, "leases": LEASES_A_RACE * limit},
        row=RaceRow,
    )


def probe_of(device_class: DeviceClass) -> Query[ProbeRow]:
    """The latest session of a device class, of those that told their probe if one of the last few
    did.
    """
    return Query(
        sql="""
            SELECT device_class, engine_name, engine_version, peak_gflops, probe
            FROM (
                SELECT * FROM agent_session WHERE device_class = %(class)s
                ORDER BY created_at DESC LIMIT 64
            ) latest
            ORDER BY probe IS NOT NULL DESC, id DESC LIMIT 1
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

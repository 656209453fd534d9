"""Leases: which candidates an agent measures next, and for how long they are its own."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class LendableRow:
    """`reference_id` is the default kernel of the job for this agent's target."""

    job_id: int
    workload_key: str
    candidate_id: str
    reference_id: str
    unmeasured: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLease:
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    id: int
    identity_id: UUID
    device_class: str
    workload_key: str
    seed: int
    nonce: str
    expires_at: datetime
    expired: bool
    candidate_ids: list[str]
    answered_ids: list[str]


def lendable(
    identity_id: UUID,
    device_class: DeviceClass,
    limit: int,
    application_id: int | None = None,
) -> Query[LendableRow]:
    """Compiled candidates of the oldest job in which this identity has any left to measure, of
    the jobs of its device's space.

    Nothing is lent before the job's reference kernel is compiled, so that relative times of one
    job share their base. Candidates come in the device class's order of evaluation, else in that
    of their promise. `unmeasured` counts what is left after these rows, compiled or not.
    """
    return Query(
        sql="""
            WITH job AS MATERIALIZED (
                SELECT j.id, j.workload_key, reference.candidate_id AS reference_id
                FROM tuning_job j
                CROSS JOIN LATERAL (
                    SELECT FROM unmeasured(
                        j.id, %(identity)s::uuid, %(class)s, %(features)s::text[])
                    WHERE state = 'compiled' LIMIT 1
                ) left_over
                CROSS JOIN LATERAL
                    default_kernel(j.workload_key, j.kind, %(device_id)s, %(features)s::text[])
                    AS reference
                WHERE j.kind = %(kind)s AND j.space = space_of(%(kind)s, %(device_id)s)
                  AND is_for(%(application)s, j.workload_key)
                  AND reference.job_id = j.id AND reference.state = 'compiled'
                ORDER BY j.id LIMIT 1
            ), remaining AS (
                SELECT job.*, u.candidate_id, u.ordinal, u.state
                FROM job CROSS JOIN LATERAL
                    unmeasured(job.id, %(identity)s::uuid, %(class)s, %(features)s::text[]) u
            ), chosen AS (
                SELECT remaining.*,
                       array_position(o.candidate_ids, remaining.candidate_id) AS place
                FROM remaining LEFT JOIN evaluation_order o
                  ON o.job_id = remaining.id AND o.device_class = %(class)s
                WHERE state = 'compiled' ORDER BY place, ordinal LIMIT %(limit)s
            )
            SELECT chosen.id AS job_id, chosen.workload_key, chosen.candidate_id,
                   chosen.reference_id,
                   (SELECT count(*) FROM remaining) - (SELECT count(*) FROM chosen) AS unmeasured,
                   NOT EXISTS (
                       SELECT FROM space_point p JOIN candidate w USING (candidate_id)
                       WHERE p.job_id = chosen.id AND w.state = 'waiting') AS complete
            FROM chosen ORDER BY chosen.place, chosen.ordinal
        """,
        parameters={
            "kind": device_class.target.kind,
            "device_id": device_class.device_id,
            "features": list(device_class.target.features),
            "identity": str(identity_id),
            "class": str(device_class),
            "limit": limit,
            "application": application_id,
        },
        row=LendableRow,
    )


def grant(
    *,
    session_id: int,
    identity_id: UUID,
    device_class: DeviceClass,
    job_id: int,
    reference_id: str,
    candidate_ids: list[str],
    seed: int,
    nonce: str,
    duration_s: int,
) -> Query[NewLease]:
    return Query(
        sql="""
            WITH granted AS (
                INSERT INTO lease (session_id, identity_id, device_class, job_id, reference_id,
                                   seed, nonce, expires_at)
                VALUES (%(session_id)s, %(identity)s::uuid, %(device_class)s, %(job_id)s,
                        %(reference)s, %(seed)s, %(nonce)s,
                        now() + make_interval(secs => %(duration_s)s))
                RETURNING id
            ), items AS (
                INSERT INTO lease_item (lease_id, candidate_id)
                SELECT granted.id, unnest(%(candidates)s::text[]) FROM granted
            )
            SELECT id FROM granted
        """,
        parameters={
            "session_id": session_id,
            "identity": str(identity_id),
            "device_class": str(device_class),
            "job_id": job_id,
            "reference": reference_id,
            "candidates": candidate_ids,
            "seed": seed,
            "nonce": nonce,
            "duration_s": duration_s,
        },
        row=NewLease,
    )


def lease(lease_id: int) -> Query[LeaseRow]:
    """The lease with what it lent and what was answered. Locks it against a second answer."""
    return Query(
        sql="""
            SELECT l.id, l.identity_id, l.device_class, j.workload_key, l.seed, l.nonce,
                   l.expires_at, l.expires_at <= now() AS expired,
                   ARRAY(SELECT candidate_id FROM lease_item WHERE lease_id = l.id)
                       AS candidate_ids,
                   ARRAY(SELECT candidate_id FROM measurement WHERE lease_id = l.id)
                       AS answered_ids
            FROM lease l JOIN tuning_job j ON j.id = l.job_id
            WHERE l.id = %(id)s FOR UPDATE OF l
        """,
        parameters={"id": lease_id},
        row=LeaseRow,
    )


def lock_identity(identity_id: UUID) -> Statement:
    """Loans to one identity take turns until the transaction ends."""
    return Statement(
        sql="SELECT pg_advisory_xact_lock(hashtextextended(%(identity)s, 1))",
        parameters={"identity": str(identity_id)},
    )

"""Leases: which candidates were lent to an agent, why, and what became of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.lease import LentRole
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.query import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLease:
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    id: int
    identity_id: UUID
    device_class: DeviceClass
    workload_key: WorkloadKey
    seed: int
    candidate_ids: list[str]
    answered_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductRow:
    """Counts the leases of a network's strangers within the last hour that are `open`, expired
    without a whole answer (`neglected`), and were `answered`. `unreported`: candidates of expired
    leases that one identity has not reported since it last answered a whole lease.
    """

    open: int
    neglected: int
    answered: int
    unreported: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledRow:
    """Share of leases that carried a control."""

    share: float


def conduct(identity_id: UUID, network: str) -> Query[ConductRow]:
    return Query(
        sql="""
            WITH recent AS MATERIALIZED (
                SELECT l.id, l.identity_id, l.answered, l.created_at, l.expires_at
                FROM identity i JOIN lease l ON l.identity_id = i.id
                WHERE i.network = %(network)s AND NOT i.operated
                  AND l.expires_at > now() - interval '1 hour'
            )
            SELECT count(*) FILTER (WHERE NOT answered AND expires_at > now()) AS open,
                   count(*) FILTER (WHERE NOT answered AND expires_at <= now()) AS neglected,
                   count(*) FILTER (WHERE answered) AS answered,
                   (SELECT count(*) FROM recent r JOIN lease_item item ON item.lease_id = r.id
                    WHERE r.identity_id = %(identity)s::uuid
                      AND NOT r.answered AND r.expires_at <= now()
                      AND r.created_at > coalesce((
                        SELECT max(created_at) FROM recent
                        WHERE identity_id = %(identity)s::uuid AND answered), '-infinity')
                      AND NOT EXISTS (
                        SELECT FROM measurement m
                        WHERE m.lease_id = r.id AND m.candidate_id = item.candidate_id)
                   ) AS unreported
            FROM recent
        """,
        parameters={"identity": str(identity_id), "network": network},
        row=ConductRow,
    )


def grant(
    *,
    session_id: int,
    identity_id: UUID,
    device_class: DeviceClass,
    job_id: int,
    reference_id: str,
    items: Mapping[str, LentRole],
    complete: bool,
    seed: int,
    nonce: str,
    duration_s: int,
) -> Query[NewLease]:
    """`items`: candidates with their roles. A lease of none is answered from the start.
    No row where the session is gone, with an identity that was erased.
    """
    return Query(
        sql="""
            WITH granted AS (
                INSERT INTO lease (session_id, identity_id, device_class, job_id, reference_id,
                                   complete, answered, seed, nonce, expires_at)
                SELECT s.id, s.identity_id, %(device_class)s, %(job_id)s, %(reference)s,
                       %(complete)s, cardinality(%(candidates)s::text[]) = 0, %(seed)s, %(nonce)s,
                       now() + make_interval(secs => %(duration_s)s)
                FROM agent_session s
                WHERE s.id = %(session_id)s AND s.identity_id = %(identity)s::uuid
                FOR KEY SHARE
                RETURNING id
            ), items AS (
                INSERT INTO lease_item (lease_id, candidate_id, role)
                SELECT granted.id, item.* FROM granted
                CROSS JOIN unnest(%(candidates)s::text[], %(roles)s::text[]) AS item
            )
            SELECT id FROM granted
        """,
        parameters={
            "session_id": session_id,
            "identity": str(identity_id),
            "device_class": device_class,
            "job_id": job_id,
            "reference": reference_id,
            "candidates": list(items),
            "roles": [role.value for role in items.values()],
            "complete": complete,
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
            SELECT l.id, l.identity_id, l.device_class, j.workload_key, l.seed,
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


def controlled(device_classes: list[DeviceClass]) -> Query[ControlledRow]:
    """The share of controls in all that was ever lent to these classes."""
    return Query(
        sql="""
            SELECT coalesce(avg(EXISTS (
                       SELECT FROM lease_item item
                       WHERE item.lease_id = l.id AND item.role = 'control'
                   )::int), 0)::float8 AS share
            FROM lease l WHERE l.device_class = ANY(%(classes)s)
        """,
        parameters={"classes": device_classes},
        row=ControlledRow,
    )

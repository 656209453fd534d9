"""Leases: which candidates were lent to an agent, why, and what became of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.lease import Role
from kernelzoo.store.query import Query


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
    candidate_ids: list[str]
    answered_ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledRow:
    """Share of leases that carried a control."""

    share: float


def grant(
    *,
    session_id: int,
    identity_id: UUID,
    device_class: DeviceClass,
    job_id: int,
    reference_id: str,
    items: Mapping[str, Role],
    closing: bool,
    seed: int,
    nonce: str,
    duration_s: int,
) -> Query[NewLease]:
    """`items`: candidates with their roles. A lease of none is answered from the start."""
    return Query(
        sql="""
            WITH granted AS (
                INSERT INTO lease (session_id, identity_id, device_class, job_id, reference_id,
                                   closing, answered, seed, nonce, expires_at)
                VALUES (%(session_id)s, %(identity)s::uuid, %(device_class)s, %(job_id)s,
                        %(reference)s, %(closing)s, cardinality(%(candidates)s::text[]) = 0,
                        %(seed)s, %(nonce)s, now() + make_interval(secs => %(duration_s)s))
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
            "device_class": str(device_class),
            "job_id": job_id,
            "reference": reference_id,
            "candidates": list(items),
            "roles": [role.value for role in items.values()],
            "closing": closing,
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


def controlled(device_classes: list[str]) -> Query[ControlledRow]:
    """Of all that was ever lent to these classes."""
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

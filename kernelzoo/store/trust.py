"""Reads what is known of the author of a lease and of its class, and notes who fails a check."""

from dataclasses import dataclass
from uuid import UUID

from kernelzoo.domain.measurement import Verdict
from kernelzoo.domain.trust import Record
from kernelzoo.store.agents import IdentityRow
from kernelzoo.store.ballots import KeyRow
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderRow:
    """The identity that holds a lease, with what its session claims. Rates are 0 where unknown.

    `whole`: all that was lent is answered and can be judged, and every control ran. `outdated`: it
    was lent before the identity last failed a check.
    """

    identity_id: UUID
    operated: bool
    valid_in_row: int
    failed: bool
    peak_gflops: float
    written_gbps: float
    whole: bool
    outdated: bool

    @property
    def record(self) -> Record:
        return Record(valid_in_row=self.valid_in_row, failed=self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesRow:
    operated: bool
    peak_gflops: float
    written_gbps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRow:
    best_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRow:
    """Another identity found this of a control, over the reference beside it."""

    candidate_id: str
    network: str
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRow:
    """Samples that another lease has as well, to the last bit."""

    lease_id: int
    samples_ns: list[float]
    reference_ns: list[float]


def holder(lease_id: int) -> Query[HolderRow]:
    """Locks the identity: its leases are judged one after the other."""
    return Query(
        sql="""
            SELECT i.id AS identity_id, i.operated, i.valid_in_row,
                   i.failed_at IS NOT NULL AS failed, s.peak_gflops,
                   coalesce((s.probe->>'l1_gbps')::float8,
                            (s.probe->>'bandwidth_gbps')::float8, 0) AS written_gbps,
                   coalesce(l.created_at <= i.failed_at, false) AS outdated,
                   NOT EXISTS (
                       SELECT FROM lease_item item
                       LEFT JOIN measurement m ON m.lease_id = item.lease_id
                           AND m.candidate_id = item.candidate_id
                       WHERE item.lease_id = l.id
                         AND (m.lease_id IS NULL OR m.verdict = 'unjudged'
                              OR item.role = 'control' AND m.outcome <> 'ok')
                   ) AS whole
            FROM lease l
            JOIN identity i ON i.id = l.identity_id
            JOIN agent_session s ON s.id = l.session_id
            WHERE l.id = %(lease_id)s FOR UPDATE OF i
        """,
        parameters={"lease_id": lease_id},
        row=HolderRow,
    )


def class_rates(lease_id: int, *, proven: bool) -> Query[RatesRow]:
    """Reads what others claim of the lease's class: the oldest `proven` identity of each network,
    and each agent of the operator. A stranger is proven by a whole valid lease, and by a
    measurement of this class that counts: a session alone costs nothing.
    """
    return Query(
        sql="""
            SELECT DISTINCT ON (CASE WHEN i.operated THEN i.id::text ELSE i.network END)
                   i.operated, s.peak_gflops,
                   coalesce((s.probe->>'l1_gbps')::float8,
                            (s.probe->>'bandwidth_gbps')::float8, 0) AS written_gbps
            FROM lease l
            JOIN identity own ON own.id = l.identity_id
            JOIN agent_session s ON s.device_class = l.device_class
            JOIN identity i ON i.id = s.identity_id
            WHERE l.id = %(lease_id)s AND i.failed_at IS NULL AND i.id <> own.id
              AND (i.operated OR i.network <> own.network AND (
                   NOT %(proven)s OR i.valid_in_row > 0
                   AND EXISTS (SELECT FROM measurement m
                               WHERE m.identity_id = i.id AND m.device_class = l.device_class
                                 AND m.outcome = 'ok' AND m.verdict = 'verified')))
            ORDER BY CASE WHEN i.operated THEN i.id::text ELSE i.network END,
                     i.created_at, i.id, s.id DESC
        """,
        parameters={"lease_id": lease_id, "proven": proven},
        row=RatesRow,
    )


def class_reference(lease_id: int) -> Query[TimeRow]:
    """The best time of the lease's reference kernel on its class, by agent of the operator; from
    the first leases of it.
    """
    return Query(
        sql="""
            SELECT min(ns) AS best_ns
            FROM lease l
            CROSS JOIN LATERAL (
                SELECT o.id, o.identity_id FROM lease o
                JOIN identity i ON i.id = o.identity_id AND i.operated
                WHERE o.reference_id = l.reference_id AND o.device_class = l.device_class
                  AND o.identity_id <> l.identity_id
                ORDER BY o.id LIMIT 256
            ) o
            JOIN measurement m ON m.lease_id = o.id AND m.verdict = 'verified'
            CROSS JOIN LATERAL unnest(m.reference_ns) AS ns
            WHERE l.id = %(lease_id)s
            GROUP BY o.identity_id
        """,
        parameters={"lease_id": lease_id},
        row=TimeRow,
    )


def controls(lease_id: int) -> Query[ControlRow]:
    """Reads what others found of the controls that were lent, those of older identities first. A
    control that nobody else has measured has no row.
    """
    return Query(
        sql="""
            SELECT item.candidate_id,
                   CASE WHEN i.operated THEN '' ELSE i.network END AS network,
                   min(m.best_ns / (SELECT min(ns) FROM unnest(m.reference_ns) ns))
                       AS relative_time
            FROM lease l
            JOIN identity own ON own.id = l.identity_id
            JOIN lease_item item ON item.lease_id = l.id AND item.role = 'control'
            JOIN measurement m ON m.candidate_id = item.candidate_id
                AND m.device_class = l.device_class AND m.outcome = 'ok'
                AND m.verdict = 'verified' AND m.lease_id > 0
            JOIN identity i ON i.id = m.identity_id
            JOIN lease o ON o.id = m.lease_id AND o.reference_id = l.reference_id
            WHERE l.id = %(lease_id)s AND i.id <> own.id
              AND (i.operated OR i.network <> own.network)
            GROUP BY item.candidate_id, i.id
            ORDER BY item.candidate_id, i.created_at, i.id
        """,
        parameters={"lease_id": lease_id},
        row=ControlRow,
    )


def shared_samples(lease_id: int) -> Query[SharedRow]:
    """Measurements of this lease that one judged before it has as well."""
    return Query(
        sql="""
            SELECT o.lease_id, m.samples_ns, m.reference_ns
            FROM measurement m
            JOIN measurement o ON o.candidate_id = m.candidate_id AND o.best_ns = m.best_ns
                AND o.lease_id <> m.lease_id AND o.verdict <> 'pending'
                AND o.samples_ns = m.samples_ns AND o.reference_ns = m.reference_ns
            WHERE m.lease_id = %(lease_id)s ORDER BY o.lease_id
        """,
        parameters={"lease_id": lease_id},
        row=SharedRow,
    )


def keep_record(identity_id: UUID, record: Record, *, failed_now: bool) -> Statement:
    return Statement(
        sql="""
            UPDATE identity SET valid_in_row = %(valid)s,
                   failed_at = CASE WHEN %(failed_now)s THEN now() ELSE failed_at END
            WHERE id = %(id)s::uuid
        """,
        parameters={
            "id": str(identity_id),
            "valid": record.valid_in_row,
            "failed_now": failed_now,
        },
    )


def ever_failed() -> Query[IdentityRow]:
    return Query(sql="SELECT id FROM identity WHERE failed_at IS NOT NULL", row=IdentityRow)


def withdraw(identity_id: UUID) -> Statement:
    """Nothing that an identity measured so far counts any more."""
    return Statement(
        sql="""
            UPDATE measurement SET verdict = %(verdict)s
            WHERE identity_id = %(id)s::uuid AND verdict = 'verified'
        """,
        parameters={"id": str(identity_id), "verdict": Verdict.QUARANTINED},
    )


def release(identity_id: UUID) -> Statement:
    """Lets all that an identity was lent and measured since it failed count again."""
    return Statement(
        sql="""
            UPDATE measurement m SET verdict = %(verdict)s
            FROM identity i, lease l
            WHERE i.id = %(id)s::uuid AND m.identity_id = i.id AND m.verdict = 'quarantined'
              AND l.id = m.lease_id AND l.created_at > i.failed_at
        """,
        parameters={"id": str(identity_id), "verdict": Verdict.VERIFIED},
    )


def count_again(identity_id: UUID) -> Query[KeyRow]:
    """Its ballots wait to be counted as if they were new. Answers their keys."""
    return Query(
        sql="""
            UPDATE ballot SET tallied = false, requeued_at = now()
            WHERE identity_id = %(id)s::uuid RETURNING workload_key, device_class
        """,
        parameters={"id": str(identity_id)},
        row=KeyRow,
    )

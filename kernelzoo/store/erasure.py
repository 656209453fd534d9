"""Erases all that is known of an identity. What it was counted into keeps its numbers."""

from dataclasses import dataclass
from uuid import UUID

from kernelzoo.store.ballots import KeyRow
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRow:
    """A row counts what there is of an identity; `entries`: live ones of keys that it voted on."""

    sessions: int
    leases: int
    measurements: int
    ballots: int
    entries: int


def held(identity_id: UUID) -> Query[HeldRow]:
    """No row for an identity that is unknown or erased."""
    return Query(
        sql="""
            SELECT (SELECT count(*) FROM agent_session s WHERE s.identity_id = i.id) AS sessions,
                   (SELECT count(*) FROM lease l WHERE l.identity_id = i.id) AS leases,
                   (SELECT count(*) FROM measurement m WHERE m.identity_id = i.id)
                       AS measurements,
                   (SELECT count(*) FROM ballot b WHERE b.identity_id = i.id) AS ballots,
                   (SELECT count(*) FROM ballot b JOIN zoo_entry e
                      ON e.workload_key = b.workload_key AND e.device_class = b.device_class
                     AND e.state <> 'retired'
                    WHERE b.identity_id = i.id) AS entries
            FROM identity i WHERE i.id = %(id)s::uuid AND i.erased_at IS NULL
        """,
        parameters={"id": str(identity_id)},
        row=HeldRow,
    )


def lock(identity_id: UUID) -> tuple[Statement, ...]:
    """Leases first, as who verifies one locks it before its identity."""
    return (
        Statement(
            sql="SELECT FROM lease WHERE identity_id = %(id)s::uuid ORDER BY id FOR UPDATE",
            parameters={"id": str(identity_id)},
        ),
        Statement(
            sql="SELECT FROM identity WHERE id = %(id)s::uuid FOR UPDATE",
            parameters={"id": str(identity_id)},
        ),
    )


def ballots(identity_id: UUID) -> Query[KeyRow]:
    """Removes its ballots; gives their keys, which are to be counted again."""
    return Query(
        sql="""
            DELETE FROM ballot WHERE identity_id = %(id)s::uuid
            RETURNING workload_key, device_class
        """,
        parameters={"id": str(identity_id)},
        row=KeyRow,
    )


def rest(identity_id: UUID) -> tuple[Statement, ...]:
    """Removes all else of an identity, in the order in which rows name one another."""
    parameters = {"id": str(identity_id)}
    return (
        Statement(
            sql="DELETE FROM measurement WHERE identity_id = %(id)s::uuid", parameters=parameters
        ),
        Statement(
            sql="""
                DELETE FROM lease_item i USING lease l
                WHERE l.identity_id = %(id)s::uuid AND i.lease_id = l.id
            """,
            parameters=parameters,
        ),
        Statement(sql="DELETE FROM lease WHERE identity_id = %(id)s::uuid", parameters=parameters),
        Statement(
            sql="DELETE FROM agent_session WHERE identity_id = %(id)s::uuid",
            parameters=parameters,
        ),
        Statement(
            sql="""
                UPDATE identity SET erased_at = now(), valid_in_row = 0, failed_at = NULL
                WHERE id = %(id)s::uuid
            """,
            parameters=parameters,
        ),
    )

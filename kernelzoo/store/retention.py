"""Removes what is old and needed no more. docs/adr/0046 says what that is, and why.

A batch is a range of leases or sessions by their numbers, which grow with time: each statement
looks at a few hundred rows by their keys, however many there are, and its transaction is short. A
mark tells where the next batch begins, and another where that of what was kept before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, LiteralString

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store.query import Query, Statement

UNUSED_DAYS = 7
"""After which a session without a lease or ballot is removed, and an identity without anything."""


Table = Literal["lease", "agent_session"]
BATCH: Mapping[Table, int] = MappingProxyType({"lease": 250, "agent_session": 500})


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Numbers above `first` and up to `last`; null where there are none left to look at."""

    first: int
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A removed session may leave these without any reference."""

    identity_id: str
    device_id: str
    device_class: DeviceClass


def take_turns() -> Statement:
    """Two workers do not remove at once, until the transaction ends."""
    return Statement(sql="SELECT pg_advisory_xact_lock(hashtextextended('retention', 4))")


def grown_old(table: Table, days: int) -> Query[Range]:
    """The next that are old enough, beyond those that were looked at; a lease has expired, too."""
    return Query(
        sql=_GROWN_OLD[table],
        parameters={"days": days, "limit": BATCH[table]},
        row=Range,
    )


def kept(table: Table) -> Query[Range]:
    """The next of those that were looked at and are there still."""
    return Query(sql=_KEPT[table], parameters={"limit": BATCH[table]}, row=Range)


_GROWN_OLD: Mapping[Table, LiteralString] = MappingProxyType(
    {
        "lease": """
            SELECT m.reached AS first, (
                SELECT max(id) FILTER (WHERE expires_at < now()
                    AND created_at < now() - make_interval(days => %(days)s))
                FROM (SELECT id, created_at, expires_at FROM lease
                      WHERE id > m.reached ORDER BY id LIMIT %(limit)s) next) AS last
            FROM retention_mark m WHERE m.of_table = 'lease'
        """,
        "agent_session": """
            SELECT m.reached AS first, (
                SELECT max(id) FILTER (WHERE created_at < now() - make_interval(days => %(days)s))
                FROM (SELECT id, created_at FROM agent_session
                      WHERE id > m.reached ORDER BY id LIMIT %(limit)s) next) AS last
            FROM retention_mark m WHERE m.of_table = 'agent_session'
        """,
    }
)
_KEPT: Mapping[Table, LiteralString] = MappingProxyType(
    {
        "lease": """
            SELECT m.again AS first, (
                SELECT max(id)
                FROM (SELECT id FROM lease WHERE id > m.again AND id <= m.reached
                      ORDER BY id LIMIT %(limit)s) next) AS last
            FROM retention_mark m WHERE m.of_table = 'lease'
        """,
        "agent_session": """
            SELECT m.again AS first, (
                SELECT max(id)
                FROM (SELECT id FROM agent_session WHERE id > m.again AND id <= m.reached
                      ORDER BY id LIMIT %(limit)s) next) AS last
            FROM retention_mark m WHERE m.of_table = 'agent_session'
        """,
    }
)


def reached(table: Table, last: int) -> Statement:
    return Statement(
        sql="UPDATE retention_mark SET reached = %(last)s WHERE of_table = %(table)s",
        parameters={"table": table, "last": last},
    )


def looked_again(table: Table, last: int) -> Statement:
    """Notes the last row that was looked at again; with 0 it begins anew."""
    return Statement(
        sql="UPDATE retention_mark SET again = %(last)s WHERE of_table = %(table)s",
        parameters={"table": table, "last": last},
    )


def remove_ballots(first: int, last: int, days: int, standing: int) -> Statement:
    """Removes, for the holders of these leases, old ballots that `standing` newer ones of their key
    outdate, and those whose measurements do not count.
    """
    return Statement(
        sql="""
            DELETE FROM ballot b
            USING (
                SELECT DISTINCT l.identity_id, l.device_class, j.workload_key
                FROM lease l JOIN tuning_job j ON j.id = l.job_id
                WHERE l.id > %(first)s AND l.id <= %(last)s
            ) held
            WHERE b.identity_id = held.identity_id AND b.device_class = held.device_class
              AND b.workload_key = held.workload_key AND b.tallied
              AND b.filed_at < now() - make_interval(days => %(days)s)
              AND ((
                SELECT count(*) FROM (
                    SELECT FROM ballot newer
                    WHERE newer.workload_key = b.workload_key
                      AND newer.device_class = b.device_class AND newer.filed_at > b.filed_at
                    LIMIT %(standing)s) found
                ) >= %(standing)s
                OR NOT EXISTS (
                    SELECT FROM measurement m JOIN candidate c ON c.candidate_id = m.candidate_id
                    WHERE m.identity_id = b.identity_id AND m.device_class = b.device_class
                      AND c.workload_key = b.workload_key
                      AND m.verdict IN ('verified', 'pending')))
        """,
        parameters={"first": first, "last": last, "days": days, "standing": standing},
    )


def remove_measurements(first: int, last: int, days: int, standing: int) -> Statement:
    """Old measurements of these leases, but for those that wait for a verdict, the `standing`
    latest verified ones of their candidate on their class, and those that a ballot stands on.
    """
    return Statement(
        sql="""
            DELETE FROM measurement m
            USING lease l, tuning_job j
            WHERE l.id > %(first)s AND l.id <= %(last)s AND m.lease_id = l.id AND j.id = l.job_id
              AND m.verdict <> 'pending'
              AND m.created_at < now() - make_interval(days => %(days)s)
              AND NOT (m.verdict = 'verified' AND (
                EXISTS (
                    SELECT FROM ballot b
                    WHERE b.identity_id = m.identity_id AND b.workload_key = j.workload_key
                      AND b.device_class = m.device_class)
                OR (
                    SELECT count(*) FROM (
                        SELECT FROM measurement newer
                        WHERE newer.candidate_id = m.candidate_id
                          AND newer.device_class = m.device_class
                          AND newer.verdict = 'verified' AND newer.lease_id > 0
                          AND newer.created_at > m.created_at
                        LIMIT %(standing)s) found
                ) < %(standing)s))
        """,
        parameters={"first": first, "last": last, "days": days, "standing": standing},
    )


def remove_items(first: int, last: int) -> Statement:
    """Removes the items of leases of which no measurement is left."""
    return Statement(
        sql="""
            -- Asked once for each lease, not for each of its items.
            DELETE FROM lease_item i
            USING lease l
            WHERE l.id > %(first)s AND l.id <= %(last)s AND i.lease_id = l.id
              AND (SELECT m.lease_id FROM measurement m WHERE m.lease_id = l.id LIMIT 1) IS NULL
        """,
        parameters={"first": first, "last": last},
    )


def remove_leases(first: int, last: int) -> Statement:
    """Removes leases that lend nothing any more."""
    return Statement(
        sql="""
            DELETE FROM lease l
            WHERE l.id > %(first)s AND l.id <= %(last)s
              AND NOT EXISTS (SELECT FROM lease_item i WHERE i.lease_id = l.id)
        """,
        parameters={"first": first, "last": last},
    )


def remove_sessions(first: int, last: int) -> Query[Leftover]:
    """Removes sessions that no lease names and no ballot was cast in. Each looks for its own: to
    join them all PostgreSQL reads every ballot that there is.
    """
    return Query(
        sql="""
            DELETE FROM agent_session s
            WHERE s.id > %(first)s AND s.id <= %(last)s
              AND (SELECT l.id FROM lease l WHERE l.session_id = s.id LIMIT 1) IS NULL
              AND s.device_class <> ALL (ARRAY(
                SELECT b.device_class FROM ballot b WHERE b.identity_id = s.identity_id))
            RETURNING identity_id::text AS identity_id, device_id, device_class
        """,
        parameters={"first": first, "last": last},
        row=Leftover,
    )


def remove_identities(identity_ids: list[str]) -> Statement:
    """Removes those of the identities that have nothing left."""
    return Statement(
        sql="""
            DELETE FROM identity i
            WHERE i.id = ANY (%(ids)s::uuid[])
              AND i.created_at < now() - make_interval(days => %(days)s)
              AND NOT EXISTS (SELECT FROM agent_session s WHERE s.identity_id = i.id)
              AND NOT EXISTS (SELECT FROM lease l WHERE l.identity_id = i.id)
              AND NOT EXISTS (SELECT FROM measurement m WHERE m.identity_id = i.id)
              AND NOT EXISTS (SELECT FROM ballot b WHERE b.identity_id = i.id)
        """,
        parameters={"ids": identity_ids, "days": UNUSED_DAYS},
    )


def remove_classes(device_classes: list[DeviceClass]) -> Statement:
    """Removes those of the classes on which nothing was ever measured: anyone may name classes."""
    return Statement(
        sql="""
            DELETE FROM device_class c
            WHERE c.device_class = ANY (%(classes)s) AND c.measurements = 0
              AND NOT EXISTS (SELECT FROM agent_session s WHERE s.device_class = c.device_class)
              AND NOT EXISTS (SELECT FROM measurement m WHERE m.device_class = c.device_class)
              AND NOT EXISTS (SELECT FROM zoo_entry e WHERE e.device_class = c.device_class)
        """,
        parameters={"classes": device_classes},
    )


def remove_devices(device_ids: list[str]) -> Statement:
    """Removes those of the devices that have no class left."""
    return Statement(
        sql="""
            DELETE FROM device d
            WHERE d.device_id = ANY (%(ids)s)
              AND NOT EXISTS (SELECT FROM device_class c WHERE c.device_id = d.device_id)
              AND NOT EXISTS (SELECT FROM agent_session s WHERE s.device_id = d.device_id)
        """,
        parameters={"ids": device_ids},
    )


def remove_erased() -> Statement:
    """Empty rows of identities that were erased a day ago."""
    return Statement(
        sql="DELETE FROM identity WHERE erased_at < now() - interval '1 day'",
    )

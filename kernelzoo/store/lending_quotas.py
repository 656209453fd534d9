"""Limits how much strangers are lent in a day: each candidate is a measurement to store."""

from dataclasses import dataclass

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRow:
    """Candidates lent today in the network, on the class, and of the workload on the class; and how
    many of the latter two in the network.
    """

    network: int
    device_class: int
    key: int
    own_of_class: int
    own_of_key: int


def taken(network: str, device_class: DeviceClass, workload_key: str) -> Query[TakenRow]:
    return Query(
        sql="""
            SELECT coalesce(sum(candidates) FILTER (WHERE scope = 'network'), 0)::integer
                       AS network,
                   coalesce(sum(candidates) FILTER (WHERE scope = 'class'), 0)::integer
                       AS device_class,
                   coalesce(sum(candidates) FILTER (WHERE scope = 'key'), 0)::integer AS key,
                   coalesce(sum(candidates) FILTER (WHERE scope = 'network on class'), 0)::integer
                       AS own_of_class,
                   coalesce(sum(candidates) FILTER (WHERE scope = 'network on key'), 0)::integer
                       AS own_of_key
            FROM lending_quota
            WHERE day = (now() AT TIME ZONE 'UTC')::date AND (scope, name) IN (
                ('network', %(network)s), ('class', %(class)s), ('key', %(key)s),
                ('network on class', %(network)s || ' ' || %(class)s),
                ('network on key', %(network)s || ' ' || %(key)s))
        """,
        parameters={
            "network": network,
            "class": device_class,
            "key": f"{workload_key} {device_class}",
        },
        row=TakenRow,
    )


def take(network: str, device_class: DeviceClass, workload_key: str, candidates: int) -> Statement:
    """Under the lock of the class, so that only the network's row is anybody else's too."""
    return Statement(
        sql="""
            INSERT INTO lending_quota AS r (day, scope, name, candidates)
            SELECT (now() AT TIME ZONE 'UTC')::date, asked.scope, asked.name, %(candidates)s
            FROM (VALUES ('class', %(class)s), ('key', %(key)s), ('network', %(network)s),
                         ('network on class', %(network)s || ' ' || %(class)s),
                         ('network on key', %(network)s || ' ' || %(key)s))
                AS asked (scope, name)
            ON CONFLICT (day, scope, name) DO UPDATE SET
                candidates = r.candidates + EXCLUDED.candidates
        """,
        parameters={
            "network": network,
            "class": device_class,
            "key": f"{workload_key} {device_class}",
            "candidates": candidates,
        },
    )


def forget_earlier_days() -> Statement:
    return Statement(
        sql="DELETE FROM lending_quota WHERE day < (now() AT TIME ZONE 'UTC')::date - 1"
    )

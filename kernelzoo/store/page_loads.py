"""Counts how often pages asked for the kernels of a set or workload, by class of device."""

from collections.abc import Mapping

from kernelzoo.store.query import Statement

MOST_ROWS = 20_000


def add(sums: Mapping[tuple[str, str], int]) -> Statement:
    """Adds to the counts of (name, device class). Past `MOST_ROWS`, only keys that have a row and
    classes that have an entry are counted: anyone may ask for classes that do not exist.

    In the order of the keys, lest two gateways wait for each other.
    """
    keys = sorted(sums)
    return Statement(
        sql="""
            INSERT INTO page_load (name, device_class, loads)
            SELECT asked.name, asked.device_class, asked.loads
            FROM unnest(%(names)s::text[], %(classes)s::text[], %(loads)s::bigint[])
                AS asked (name, device_class, loads)
            WHERE (SELECT count(*) FROM page_load) < %(most)s
               OR EXISTS (SELECT FROM page_load p
                          WHERE p.name = asked.name AND p.device_class = asked.device_class)
               OR EXISTS (SELECT FROM zoo_entry e WHERE e.device_class = asked.device_class)
            ORDER BY asked.name, asked.device_class
            ON CONFLICT (name, device_class) DO UPDATE SET
                loads = page_load.loads + EXCLUDED.loads, last_at = now()
        """,
        parameters={
            "names": [name for name, _ in keys],
            "classes": [device_class for _, device_class in keys],
            "loads": [sums[key] for key in keys],
            "most": MOST_ROWS,
        },
    )

"""The table `coverage`: what each key is served and takes, and how many page loads asked for it.

A trigger brings a row up to date with each version of an entry; the times and the loads come from
the two statements here. Reading it takes as long however much was measured.
"""

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store.ballots import KeyRow
from kernelzoo.store.query import Query, Statement

MOST_STRANGE = 1_000
"""Classes that never ran an agent, those that ask most: anyone may ask for classes that do not
exist."""


def note_times(workload_key: str, device_class: DeviceClass) -> Statement:
    """Notes how long a call of the key takes, as it is known now."""
    return Statement(
        sql="""
            INSERT INTO coverage (workload_key, device_class, best_ns, reference_ns, noted_at)
            SELECT %(key)s, %(class)s, t.best_ns, reference_time(%(key)s, %(class)s), now()
            FROM (VALUES (1)) one
            LEFT JOIN zoo_entry e ON e.workload_key = %(key)s AND e.device_class = %(class)s
                AND e.state <> 'retired'
            LEFT JOIN LATERAL kernel_time(e.candidate_id, %(class)s) t ON true
            ON CONFLICT (workload_key, device_class) DO UPDATE SET
                best_ns = EXCLUDED.best_ns, reference_ns = EXCLUDED.reference_ns,
                noted_at = EXCLUDED.noted_at
        """,
        parameters={"key": workload_key, "class": device_class},
    )


def unnoted(limit: int) -> Query[KeyRow]:
    """Keys whose times nobody has looked up yet; those with an entry first."""
    return Query(
        sql="""
            -- An order by state would read all of them.
            (SELECT workload_key, device_class FROM coverage
             WHERE noted_at IS NULL AND state IN ('provisional', 'confirmed') LIMIT %(limit)s)
            UNION ALL
            (SELECT workload_key, device_class FROM coverage
             WHERE noted_at IS NULL AND state = 'missing' LIMIT %(limit)s)
            LIMIT %(limit)s
        """,
        parameters={"limit": limit},
        row=KeyRow,
    )


def add_page_loads(classes: int) -> Statement:
    """Adds up what pages asked for, of so many classes: those first that it was longest ago of.

    What a class asked for that never ran an agent is forgotten once others ask more: rows are of
    the workloads that known classes and `MOST_STRANGE` others asked for, and of no more.
    """
    return Statement(
        sql="""
            WITH strange AS (
                SELECT p.device_class FROM page_load p
                WHERE NOT EXISTS (
                    SELECT FROM device_class c WHERE c.device_class = p.device_class)
                GROUP BY p.device_class ORDER BY sum(p.loads) DESC, p.device_class
                LIMIT %(strange)s
            ), others AS (
                SELECT p.device_class FROM page_load p
                WHERE p.covered_at IS NOT NULL
                  AND NOT EXISTS (
                    SELECT FROM device_class c WHERE c.device_class = p.device_class)
                  AND p.device_class NOT IN (SELECT device_class FROM strange)
                GROUP BY p.device_class LIMIT %(classes)s
            ), forgotten AS (
                UPDATE page_load p SET covered_at = NULL FROM others
                WHERE p.device_class = others.device_class
            ), uncovered AS (
                DELETE FROM coverage c USING others
                WHERE c.device_class = others.device_class AND c.state = 'missing'
            ), due AS (
                SELECT p.device_class FROM page_load p
                WHERE (p.covered_at IS NULL OR p.covered_at <= p.last_at)
                  AND (EXISTS (SELECT FROM device_class c WHERE c.device_class = p.device_class)
                       OR p.device_class IN (SELECT device_class FROM strange))
                GROUP BY p.device_class
                ORDER BY min(coalesce(p.covered_at, '-infinity')), p.device_class
                LIMIT %(classes)s
            ), loaded AS (
                UPDATE page_load p SET covered_at = clock_timestamp() FROM due
                WHERE p.device_class = due.device_class
                RETURNING p.name, p.device_class, p.target, p.loads
            ), member AS (
                SELECT named.name, asked.workload_key
                FROM (SELECT DISTINCT name FROM loaded) named
                CROSS JOIN LATERAL asked_workloads(named.name) asked
            )
            INSERT INTO coverage AS c (workload_key, device_class, loads)
            SELECT m.workload_key, l.device_class, sum(l.loads)::bigint
            FROM loaded l JOIN member m USING (name)
            WHERE EXISTS (SELECT FROM tuning_job j
                          WHERE j.workload_key = m.workload_key AND j.target = l.target)
            GROUP BY m.workload_key, l.device_class
            ON CONFLICT (workload_key, device_class) DO UPDATE SET loads = EXCLUDED.loads
            WHERE c.loads <> EXCLUDED.loads
        """,
        parameters={"classes": classes, "strange": MOST_STRANGE},
    )

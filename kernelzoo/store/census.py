"""Counts how much there is and how much waits, once a minute, for monitoring to read."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from kernelzoo.store.query import Query, Statement

Figures = Mapping[str, Mapping[str, float]]
"""Numbers by the value of a label, by the name of a metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CensusRow:
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """`oldest_s`: age of the oldest row; 0 without any."""

    queue: str
    rows: int
    oldest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRow:
    engine: str
    identities: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    state: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsRow:
    models: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedRow:
    """`share` of a model's operations, over classes by page loads; 0 where no page asked for it."""

    model: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRow:
    """`state`: missing, provisional or confirmed. `relative_loads`: page loads times the time of
    the kernel over the default one's. Both sums are 0 where there is no kernel.
    """

    state: str
    keys: int
    loads: int
    relative_loads: float
    saved_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRow:
    name: str
    bytes: float


def store(figures: Figures) -> Statement:
    return Statement(
        sql="""
            INSERT INTO census (figures) VALUES (%(figures)s::jsonb)
            ON CONFLICT (one) DO UPDATE SET figures = EXCLUDED.figures
        """,
        parameters={"figures": msgspec.json.encode(figures).decode()},
    )


def latest() -> Query[CensusRow]:
    """No row before the first census."""
    return Query(sql="SELECT figures FROM census", row=CensusRow)


def waiting() -> Query[QueueRow]:
    """Counts the rows that wait in each queue, and says since when. A candidate is as old as the
    first job that brought it."""
    return Query(
        sql="""
            SELECT queue, count(*) AS rows,
                   coalesce(extract(epoch FROM now() - min(since)), 0)::float8 AS oldest_s
            FROM (
                SELECT 'compile' AS queue, (
                    SELECT min(j.created_at) FROM space_point p JOIN tuning_job j ON j.id = p.job_id
                    WHERE p.candidate_id = candidate.candidate_id) AS since
                FROM candidate WHERE state = 'waiting' AND is_wanted(candidate_id)
                UNION ALL
                SELECT 'compile', created_at FROM tuning_job
                WHERE state = 'waiting' AND cancelled_at IS NULL
                UNION ALL
                SELECT 'aggregate', created_at FROM measurement WHERE verdict = 'pending'
                UNION ALL
                SELECT 'aggregate', filed_at FROM ballot WHERE NOT tallied
            ) AS rows GROUP BY queue
        """,
        row=QueueRow,
    )


def agents_online() -> Query[EngineRow]:
    """Identities that opened a session or were lent candidates within ten minutes."""
    return Query(
        sql="""
            SELECT s.engine_name AS engine, count(DISTINCT s.identity_id) AS identities
            FROM agent_session s
            JOIN (
                SELECT id FROM agent_session WHERE created_at > now() - interval '10 minutes'
                UNION
                SELECT session_id FROM lease WHERE created_at > now() - interval '10 minutes'
            ) recent ON recent.id = s.id
            GROUP BY s.engine_name
        """,
        row=EngineRow,
    )


def sizes() -> Query[SizeRow]:
    """Bytes of each table with its indexes and out-of-line storage; '' is the whole database."""
    return Query(
        sql="""
            SELECT relname::text AS name, pg_total_relation_size(oid)::float8 AS bytes
            FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
            UNION ALL
            SELECT '', pg_database_size(current_database())::float8
        """,
        row=SizeRow,
    )


def models() -> Query[ModelsRow]:
    return Query(sql="SELECT count(*) AS models FROM model", row=ModelsRow)


def confirmed(most: int) -> Query[ConfirmedRow]:
    """Says how far the kernels of those models are confirmed that pages ask for most."""
    return Query(
        sql="""
            WITH asked AS (
                SELECT m.name, coalesce(sum(l.loads), 0) AS loads
                FROM model m LEFT JOIN page_load l ON l.name = 'model:' || m.name
                GROUP BY m.name ORDER BY loads DESC, m.name LIMIT %(most)s
            )
            SELECT a.name AS model,
                   coalesce(sum(coalesce(c.confirmed_flops, 0) * c.loads)
                       / nullif(sum(c.loads), 0), 0)::float8 AS share
            FROM asked a LEFT JOIN model_coverage c ON c.model = a.name
            GROUP BY a.name
        """,
        parameters={"most": most},
        row=ConfirmedRow,
    )


def covered() -> Query[CoverageRow]:
    return Query(
        sql="""
            SELECT state, count(*) AS keys, sum(loads)::bigint AS loads,
                   coalesce(sum(loads * relative_time), 0)::float8 AS relative_loads,
                   coalesce(sum(loads * best_ns * (1 / nullif(relative_time, 0) - 1)) / 1e9,
                            0)::float8 AS saved_s
            FROM coverage GROUP BY state
        """,
        row=CoverageRow,
    )


def entries() -> Query[StateRow]:
    """Live entries, and an estimate of the retired ones, which are only ever more."""
    return Query(
        sql="""
            WITH live AS (
                SELECT state, count(*) AS rows FROM zoo_entry
                WHERE state <> 'retired' GROUP BY state
            )
            SELECT state, rows FROM live
            UNION ALL
            SELECT 'retired', greatest(0, reltuples::bigint - (SELECT sum(rows) FROM live))::bigint
            FROM pg_class WHERE oid = 'zoo_entry'::regclass
        """,
        row=StateRow,
    )

"""Keeps the order in which a device class measures the candidates of a job."""

from dataclasses import dataclass

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.kinship import STRANGER
from kernelzoo.store.candidates import Configured
from kernelzoo.store.query import Query, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class UnorderedRow:
    job_id: int
    device_class: DeviceClass


def unordered(limit: int) -> Query[UnorderedRow]:
    """Planned jobs of its space that a device class with an open session has no order for by the
    model that is served, the latest devices first. Without a model there are those that a source
    claims to know. With one there are also those of strangers who differ from such a class in
    nothing but the device id: what the chain serves devices that never opened a session.
    """
    return Query(
        sql="""
            WITH served AS (
                SELECT coalesce(max(version), 0) AS version FROM cost_model WHERE published
            ), opened AS (
                SELECT device_class, device_id, target, max(id) AS latest
                FROM agent_session WHERE created_at > now() - interval '1 hour'
                GROUP BY device_class, device_id, target
            ), known AS MATERIALIZED (
                SELECT *, space_of(target, device_id) AS space FROM opened
            ), measuring AS (
                SELECT device_class, target, space, latest FROM known
                UNION ALL
                SELECT %(stranger)s || substr(device_class, length(%(stranger)s) + 1), target,
                       space, max(latest)
                FROM known CROSS JOIN served WHERE served.version > 0 GROUP BY 1, 2, 3
            )
            SELECT j.id AS job_id, s.device_class
            FROM served CROSS JOIN measuring s
            JOIN tuning_job j
              ON j.state = 'planned' AND j.target = s.target AND j.space = s.space
            LEFT JOIN evaluation_order o ON o.job_id = j.id AND o.device_class = s.device_class
            WHERE o.model_version <> served.version OR o.job_id IS NULL AND (
                served.version > 0 OR EXISTS (
                    SELECT FROM outside_evidence e
                    JOIN space_point p ON p.candidate_id = e.candidate_id
                    WHERE p.job_id = j.id))
            ORDER BY s.latest DESC, j.id LIMIT %(limit)s
        """,
        parameters={"limit": limit, "stranger": STRANGER},
        row=UnorderedRow,
    )


def orderable(job_id: int) -> Query[Configured]:
    """The candidates of a job in the order of their promise."""
    return Query(
        sql="""
            SELECT c.workload_key, c.target, c.config, c.requires
            FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
            WHERE p.job_id = %(job_id)s ORDER BY p.ordinal
        """,
        parameters={"job_id": job_id},
        row=Configured,
    )


def put_order(
    job_id: int,
    device_class: DeviceClass,
    model_version: int,
    candidate_ids: list[str],
    costs: list[float] | None = None,
) -> Statement:
    """`model_version` 0: by the promise of the space and outside evidence alone. `costs`: log2 of
    the time of each, as the model foretells it.
    """
    return Statement(
        sql="""
            INSERT INTO evaluation_order (job_id, device_class, model_version, candidate_ids, costs)
            VALUES (%(job_id)s, %(class)s, %(version)s, %(candidates)s, %(costs)s)
            ON CONFLICT (job_id, device_class) DO UPDATE SET
                model_version = EXCLUDED.model_version,
                candidate_ids = EXCLUDED.candidate_ids, costs = EXCLUDED.costs,
                ordered_at = now()
        """,
        parameters={
            "job_id": job_id,
            "class": device_class,
            "version": model_version,
            "candidates": candidate_ids,
            "costs": costs,
        },
    )

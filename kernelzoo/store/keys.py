"""A key, a workload on a device class, as people look at it."""

from dataclasses import dataclass
from datetime import datetime

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.query import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKeyRow:
    """`total` counts what was found without the limit."""

    workload_key: WorkloadKey
    device_class: str
    cpu_architecture: str
    logical_cores: int
    gpu_vendor: str
    gpu_architecture: str
    engines: list[str]
    version: int
    state: str
    ballots: int
    relative_time: float
    published_at: datetime
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdRow:
    """The device of a class, and who stands behind it; `strangers` are not the operator's own."""

    flops: int
    cpu_architecture: str
    logical_cores: int
    gpu_vendor: str
    gpu_architecture: str
    engines: list[str]
    identities: int
    strangers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOfKeyRow:
    """`served_before`: of the version before it, none for the first."""

    version: int
    state: str
    reason: str
    served: bool
    served_before: bool | None
    candidate_id: str
    sha256: str
    ballots: int
    weight: int
    total_weight: int
    relative_time: float
    engines: list[dict[str, object]]
    rank: int | None
    spread: float | None
    published_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VotesRow:
    """Counts in how many ballots a candidate has each of the five ranks, the first rank first."""

    candidate_id: str
    by_rank: list[int]


def search(
    workload: str,
    device: str,
    limit: int,
    offset: int,
    *,
    state: str | None = None,
    target: str | None = None,
) -> Query[FoundKeyRow]:
    """Keys with a live entry whose workload contains `workload`, and whose device class or hardware
    contains `device`, the latest first; of one state or target only, where they are given.
    """
    return Query(
        sql="""
            WITH class AS MATERIALIZED (
                SELECT c.device_class, c.engines, d.cpu_architecture, d.logical_cores,
                       d.gpu_vendor, d.gpu_architecture
                FROM device_class c JOIN device d ON d.device_id = c.device_id
                WHERE %(device)s = '' OR strpos(
                    lower(concat_ws(' ', c.device_class, d.cpu_architecture, d.gpu_vendor,
                                    d.gpu_architecture, d.gpu_model)), lower(%(device)s)) > 0
            )
            SELECT e.workload_key, e.device_class, c.cpu_architecture, c.logical_cores,
                   c.gpu_vendor, c.gpu_architecture, c.engines, e.version, e.state, e.ballots,
                   e.relative_time, e.published_at, (
                SELECT count(*) FROM zoo_entry e
                WHERE e.state <> 'retired' AND (%(state)s::text IS NULL OR e.state = %(state)s)
                  AND (%(target)s::text IS NULL OR e.target = %(target)s)
                  AND (%(workload)s = '' OR strpos(e.workload_key, lower(%(workload)s)) > 0)
                  AND e.device_class IN (SELECT device_class FROM class)) AS total
            FROM (
                SELECT e.workload_key, e.device_class, e.version, e.state, e.ballots,
                       e.relative_time, e.published_at
                FROM zoo_entry e
                WHERE e.state <> 'retired' AND (%(state)s::text IS NULL OR e.state = %(state)s)
                  AND (%(target)s::text IS NULL OR e.target = %(target)s)
                  AND (%(workload)s = '' OR strpos(e.workload_key, lower(%(workload)s)) > 0)
                  AND e.device_class IN (SELECT device_class FROM class)
                ORDER BY e.published_at DESC, e.workload_key DESC, e.device_class DESC
                LIMIT %(limit)s OFFSET %(offset)s
            ) e
            JOIN class c ON c.device_class = e.device_class
            ORDER BY e.published_at DESC, e.workload_key DESC, e.device_class DESC
        """,
        parameters={
            "workload": workload,
            "device": device,
            "limit": limit,
            "offset": offset,
            "state": state,
            "target": target,
        },
        row=FoundKeyRow,
    )


def crowd(workload_key: WorkloadKey, device_class: DeviceClass) -> Query[CrowdRow]:
    """No row for an unknown workload, or for a class that never opened a session."""
    return Query(
        sql="""
            SELECT w.flops, d.cpu_architecture, d.logical_cores, d.gpu_vendor, d.gpu_architecture,
                   c.engines, c.crowd AS identities, c.strangers
            FROM workload w
            CROSS JOIN device_class c
            JOIN device d ON d.device_id = c.device_id
            WHERE w.key = %(key)s AND c.device_class = %(class)s
        """,
        parameters={"key": workload_key, "class": device_class},
        row=CrowdRow,
    )


def versions(
    workload_key: WorkloadKey, device_class: DeviceClass, limit: int
) -> Query[VersionOfKeyRow]:
    """The latest first."""
    return Query(
        sql="""
            SELECT e.version, e.state, e.reason, e.served,
                   lag(e.served) OVER (ORDER BY e.version) AS served_before,
                   e.candidate_id, c.artifact_sha256 AS sha256, e.ballots, e.weight,
                   e.total_weight, e.relative_time, e.engines, e.rank, e.spread, e.published_at
            FROM zoo_entry e JOIN candidate c ON c.candidate_id = e.candidate_id
            WHERE e.workload_key = %(key)s AND e.device_class = %(class)s
            ORDER BY e.version DESC LIMIT %(limit)s
        """,
        parameters={"key": workload_key, "class": device_class, "limit": limit},
        row=VersionOfKeyRow,
    )


def votes(workload_key: WorkloadKey, device_class: DeviceClass) -> Query[VotesRow]:
    """The lines of the latest ballot of each identity, as filed."""
    return Query(
        sql="""
            SELECT line.candidate_id,
                   ARRAY[count(*) FILTER (WHERE line.rank = 1),
                         count(*) FILTER (WHERE line.rank = 2),
                         count(*) FILTER (WHERE line.rank = 3),
                         count(*) FILTER (WHERE line.rank = 4),
                         count(*) FILTER (WHERE line.rank = 5)] AS by_rank
            FROM ballot b
            CROSS JOIN LATERAL unnest(b.candidate_ids) WITH ORDINALITY AS line (candidate_id, rank)
            WHERE b.workload_key = %(key)s AND b.device_class = %(class)s
            GROUP BY line.candidate_id
        """,
        parameters={"key": workload_key, "class": device_class},
        row=VotesRow,
    )

"""Tells what the zoo holds as a whole: totals, what was published last, and what is covered."""

from dataclasses import dataclass
from datetime import datetime

from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.query import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsRow:
    """`agents_recent`: identities that took a lease within the time asked for."""

    workloads: int
    device_classes: int
    devices: int
    agents_recent: int
    confirmed: int
    provisional: int
    jobs_unplanned: int
    candidates_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """A version of a key, with the one before it where there is one."""

    workload_key: WorkloadKey
    device_class: str
    version: int
    state: str
    reason: str
    served: bool
    candidate_id: str
    ballots: int
    relative_time: float
    published_at: datetime
    previous_candidate_id: str | None
    previous_served: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRow:
    device_class: str
    target: str
    cpu_architecture: str
    logical_cores: int
    gpu_vendor: str
    gpu_architecture: str
    engines: list[str]
    identities: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredWorkloadRow:
    """`targets`: those that it is tuned for."""

    workload_key: WorkloadKey
    targets: list[str]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRow:
    workload_key: WorkloadKey
    device_class: str
    state: str


def totals(recent_s: float) -> Query[TotalsRow]:
    return Query(
        sql="""
            SELECT (SELECT count(*) FROM workload) AS workloads,
                   (SELECT count(*) FROM device_class) AS device_classes,
                   (SELECT count(*) FROM device) AS devices,
                   (SELECT count(DISTINCT identity_id) FROM lease
                    WHERE created_at > now() - make_interval(secs => %(recent_s)s))
                       AS agents_recent,
                   (SELECT count(*) FROM zoo_entry WHERE state = 'confirmed') AS confirmed,
                   (SELECT count(*) FROM zoo_entry WHERE state = 'provisional') AS provisional,
                   (SELECT count(*) FROM tuning_job
                    WHERE state = 'waiting' AND cancelled_at IS NULL) AS jobs_unplanned,
                   (SELECT count(*) FROM candidate
                    WHERE state = 'waiting' AND is_wanted(candidate_id)) AS candidates_waiting
        """,
        parameters={"recent_s": recent_s},
        row=TotalsRow,
    )


def published(limit: int) -> Query[PublishedRow]:
    """Versions of all keys, the latest first, the live and the retired."""
    return Query(
        sql="""
            SELECT e.workload_key, e.device_class, e.version, e.state, e.reason, e.served,
                   e.candidate_id, e.ballots, e.relative_time, e.published_at,
                   before.candidate_id AS previous_candidate_id, before.served AS previous_served
            FROM (SELECT * FROM zoo_entry ORDER BY published_at DESC LIMIT %(limit)s) e
            LEFT JOIN zoo_entry before ON before.workload_key = e.workload_key
                AND before.device_class = e.device_class AND before.version = e.version - 1
            ORDER BY e.published_at DESC
        """,
        parameters={"limit": limit},
        row=PublishedRow,
    )


def classes(device: str, limit: int) -> Query[ClassRow]:
    """Classes that ran an agent and whose text or hardware contains `device`, those of most
    identities first. `total` counts them without the limit.
    """
    return Query(
        sql="""
            SELECT c.device_class, c.target, d.cpu_architecture, d.logical_cores, d.gpu_vendor,
                   d.gpu_architecture, c.engines, c.identities, count(*) OVER () AS total
            FROM device_class c JOIN device d ON d.device_id = c.device_id
            WHERE strpos(lower(concat_ws(' ', c.device_class, d.cpu_architecture, d.gpu_vendor,
                                         d.gpu_architecture, d.gpu_model)), lower(%(device)s)) > 0
            ORDER BY c.identities DESC, c.device_class LIMIT %(limit)s
        """,
        parameters={"device": device, "limit": limit},
        row=ClassRow,
    )


def covered_workloads(workload: str, limit: int) -> Query[CoveredWorkloadRow]:
    """Workloads whose key contains `workload`, those with most live entries first."""
    return Query(
        sql="""
            SELECT w.key AS workload_key, count(*) OVER () AS total,
                   ARRAY(SELECT DISTINCT j.target FROM tuning_job j WHERE j.workload_key = w.key)
                       AS targets
            FROM workload w
            WHERE strpos(w.key, lower(%(workload)s)) > 0
            ORDER BY (SELECT count(*) FROM zoo_entry e
                      WHERE e.workload_key = w.key AND e.state <> 'retired') DESC, w.key
            LIMIT %(limit)s
        """,
        parameters={"workload": workload, "limit": limit},
        row=CoveredWorkloadRow,
    )


def cells(workload_keys: list[str], device_classes: list[str]) -> Query[CellRow]:
    """Live entries of these workloads on these classes."""
    return Query(
        sql="""
            SELECT workload_key, device_class, state FROM zoo_entry
            WHERE state <> 'retired' AND workload_key = ANY (%(keys)s)
              AND device_class = ANY (%(classes)s)
        """,
        parameters={"keys": workload_keys, "classes": device_classes},
        row=CellRow,
    )

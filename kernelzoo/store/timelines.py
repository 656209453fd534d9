"""Tells how an inference became faster: the kernels that led on a class for a plan, one by one."""

from dataclasses import dataclass
from datetime import datetime

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.query import Query

MOST = 1000
"""Versions that are looked at: the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTimeRow:
    """A workload of a plan before any kernel won. `default_ns`: one call of the default kernel, as
    it was measured beside others; null where it was not.
    """

    workload_key: WorkloadKey
    calls: int
    flops: int
    default_ns: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionTimeRow:
    """A kernel that led on the class from `published_at` on; pages were given it where it was
    `served`. `relative_time` is over the default kernel's beside it, which load does not change as
    it changes times that were taken one after another.
    """

    workload_key: WorkloadKey
    candidate_id: str
    published_at: datetime
    served: bool
    relative_time: float


def first_times(plan_id: int, device_class: DeviceClass) -> Query[FirstTimeRow]:
    return Query(
        sql="""
            SELECT m.workload_key, m.calls, w.flops, c.reference_ns AS default_ns
            FROM model_workload m JOIN workload w ON w.key = m.workload_key
            LEFT JOIN coverage c ON c.workload_key = m.workload_key AND c.device_class = %(class)s
            WHERE m.plan_id = %(plan)s ORDER BY m.position
        """,
        parameters={"plan": plan_id, "class": device_class},
        row=FirstTimeRow,
    )


def versions(plan_id: int, device_class: DeviceClass) -> Query[VersionTimeRow]:
    """The earliest first."""
    return Query(
        sql="""
            SELECT * FROM (
                SELECT e.workload_key, e.candidate_id, e.published_at, e.served, e.relative_time
                FROM model_workload m
                JOIN zoo_entry e ON e.workload_key = m.workload_key
                 AND e.device_class = %(class)s
                WHERE m.plan_id = %(plan)s
                ORDER BY e.published_at DESC, e.workload_key LIMIT %(most)s
            ) latest
            ORDER BY published_at, workload_key
        """,
        parameters={"plan": plan_id, "class": device_class, "most": MOST},
        row=VersionTimeRow,
    )

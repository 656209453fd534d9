"""Notifications by which processes tell one another that rows changed. Sent with the commit."""

from dataclasses import dataclass
from typing import Self

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.store.query import Statement

CANDIDATES = "kernelzoo_candidates"
LEASES = "kernelzoo_leases"
"""Sent by `accept_report` of the schema as well."""
ZOO = "kernelzoo_zoo"
BALLOTS = "kernelzoo_ballots"
DENIED = "kernelzoo_denied"
"""Sent by `tell_denied` of the schema for what is denied: an artifact's hash and a class, with a
line break between them."""
CHANNELS = (CANDIDATES, LEASES, ZOO, BALLOTS, DENIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Rows of one workload and class changed; of all classes where `device_class` is '', and
    anything where both are.

    A notification's payload is the two in this order, with a line break between them.
    """

    workload_key: WorkloadKey
    device_class: str

    @classmethod
    def told(cls, payload: str) -> Self:
        workload_key, _, device_class = payload.partition("\n")
        return cls(workload_key=WorkloadKey(workload_key), device_class=device_class)


def candidates_compiled(workload_key: str) -> Statement:
    """Wakes agents that wait for a lease, and makes gateways forget what a workload without a vote
    was served.
    """
    return Statement(
        sql="SELECT pg_notify('kernelzoo_candidates', %(key)s)", parameters={"key": workload_key}
    )


def lease_judged(lease_id: int) -> Statement:
    """Wakes agents that wait for a lease where all of their class and job have answered: what
    strangers report counts from its verdict on.
    """
    return Statement(
        sql="""
            SELECT pg_notify('kernelzoo_leases', '') FROM lease l
            WHERE l.id = %(lease_id)s AND NOT EXISTS (
                SELECT FROM lease o
                WHERE o.device_class = l.device_class AND o.job_id = l.job_id
                  AND NOT o.answered AND o.expires_at > now())
        """,
        parameters={"lease_id": lease_id},
    )


def ballot_filed(identity: str) -> Statement:
    """Tells gateways that what they remember of this identity's ballots is outdated."""
    return Statement(
        sql="SELECT pg_notify('kernelzoo_ballots', %(identity)s)",
        parameters={"identity": identity},
    )


def zoo_changed() -> Statement:
    """Makes gateways forget all manifests they hold."""
    return Statement(sql="NOTIFY kernelzoo_zoo")


def entry_changed(workload_key: str, device_class: DeviceClass) -> Statement:
    """Makes gateways forget the manifests of this class with this workload, and those of classes
    that have not voted on it.
    """
    return Statement(
        sql="SELECT pg_notify('kernelzoo_zoo', %(key)s || chr(10) || %(class)s)",
        parameters={"key": workload_key, "class": device_class},
    )


def offers_changed(workload_key: str) -> Statement:
    """Makes gateways forget the manifests of classes that have not voted on this workload."""
    return Statement(
        sql="SELECT pg_notify('kernelzoo_zoo', %(key)s)", parameters={"key": workload_key}
    )


def order_changed(job_id: int) -> Statement:
    """Notifies as `offers_changed` does, of a job's workload."""
    return Statement(
        sql="SELECT pg_notify('kernelzoo_zoo', workload_key) FROM tuning_job WHERE id = %(id)s",
        parameters={"id": job_id},
    )

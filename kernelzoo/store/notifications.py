"""Notifications by which processes tell one another that rows changed. Sent with the commit."""

from kernelzoo.store.query import Statement

CANDIDATES = "kernelzoo_candidates"
LEASES = "kernelzoo_leases"
"""Sent by `accept_report` of the schema as well."""
ZOO = "kernelzoo_zoo"


def candidates_compiled() -> Statement:
    """Wakes agents that wait for a lease."""
    return Statement(sql="NOTIFY kernelzoo_candidates")


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


def zoo_changed() -> Statement:
    """Makes gateways forget the manifests they hold."""
    return Statement(sql="NOTIFY kernelzoo_zoo")

"""Notifications by which processes tell one another that rows changed. Sent with the commit."""

from kernelzoo.store.query import Statement

CANDIDATES = "kernelzoo_candidates"
LEASES = "kernelzoo_leases"
"""Sent by `accept_report` of the schema."""
ZOO = "kernelzoo_zoo"


def candidates_compiled() -> Statement:
    """Wakes agents that wait for a lease."""
    return Statement(sql="NOTIFY kernelzoo_candidates")


def zoo_changed() -> Statement:
    """Makes gateways forget the manifests they hold."""
    return Statement(sql="NOTIFY kernelzoo_zoo")

"""Devices that were lost at a workload: after two of them their class skips it."""

from kernelzoo.store.query import Statement


def note(workload_key: str, device_class: str, why: str) -> Statement:
    """Nothing is stored of a workload that nobody registered."""
    return Statement(
        sql="""
            INSERT INTO lost_device (device_class, workload_key, why)
            SELECT %(class)s, w.key, %(why)s FROM workload w WHERE w.key = %(key)s
        """,
        parameters={"class": device_class, "key": workload_key, "why": why},
    )


def forget(workload_key: str, device_class: str) -> Statement:
    """The operator has mended what was wrong."""
    return Statement(
        sql="DELETE FROM lost_device WHERE workload_key = %(key)s AND device_class = %(class)s",
        parameters={"class": device_class, "key": workload_key},
    )

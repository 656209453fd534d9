"""Tallies of keys: of each one at most is at work and one waits, whoever asks for it."""

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store.ballots import KeyRow
from kernelzoo.store.query import Query, Statement


def ask(workload_key: str, device_class: DeviceClass) -> Query[KeyRow]:
    """The key, where no tally of it waits yet: send its message. Run it after what is to be counted
    is committed, or a tally that waits now may read too early.
    """
    return Query(
        sql="""
            INSERT INTO waiting_tally (workload_key, device_class)
            VALUES (%(key)s, %(class)s) ON CONFLICT DO NOTHING
            RETURNING workload_key, device_class
        """,
        parameters={"key": workload_key, "class": device_class},
        row=KeyRow,
    )


def take_turn(workload_key: str, device_class: DeviceClass) -> Statement:
    """Waits until no other tally of the key is at work; `leave_turn` lets the next one begin."""
    return Statement(
        sql="SELECT pg_advisory_lock(hashtextextended(%(key)s || ' ' || %(class)s, 0))",
        parameters={"key": workload_key, "class": device_class},
    )


def leave_turn(workload_key: str, device_class: DeviceClass) -> Statement:
    return Statement(
        sql="SELECT pg_advisory_unlock(hashtextextended(%(key)s || ' ' || %(class)s, 0))",
        parameters={"key": workload_key, "class": device_class},
    )


def begun(workload_key: str, device_class: DeviceClass) -> Statement:
    """Leaves to the next tally all who ask from now on. Commit it before reading a ballot."""
    return Statement(
        sql="""
            DELETE FROM waiting_tally
            WHERE workload_key = %(key)s AND device_class = %(class)s
        """,
        parameters={"key": workload_key, "class": device_class},
    )


def requeue_waiting(stalled_s: float) -> Query[KeyRow]:
    """Keys whose message may be lost, as they wait so long; marks them as requeued."""
    return Query(
        sql="""
            UPDATE waiting_tally SET requeued_at = now()
            WHERE requeued_at < now() - make_interval(secs => %(stalled_s)s)
            RETURNING workload_key, device_class
        """,
        parameters={"stalled_s": stalled_s},
        row=KeyRow,
    )

"""Background jobs by name. PostgreSQL holds the work; a message only rings the bell.

Send after the transaction that wrote the row has committed. A message that cannot be sent is
logged and dropped: the periodic task `requeue` finds the waiting row and sends it again.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Protocol

import structlog
from celery import Celery
from kombu.exceptions import OperationalError

from kernelzoo.domain.device import DeviceClass
from kernelzoo.metrics import JOBS_LOST, JOBS_SENT

log = structlog.get_logger(__name__)

COMPILE_QUEUE = "compile"
AGGREGATE_QUEUE = "aggregate"

# The longest task (a batch of 64 candidates at the paper's 500 ms each would be 32 s) must end
# well before the broker hands its message to another worker.
TASK_LIMIT_S = 60
VISIBILITY_TIMEOUT_S = 180
# Training takes seconds of a core; beside thirteen busy processes on two cores it took 44 s.
TRAINING_LIMIT_S = 150

FIRST_CANDIDATES = 1
"""The first place of candidates that no page waits for. What a page cannot run without, which are
the plans of spaces and the defaults in them, stands before all of them, at 0."""
TALLIES = 1
"""The place of tallies in their queue, behind all that is judged."""
LAST = 9
"""The last place in a queue."""
DEFAULTS_AT_ONCE = 4
"""Defaults in a message: of so few that several workers share those of one model."""

SENT_S = "sent_s"
"""Header of a message: when it was sent, in seconds of the sender's clock since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`arguments` are ids of rows, never the rows. Of a queue's messages those of the lowest
    `place` are taken first, in the order in which they were sent.
    """

    name: str
    queue: str
    arguments: tuple[int | str | list[str] | list[int], ...]
    place: int = 0


def plan_space(job_id: int) -> Message:
    """Enumerate the lite space of a tuning job into candidate rows."""
    return Message(name="plan_space", queue=COMPILE_QUEUE, arguments=(job_id,))


def compile_batch(candidate_ids: tuple[str, ...], place: int = 0) -> Message:
    """Compile these candidates and store their artifacts."""
    return Message(
        name="compile_batch", queue=COMPILE_QUEUE, arguments=(list(candidate_ids),), place=place
    )


def compile_defaults(candidate_ids: Sequence[str]) -> tuple[Message, ...]:
    """`compile_batch` for kernels without which no page runs their workloads."""
    return tuple(
        compile_batch(tuple(candidate_ids[start : start + DEFAULTS_AT_ONCE]))
        for start in range(0, len(candidate_ids), DEFAULTS_AT_ONCE)
    )


def compile_batches(
    candidate_ids: Sequence[str], size: int, *, share: float = 1.0
) -> tuple[Message, ...]:
    """`compile_batch` for candidates beside the defaults, in their order, `size` at a time.

    `share`: of an inference, that their workload takes. What may be won by a batch is taken to be
    half of what the one before it wins, so that the first of a workload with half the share comes
    together with the second of this one.
    """
    first = FIRST_CANDIDATES + round(-log2(share)) if share > 0 else LAST
    return tuple(
        compile_batch(tuple(candidate_ids[start : start + size]), min(first + number, LAST))
        for number, start in enumerate(range(0, len(candidate_ids), size))
    )


def verify_leases(lease_ids: Sequence[int]) -> Message:
    """Recompute the sampled entries of these leases' measurements, then tally their keys."""
    return Message(name="verify_leases", queue=AGGREGATE_QUEUE, arguments=(list(lease_ids),))


def tally(workload_key: str, device_class: DeviceClass) -> Message:
    """Count the ballots of a key and publish the winner. Judging what was reported comes first: it
    takes milliseconds, and whoever reported waits for it.
    """
    return Message(
        name="tally",
        queue=AGGREGATE_QUEUE,
        arguments=(workload_key, str(device_class)),
        place=TALLIES,
    )


def aggregate_by_family() -> Message:
    """Bring what the classes of a workload have in common up to date."""
    return Message(name="aggregate_by_family", queue=AGGREGATE_QUEUE, arguments=())


def requeue() -> Message:
    """Send again the jobs of rows that have waited too long."""
    return Message(name="requeue", queue=AGGREGATE_QUEUE, arguments=())


def train_model(*, at_once: bool = False) -> Message:
    """Train the cost model if the crowd has measured enough since the last time, or in any case."""
    return Message(
        name="train_model",
        queue=COMPILE_QUEUE,
        arguments=(int(at_once),),
        place=FIRST_CANDIDATES,
    )


def order_spaces() -> Message:
    """Say in which order devices at work measure their spaces."""
    return Message(name="order_spaces", queue=COMPILE_QUEUE, arguments=(), place=FIRST_CANDIDATES)


def take_census() -> Message:
    """Count what monitoring asks for."""
    return Message(name="take_census", queue=AGGREGATE_QUEUE, arguments=())


def remove_old(again: int = 0) -> Message:
    """Remove a batch of what is older than it is kept for; then the next. `again`: batches of what
    was kept before that this run has looked at.
    """
    return Message(name="remove_old", queue=AGGREGATE_QUEUE, arguments=(again,))


class Sender(Protocol):
    """A sender enqueues a job. It never raises for a broker that is away."""

    def __call__(self, job: Message) -> None: ...


def broker(redis_url: str) -> Celery:
    """The Celery application that senders and workers configure alike.

    `visibility_timeout` is read in three places and the shortest on a broker wins, so all are set.
    """
    app = Celery("kernelzoo", broker=redis_url)
    app.conf.update(
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "priority_steps": list(range(LAST + 1)),
            "queue_order_strategy": "priority",
            "socket_timeout": 5,
            "socket_connect_timeout": 2,
            # Give up after one quick retry: a lost message costs less than a blocked sender.
            "max_retries": 1,
            "interval_start": 0.1,
            "interval_max": 0.1,
        },
        visibility_timeout=VISIBILITY_TIMEOUT_S,
        result_backend_transport_options={"visibility_timeout": VISIBILITY_TIMEOUT_S},
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_time_limit=TASK_LIMIT_S,
        worker_disable_prefetch=True,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
    )
    return app


def celery_sender(app: Celery) -> Sender:
    """A sender that publishes to the broker, and logs when the broker is away."""

    def send(job: Message) -> None:
        try:
            app.send_task(
                job.name,
                args=job.arguments,
                queue=job.queue,
                priority=job.place,
                retry=False,
                headers={SENT_S: time.time()},
            )
            JOBS_SENT.labels(job.name).inc()
        except OperationalError as error:
            JOBS_LOST.labels(job.name).inc()
            log.warning("broker away, job left to be requeued", job=job.name, error=str(error))

    return send

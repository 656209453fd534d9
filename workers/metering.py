"""Times tasks where they run, and serves a worker's metrics from its main process."""

import time
from contextlib import ExitStack
from typing import Any

from celery import Celery
from celery.signals import (
    task_failure,
    task_postrun,
    task_prerun,
    worker_ready,
    worker_shutdown,
)

from kernelzoo import jobs, metrics
from kernelzoo.exporter import exporting
from kernelzoo.metrics import JOBS, QUEUE_WAIT, TASK_DURATION, TASK_FAILURES
from kernelzoo.settings import WorkerSettings

_OF_QUEUE = {jobs.COMPILE_QUEUE: metrics.COMPILE, jobs.AGGREGATE_QUEUE: metrics.AGGREGATE}
_START_S = "kernelzoo_start_s"


def install(celery: Celery, settings: WorkerSettings) -> None:
    """Celery calls the first two in the pool's processes, `failed` as well, the others in the main
    process: it has forked its pool by then, and outlives those processes.
    """
    open_until_shutdown = ExitStack()

    def ready(**_: object) -> None:
        for queue in celery.amqp.queues.consume_from:
            metrics.begin_at_zero(_OF_QUEUE[queue])
        open_until_shutdown.enter_context(exporting(settings))

    task_prerun.connect(_started, weak=False)
    task_postrun.connect(_ended, weak=False)
    task_failure.connect(_failed, weak=False)
    worker_ready.connect(ready, weak=False)
    worker_shutdown.connect(lambda **_: open_until_shutdown.close(), weak=False)


def _started(task: Any, **_: object) -> None:
    """Clocks of two hosts may differ, so a message can arrive before it was sent."""
    task.request.update({_START_S: time.perf_counter()})
    sent_s = task.request.get(jobs.SENT_S)
    if sent_s is not None and task.name in JOBS:
        QUEUE_WAIT.labels(task.name).observe(max(0.0, time.time() - sent_s))


def _ended(task: Any, **_: object) -> None:
    start_s = task.request.get(_START_S)
    if start_s is not None and task.name in JOBS:
        TASK_DURATION.labels(task.name).observe(time.perf_counter() - start_s)


def _failed(sender: Any, **_: object) -> None:
    if sender.name in JOBS:
        TASK_FAILURES.labels(sender.name).inc()

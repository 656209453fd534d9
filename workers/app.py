"""The Celery application: `celery -A workers.app worker -Q compile`."""

import gc
from typing import Any

from celery import Celery
from celery.signals import celeryd_after_setup, setup_logging, worker_process_init

from kernelzoo import jobs
from kernelzoo.settings import WorkerSettings
from kernelzoo.telemetry import configure_logging
from workers import heartbeat, metering
from workers.tasks import register

EVERY_S = (
    (jobs.requeue(), 2.0),
    (jobs.order_spaces(), 15.0),
    (jobs.aggregate_by_family(), 15.0),
    (jobs.take_census(), 60.0),
    (jobs.train_model(), 300.0),
    (jobs.remove_old(), 3600.0),
)
"""The periodic jobs. One that nobody took before its next is worth nothing, and expires."""


def create() -> Celery:
    settings = WorkerSettings()
    celery = jobs.broker(settings.redis_url)
    register(celery, settings)
    heartbeat.install(celery, settings.alive_file)
    metering.install(celery, settings)
    celery.conf.beat_schedule = {
        job.name: {
            "task": job.name,
            "args": job.arguments,
            "schedule": every_s,
            "options": {"queue": job.queue, "expires": every_s},
        }
        for job, every_s in EVERY_S
    }
    setup_logging.connect(lambda **_: configure_logging(as_json=settings.log_json), weak=False)
    return celery


app = create()


@celeryd_after_setup.connect  # type: ignore[untyped-decorator]
def _load_compiler(instance: Any, **_: object) -> None:
    """Imports TVM (about a second) before the pool forks, once for all children."""
    if jobs.COMPILE_QUEUE in instance.app.amqp.queues.consume_from:
        import services.tuner.compile  # noqa: F401, PLC0415 - only compile workers pay for it


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _warm_compiler(**_: object) -> None:
    """The first candidate of a process takes ten times the next one; it should not be a user's."""
    if jobs.COMPILE_QUEUE in app.amqp.queues.consume_from:
        from workers.compiling import warm_up  # noqa: PLC0415 - imports TVM

        warm_up()
        # What is loaded by now stays. Looking through it again and again took 8 % of the time of
        # compiling, and 50 ms at once from some candidate (Python 3.11, TVM 0.27).
        gc.collect()
        gc.freeze()

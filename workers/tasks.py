"""Celery tasks: load, call, store, then send what follows. Arguments are ids; all may repeat."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

from celery import Celery
from psycopg import Connection, OperationalError
from psycopg_pool import ConnectionPool

from kernelzoo import jobs
from kernelzoo.domain.device import DeviceClass
from kernelzoo.settings import WorkerSettings
from kernelzoo.store import periodic_tasks
from kernelzoo.store.blocking import execute, limit_statements

# A restarted PostgreSQL is back within seconds; past these tries `requeue` finds the row.
RETRY = {
    "autoretry_for": (OperationalError,),
    "retry_backoff": 1,
    "retry_backoff_max": 8,
    "max_retries": 5,
}

STATEMENT_S = jobs.TASK_LIMIT_S - 5.0
"""A task that is killed leaves its statement to PostgreSQL, which would go on with it."""


@cache
def _pool(database_url: str) -> ConnectionPool[Connection[Any]]:
    """One small pool for each process, opened after the fork by the first task that asks."""
    return ConnectionPool(
        database_url,
        min_size=1,
        max_size=2,
        kwargs={"autocommit": True},
        configure=lambda connection: limit_statements(connection, STATEMENT_S),
        check=ConnectionPool.check_connection,
        open=True,
    )


def register(celery: Celery, settings: WorkerSettings) -> None:
    """Binds every task of `kernelzoo.jobs` to its flow."""
    send = jobs.celery_sender(celery)

    @contextmanager
    def database() -> Iterator[Connection[Any]]:
        with _pool(settings.database_url).connection(timeout=10) as connection:
            yield connection

    def task(function: Callable[..., None], limit_s: int = jobs.TASK_LIMIT_S) -> None:
        celery.task(name=function.__name__, time_limit=limit_s, **RETRY)(function)

    _register_periodic(task, database, send, settings)

    @task
    def plan_space(job_id: int) -> None:
        from workers import compiling  # noqa: PLC0415 - imports TVM

        with database() as db:
            batches = compiling.plan_space(db, job_id, settings.compile_batch)
        for job in (*batches, jobs.order_spaces()):
            send(job)

    @task
    def compile_batch(candidate_ids: list[str]) -> None:
        from workers import compiling  # noqa: PLC0415 - imports TVM

        with database() as db:
            defaults = compiling.compile_batch(db, candidate_ids)
        for job in defaults:
            send(job)

    @task
    def verify_leases(lease_ids: list[int]) -> None:
        from workers import aggregating  # noqa: PLC0415 - imports NumPy

        # A key that several of them measured is tallied once, after the last.
        tallies: dict[jobs.Message, None] = {}
        with database() as db:
            try:
                for job in aggregating.verify_leases(db, lease_ids, settings.defences):
                    tallies[job] = None
            finally:
                for job in aggregating.newly_asked(db, tallies):
                    send(job)

    @task
    def tally(workload_key: str, device_class: str) -> None:
        from workers import aggregating  # noqa: PLC0415 - imports NumPy

        with database() as db:
            aggregating.tally(
                db, workload_key, DeviceClass.stored(device_class), aggregating.rule_of(settings)
            )


def _register_periodic(
    task: Callable[..., None],
    database: Callable[[], AbstractContextManager[Connection[Any]]],
    send: jobs.Sender,
    settings: WorkerSettings,
) -> None:
    """Registers what the clock calls. A task that fails or is killed does not come to `ended`."""

    def ended(db: Connection[Any], name: str) -> None:
        execute(db, periodic_tasks.ended(name))

    @task
    def aggregate_by_family() -> None:
        from workers import aggregating, families  # noqa: PLC0415 - like the others

        with database() as db:
            families.aggregate_by_family(db, aggregating.rule_of(settings))
            ended(db, "aggregate_by_family")

    @task
    def requeue() -> None:
        from workers import maintenance  # noqa: PLC0415 - like the others

        with database() as db:
            stalled = maintenance.stalled(db, settings.stalled_s, settings.compile_batch)
            ended(db, "requeue")
        for job in stalled:
            send(job)

    def train_model(at_once: int) -> None:
        from workers import learning  # noqa: PLC0415 - like the others

        with database() as db:
            learning.train(db, at_once=bool(at_once))
            ended(db, "train_model")

    task(train_model, jobs.TRAINING_LIMIT_S)

    @task
    def order_spaces() -> None:
        from workers import learning  # noqa: PLC0415 - like the others

        with database() as db:
            learning.order_spaces(db)
            ended(db, "order_spaces")

    @task
    def take_census() -> None:
        from workers import counting  # noqa: PLC0415 - like the others

        with database() as db:
            counting.take_census(db)
            ended(db, "take_census")

    @task
    def remove_old(again: int) -> None:
        from workers import maintenance  # noqa: PLC0415 - like the others

        days, quorum = settings.retention_days, settings.quorum
        with database() as db:
            following = maintenance.remove_old(db, again, days=days, quorum=quorum)
            if following is None:
                ended(db, "remove_old")
        if following is not None:
            send(jobs.remove_old(following))

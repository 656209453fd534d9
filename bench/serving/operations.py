"""Times what nobody asks for by hand: scrapes, the panels of the dashboards, and the tasks of
workers."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from prometheus_client import generate_latest
from psycopg import OperationalError
from psycopg.conninfo import make_conninfo

from bench.serving.filled_zoo import FilledZoo
from bench.serving.growth_parts import NotAnswered, Part
from dashboards.generate import ALL
from dashboards.model import SqlQuery
from kernelzoo.domain.device import DeviceClass
from kernelzoo.exporter import registry
from kernelzoo.metrics import ROWS_REMOVED
from kernelzoo.store import cost_models
from kernelzoo.store.blocking import Database, connected, fetch_one
from kernelzoo.store.roles import READER, make_reader
from services.aggregator.publishing import Rule
from services.gateway.census import Census
from workers import aggregating, counting, families, learning, maintenance, modelling

SHOWN = "6 hours"
"""The time that a dashboard shows when it is opened."""
SCRAPE_MS, PANEL_MS, TALLY_MS, TRAINING_MS = 500.0, 1_000.0, 150.0, 60_000.0
TASK_MS = 10_000.0
"""A task of the clock; the census comes once a minute, and the others take less."""
KEPT_DAYS = 10
"""Less than the smallest zoo is old, so that there is something to remove."""
RULE = Rule(quorum=5, malicious_share=0.2)


@contextmanager
def operations(zoo: FilledZoo) -> Iterator[Sequence[Part]]:
    with connected(zoo.owner_url) as owner:
        make_reader(owner)
    reader = make_conninfo(zoo.owner_url, user=READER)
    with connected(reader) as reading, connected(zoo.url) as db:
        counting.take_census(db)
        yield (_scrape(zoo), *_panels(reading), *_tasks(db, zoo))


def _scrape(zoo: FilledZoo) -> Part:
    exported = registry(Census(zoo.url))
    return Part(
        what="GET /metrics",
        kind="scrape",
        bound_ms=SCRAPE_MS,
        ask=lambda _: len(generate_latest(exported)),
    )


def _panels(db: Database) -> Iterator[Part]:
    """Asks what Grafana asks, with the limit of its role."""

    def ask(query: str, _: int) -> float:
        sql = re.sub(
            r"\$__timeFilter\(([\w.]+)\)",
            rf"\1 BETWEEN now() - interval '{SHOWN}' AND now()",
            query,
        )
        try:
            return len(db.execute(sql.encode()).fetchall())
        except OperationalError as error:
            raise NotAnswered(str(error)) from error

    for dashboard in ALL:
        for panel in dashboard.panels:
            for asked in panel.ask:
                if isinstance(asked, SqlQuery):
                    yield Part(
                        what=f"{dashboard.title}: {panel.title}",
                        kind="panel",
                        bound_ms=PANEL_MS,
                        ask=partial(ask, asked.query),
                        pages=partial(_pages, db),
                    )


def _tasks(db: Database, zoo: FilledZoo) -> Iterator[Part]:
    """Each as the clock or a report asks for it, alone."""

    def key(number: int) -> tuple[str, DeviceClass]:
        found = zoo.keys[number % len(zoo.keys)]
        return found.workload, DeviceClass.parse(found.device_class)

    def aggregate(number: int) -> None:
        db.execute(
            "UPDATE zoo_entry SET aggregated = false WHERE workload_key = %s AND device_class = %s"
            " AND state <> 'retired'",
            tuple(map(str, key(number))),
        )
        families.aggregate_by_family(db, RULE)

    def train(_: int) -> None:
        growth = fetch_one(db, cost_models.growth())
        assert growth is not None
        modelling.train(db, growth.measurements)

    tasks: tuple[tuple[str, float, Callable[[int], object]], ...] = (
        ("tally", TALLY_MS, lambda n: aggregating.tally(db, *key(n), RULE)),
        ("take_census", TASK_MS, lambda _: counting.take_census(db)),
        ("requeue", TASK_MS, lambda _: maintenance.stalled(db, 5, 16)),
        ("order_spaces", TASK_MS, lambda _: learning.order_spaces(db)),
        ("aggregate_by_family, one workload", TASK_MS, aggregate),
        ("train_model, nothing new", TASK_MS, lambda _: fetch_one(db, cost_models.growth())),
        ("train_model", TRAINING_MS, train),
        (
            "remove_old, a batch",
            TASK_MS,
            lambda _: maintenance.remove_old(db, 0, days=KEPT_DAYS, quorum=RULE.quorum),
        ),
    )
    for what, bound_ms, run in tasks:
        yield Part(
            what=what,
            kind="task",
            bound_ms=bound_ms,
            ask=partial(_run, run),
            pages=partial(_pages, db),
        )


def _run(task: Callable[[int], object], number: int) -> float:
    """Returns what the task did: rows removed, where it is one that removes."""
    before = _removed()
    task(number)
    return _removed() - before


def _pages(db: Database) -> float:
    """Counts what this connection has read, its triggers and foreign keys too."""
    db.execute("SELECT pg_stat_force_next_flush()")
    row = db.execute(
        "SELECT coalesce(sum(hits + reads), 0) FROM pg_stat_get_backend_io(pg_backend_pid())"
        " WHERE object = 'relation'"
    ).fetchone()
    assert row is not None, "an aggregate is one row"
    return float(row[0])


def _removed() -> float:
    return sum(
        sample.value
        for family in ROWS_REMOVED.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    )

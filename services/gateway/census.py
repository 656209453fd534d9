"""Exports what PostgreSQL says of the whole service, read when the gateway is scraped.

A task counts it once a minute, so that a scrape costs the same however much there is. A connection
of its own: a scrape must see how the service fares when the pool is exhausted.
"""

from collections.abc import Iterable, Mapping

import structlog
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from psycopg import OperationalError

from kernelzoo import metrics
from kernelzoo.metrics import LABEL_VALUES, DatabaseGauge
from kernelzoo.store import census, periodic_tasks
from kernelzoo.store.blocking import connected, fetch_all, fetch_one

log = structlog.get_logger(__name__)

LIMIT_S = 5.0
"""For each statement: Prometheus gives a scrape up after ten seconds."""


class Census(Collector):
    def __init__(self, database_url: str) -> None:
        self._database_url = database_url

    def describe(self) -> Iterable[Metric]:
        """Named without asking, so that a gateway starts while its database is away."""
        return [_gauge(asked) for asked in metrics.ASKED]

    def collect(self) -> Iterable[Metric]:
        try:
            yield from self._ask()
        except OperationalError as error:
            log.warning("no census", error=str(error))
            yield _family(metrics.DATABASE_UP, {"": 0})

    def _ask(self) -> list[Metric]:
        """Nothing that is counted before the first census."""
        with connected(self._database_url, LIMIT_S) as db:
            taken = fetch_one(db, census.latest())
            ages = {row.task: row.age_s for row in fetch_all(db, periodic_tasks.ages())}
        figures = {} if taken is None else taken.figures
        return [
            *(
                _family(each, figures[each.name])
                for each in metrics.COUNTED
                if each.name in figures
            ),
            _family(metrics.PERIODIC_TASK_AGE, ages),
            _family(metrics.DATABASE_UP, {"": 1}),
        ]


def _gauge(asked: DatabaseGauge) -> GaugeMetricFamily:
    return GaugeMetricFamily(asked.name, asked.help, labels=[asked.label] if asked.label else [])


def _family(asked: DatabaseGauge, found: Mapping[str, float]) -> Metric:
    """Every value of the label, 0 for those of which there are none; of models, those found."""
    family = _gauge(asked)
    if not asked.label:
        family.add_metric([], found[""])
        return family
    for value in LABEL_VALUES.get(asked.label, tuple(found)):
        family.add_metric([value], found.get(value, 0))
    return family

"""What PostgreSQL says of the whole service, asked when the gateway is scraped.

A connection of its own: a scrape must see how the service fares when the pool is exhausted.
"""

from collections.abc import Iterable

import structlog
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from psycopg import OperationalError

from kernelzoo import metrics
from kernelzoo.metrics import LABEL_VALUES, DatabaseGauge, engine_label
from kernelzoo.store import census
from kernelzoo.store.blocking import connected, fetch_all, fetch_one

log = structlog.get_logger(__name__)


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
            yield _one(metrics.DATABASE_UP, 0)

    def _ask(self) -> list[Metric]:
        with connected(self._database_url) as db:
            waiting = fetch_all(db, census.waiting())
            agents = fetch_all(db, census.agents_online())
            entries = fetch_all(db, census.entries())
            models = fetch_one(db, census.models())
            confirmed = fetch_all(db, census.confirmed(metrics.MOST_MODELS))
            sizes = {row.name: row.bytes for row in fetch_all(db, census.sizes())}
        assert models is not None, "an aggregate is one row"
        online: dict[str, float] = {}
        for row in agents:
            engine = engine_label(row.engine)
            online[engine] = online.get(engine, 0) + row.identities
        return [
            _family(metrics.QUEUE_DEPTH, {row.queue: row.rows for row in waiting}),
            _family(metrics.QUEUE_OLDEST_AGE, {row.queue: row.oldest_s for row in waiting}),
            _family(metrics.AGENTS_ONLINE, online),
            _family(metrics.ZOO_ENTRIES, {row.state: row.rows for row in entries}),
            _one(metrics.MODELS, models.models),
            _family(metrics.MODEL_CONFIRMED, {row.model: row.share for row in confirmed}),
            _one(metrics.DATABASE_SIZE, sizes[""]),
            _family(metrics.TABLE_SIZE, sizes),
            _one(metrics.DATABASE_UP, 1),
        ]


def _gauge(asked: DatabaseGauge) -> GaugeMetricFamily:
    return GaugeMetricFamily(asked.name, asked.help, labels=[asked.label] if asked.label else [])


def _family(asked: DatabaseGauge, found: dict[str, float] | dict[str, int]) -> Metric:
    """Every value of the label, 0 for those of which there are none; of models, those found."""
    family = _gauge(asked)
    for value in LABEL_VALUES.get(asked.label, tuple(found)):
        family.add_metric([value], found.get(value, 0))
    return family


def _one(asked: DatabaseGauge, value: float) -> Metric:
    family = _gauge(asked)
    family.add_metric([], value)
    return family

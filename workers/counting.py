"""The census: what the service holds and what waits, counted for all gateways together."""

import time
from collections import defaultdict

from kernelzoo import metrics
from kernelzoo.domain.zoo import EntryState
from kernelzoo.metrics import DatabaseGauge, engine_label
from kernelzoo.store import census, coverage
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one

CLASSES = 60
"""So many classes have their page loads added up at once: two thousand take half an hour, and none
of it is more than a second's work."""

KEYS = 500
"""So many keys have their times looked up at once, or as many as `NOTING_S` suffices for."""

NOTING_S = 5.0
"""On a busy machine, or one that reads from its disk, each key takes a tenth of a second."""


def take_census(db: Database) -> None:
    execute(db, coverage.add_page_loads(CLASSES))
    figures = {asked.name: found for asked, found in _counted(db).items()}
    execute(db, census.store(figures))
    _note_times(db)


def _note_times(db: Database) -> None:
    """The next census goes on with the keys that are left."""
    end_s = time.monotonic() + NOTING_S
    for key in fetch_all(db, coverage.unnoted(KEYS)):
        if time.monotonic() > end_s:
            break
        execute(db, coverage.note_times(key.workload_key, key.device_class))


def _counted(db: Database) -> dict[DatabaseGauge, dict[str, float]]:
    """By the value of a gauge's label, '' where it has none."""
    waiting = fetch_all(db, census.waiting())
    models = fetch_one(db, census.models())
    assert models is not None, "an aggregate is one row"
    covered = {row.state: row for row in fetch_all(db, census.covered())}
    served = covered.get(EntryState.CONFIRMED)
    sizes = {row.name: row.bytes for row in fetch_all(db, census.sizes())}
    return {
        metrics.QUEUE_DEPTH: {row.queue: row.rows for row in waiting},
        metrics.QUEUE_OLDEST_AGE: {row.queue: row.oldest_s for row in waiting},
        metrics.AGENTS_ONLINE: _online(fetch_all(db, census.agents_online())),
        metrics.ZOO_ENTRIES: {row.state: row.rows for row in fetch_all(db, census.entries())},
        metrics.MODELS: {"": models.models},
        metrics.MODEL_CONFIRMED: {
            row.model: row.share for row in fetch_all(db, census.confirmed(metrics.MOST_MODELS))
        },
        metrics.COVERAGE_KEYS: {state: row.keys for state, row in covered.items()},
        metrics.COVERAGE_PAGE_LOADS: {state: row.loads for state, row in covered.items()},
        metrics.SERVED_SPEED_UP: {"": _speed_up(served)},
        metrics.SAVED_SECONDS: {"": served.saved_s if served else 0},
        metrics.DATABASE_SIZE: {"": sizes.pop("")},
        metrics.TABLE_SIZE: sizes,
    }


def _speed_up(served: census.CoverageRow | None) -> float:
    """1 where no page has asked for a confirmed kernel."""
    return served.loads / served.relative_loads if served and served.relative_loads else 1


def _online(rows: list[census.EngineRow]) -> dict[str, float]:
    online: dict[str, float] = defaultdict(float)
    for row in rows:
        online[engine_label(row.engine)] += row.identities
    return online

"""Database flows of the cost model: train it when the crowd has measured enough, and order spaces.

They run on the `compile` queue, whose workers have the tuner loaded.
"""

from typing import Any

import msgspec
import structlog
from psycopg import Connection

from kernelzoo.domain.device import DeviceClass, Engine, ProbeLevels
from kernelzoo.store import evidence, models, orders
from kernelzoo.store.blocking import execute, fetch_all, fetch_one
from services.tuner.cost_model.learning import Lesson, learn
from services.tuner.cost_model.model import CostModel
from services.tuner.cost_model.observation import Observation, ProbedDevice
from services.tuner.cost_model.order import evaluation_order

log = structlog.get_logger(__name__)

Database = Connection[Any]

ENOUGH = 200
"""Verified measurements more than the last training had: about five spaces on one device."""
GROWTH = 1.2
"""And by this factor, so that the work of training stays in proportion to that of measuring."""
RACES = 1_000
"""The latest that a model learns from. 227 take half a second of a core (Zen 5, one thread)."""
SPACES = 64
"""Ordered in one task at most."""

_Key = tuple[str, str, str]


def train(db: Database, *, at_once: bool) -> None:
    """Stores the model with its evaluation, published or not. Takes turns with its like.

    Nothing happens before enough was measured since the last time, unless it is to be `at_once`.
    """
    with db.transaction():
        execute(db, models.lock_training())
        growth, served = fetch_one(db, models.growth()), fetch_one(db, models.served())
        assert growth is not None
        if not at_once and not is_due(growth.measurements, growth.trained_with):
            return
        lesson = learn(_observations(db), CostModel.read(served.body) if served else None)
        if lesson is None:
            log.info("too little to learn from", measurements=growth.measurements)
            return
        _store(db, lesson, growth.measurements)


def is_due(measurements: int, trained_with: int) -> bool:
    return measurements >= max(trained_with + ENOUGH, trained_with * GROWTH)


def order_spaces(db: Database) -> None:
    """Orders what a device at work has no order for yet."""
    served = fetch_one(db, models.served())
    model = CostModel.read(served.body) if served else None
    for row in fetch_all(db, orders.unordered(SPACES)):
        with db.transaction():
            ranked = _ranked(db, row, model)
            claims = fetch_all(db, evidence.claims(row.job_id))
            claimed = {claim.candidate_id: claim.relative_time for claim in claims}
            execute(
                db,
                orders.put_order(
                    row.job_id,
                    row.device_class,
                    served.version if served else 0,
                    list(evaluation_order(ranked, claimed)),
                ),
            )


def _ranked(db: Database, row: orders.UnorderedRow, model: CostModel | None) -> list[str]:
    """Candidate ids by the model, or by promise where there is no model."""
    space = [each.to_candidate() for each in fetch_all(db, orders.orderable(row.job_id))]
    if model is not None:
        device = _device(fetch_all(db, models.probes(row.device_class))[-1])
        space = list(model.order(space, device))
    return [candidate.candidate_id for candidate in space]


def _observations(db: Database) -> list[Observation]:
    devices: dict[_Key, ProbedDevice] = {
        (row.device_class, row.engine_name, row.engine_version): _device(row)
        for row in fetch_all(db, models.probes())
    }
    return [
        Observation(
            device=devices[row.device_class, row.engine_name, row.engine_version],
            candidate=row.to_candidate(),
            relative_time=row.relative_time,
        )
        for row in fetch_all(db, models.timed(RACES))
    ]


def _device(row: models.ProbeRow) -> ProbedDevice:
    device_class = DeviceClass.parse(row.device_class)
    return ProbedDevice(
        hardware=device_class.device_id,
        device_class=device_class,
        engine=Engine(name=row.engine_name, version=row.engine_version),
        peak_gflops=row.peak_gflops,
        probe=msgspec.convert(row.probe, ProbeLevels | None),
    )


def _store(db: Database, lesson: Lesson, measurements: int) -> None:
    execute(
        db,
        models.store(
            sha256=lesson.model.version,
            body=lesson.model.body,
            published=lesson.published,
            reason=lesson.reason,
            evaluation=msgspec.json.encode(lesson.evaluation).decode(),
            measurements=measurements,
        ),
    )
    log.info("trained", published=lesson.published, reason=lesson.reason)

"""Trains the cost model, and orders spaces by it.

On the `compile` queue, whose workers have the tuner loaded. XGBoost is loaded only where there is
something to do, so that an idle worker pays one query for each of the two.
"""

from kernelzoo.store import cost_models, orders
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one

ENOUGH = 200
"""Judged measurements more than at the last training: about five spaces on one device."""
GROWTH = 1.2
"""And by this factor, so that the work of training stays in proportion to that of measuring."""
SPACES = 64
"""Ordered in one task at most."""


def train(db: Database, *, at_once: bool) -> None:
    """Stores the model with its evaluation, published or not. Takes turns with its like.

    Nothing happens before enough was measured since the last time, unless it is to be `at_once`.
    """
    with db.transaction():
        execute(db, cost_models.lock_training())
        growth = fetch_one(db, cost_models.growth())
        assert growth is not None
        if at_once or is_due(growth.measurements, growth.trained_with):
            from workers import modelling  # noqa: PLC0415 - imports XGBoost

            modelling.train(db, growth.measurements)


def is_due(measurements: int, trained_with: int) -> bool:
    return measurements >= max(trained_with + ENOUGH, trained_with * GROWTH)


def order_spaces(db: Database) -> None:
    """Orders what a device at work has no order for yet."""
    unordered = fetch_all(db, orders.unordered(SPACES))
    if unordered:
        from workers import modelling  # noqa: PLC0415 - imports XGBoost

        modelling.order(db, unordered)

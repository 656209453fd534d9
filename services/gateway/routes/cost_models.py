"""Cost models: listed for anyone, trained when the operator asks, or by themselves."""

from http import HTTPStatus

from fastapi import APIRouter, BackgroundTasks

from kernelzoo import jobs
from kernelzoo.store import cost_models
from kernelzoo.store.asynchronous import fetch_all, fetch_one
from services.gateway.lists import listed
from services.gateway.problems import refuse_stranger
from services.gateway.state import Operator, Shared
from services.gateway.wire.cost_models import (
    CostModelList,
    CostModelWire,
    EvaluationWire,
    TrainingAccepted,
)

router = APIRouter(tags=["cost model"])

LISTED = 50


@router.get("/v1/cost-models")
async def list_models(state: Shared) -> CostModelList:
    """Every model that was trained, the latest first, with its evaluation and what became of it."""
    async with state.pool.connection() as db:
        rows = await fetch_all(db, cost_models.trained(LISTED))
    return CostModelList(models=listed(rows, _model))


@router.post("/v1/cost-models", status_code=HTTPStatus.ACCEPTED)
async def train(state: Shared, operated: Operator, after: BackgroundTasks) -> TrainingAccepted:
    """Train a model now. It is published if it is no worse than the one before."""
    refuse_stranger(operated=operated)
    async with state.pool.connection() as db:
        growth = await fetch_one(db, cost_models.growth())
    assert growth is not None
    after.add_task(state.send, jobs.train_model(at_once=True))
    return TrainingAccepted(measurements=growth.measurements)


def _model(row: cost_models.CostModelRow) -> CostModelWire:
    return CostModelWire.of(
        row,
        evaluation=EvaluationWire.model_validate(row.evaluation),
        trained_at=row.trained_at.isoformat(),
    )

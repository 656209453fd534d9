"""Tells how far models are compiled and tuned, and where they compute wrongly."""

from fastapi import APIRouter, Response

from kernelzoo.domain.dtype import DType
from kernelzoo.store import models, wrong_outputs
from kernelzoo.store.asynchronous import fetch_all
from kernelzoo.store.wrong_outputs import WrongModelRow
from services.gateway.lists import listed
from services.gateway.models import unknown
from services.gateway.state import Shared, State
from services.gateway.wire.models import (
    FailedDefault,
    ModelCoverage,
    ModelName,
    ModelReadiness,
    PlanCoverage,
    WrongPlan,
)

router = APIRouter(tags=["models"])

MOST_CLASSES = 50


@router.get("/v1/models/{name}/readiness")
async def get_model_readiness(name: ModelName, state: Shared) -> ModelReadiness:
    """Tell whether every page can run a model: how many default kernels of it are compiled."""
    async with state.pool.connection() as db:
        if not await fetch_all(db, models.plans(name)):
            raise unknown(name)
        rows = await fetch_all(db, models.readiness(name))
    failed = [
        FailedDefault(workload=row.workload_key, target=row.target, detail=row.detail)
        for row in rows
        if row.detail
    ]
    compiled = sum(row.ready for row in rows)
    return ModelReadiness(model=name, defaults=len(rows), compiled=compiled, failed=failed)


@router.get("/v1/models/{name}/coverage", response_model=ModelCoverage)
async def get_model_coverage(name: ModelName, state: Shared) -> Response:
    """Tell how far the kernels of a model are tuned on each class, and how long an inference takes.
    An answer is up to five seconds old.
    """

    async def make() -> bytes:
        return (await _coverage(state, name)).model_dump_json().encode()

    body = await state.remembered.get(("model coverage", name), make)
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-cache"})


async def _coverage(state: State, name: str) -> ModelCoverage:
    async with state.pool.connection() as db:
        if not await fetch_all(db, models.plans(name)):
            raise unknown(name)
        rows = await fetch_all(db, models.coverage(name, MOST_CLASSES))
        wrong = await fetch_all(db, wrong_outputs.of_model(name, MOST_CLASSES))
    return ModelCoverage(model=name, coverage=listed(rows, _covered), wrong=listed(wrong, _wrong))


def _covered(row: models.PlanCoverageRow) -> PlanCoverage:
    return PlanCoverage.of(
        row,
        confirmed_flops=row.confirmed_flops or 0.0,
        page_loads=row.loads,
        expected_ms=None if row.elapsed_ns is None else row.elapsed_ns / 1e6,
        prepare_ms=None if row.prepare_ns is None else row.prepare_ns / 1e6,
    )


def _wrong(row: WrongModelRow) -> WrongPlan:
    return WrongPlan.of(
        row,
        dtype=DType.F16 if row.f16 else DType.F32,
        since=row.since.isoformat(),
        last_at=row.last_at.isoformat(),
    )

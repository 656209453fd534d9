"""Serves what was measured, for the formats of other tuners, and takes what these claim in
return."""

from http import HTTPStatus
from itertools import groupby
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Query

from kernelzoo import jobs
from kernelzoo.domain.candidate import candidate_id
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.workload import workload_key
from kernelzoo.store import evidence, measurements
from kernelzoo.store.asynchronous import execute, fetch_all
from services.gateway.cursors import Cursor, cursor, position
from services.gateway.lists import listed
from services.gateway.problems import refuse_stranger
from services.gateway.state import Operator, Shared
from services.gateway.wire.model import KeyText
from services.gateway.wire.results import (
    ClaimsAccepted,
    ClaimsRequest,
    ClaimWire,
    Results,
    ResultsList,
    Trial,
)

router = APIRouter(tags=["results"])


@router.get("/v1/results")
async def list_results(
    state: Shared,
    operated: Operator,
    workload: KeyText,
    device_class: Annotated[str | None, Query(max_length=256)] = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    after: Cursor = None,
) -> ResultsList:
    """Every candidate of a workload that a device class has measured; without one, of `limit`
    classes in their order, and `next` for those behind them.

    For the operator alone: a class of few devices is nearly a person.
    """
    refuse_stranger(operated=operated)
    key = workload_key(workload)
    async with state.pool.connection() as db:
        if device_class is None:
            (behind,) = position(after, 1) if after else ("",)
            found = await fetch_all(db, measurements.measuring_classes(key, behind, limit + 1))
            classes = [row.device_class for row in found[:limit]]
            total, more = found[0].total if found else 0, len(found) > limit
        else:
            classes, total, more = [str(DeviceClass.parse(device_class))], 1, False
        rows = await fetch_all(db, measurements.trials(key, classes))
    return ResultsList(
        results=[
            Results(workload=key, device_class=name, trials=listed(of_class, _trial))
            for name, of_class in groupby(rows, lambda row: row.device_class)
        ],
        total=total,
        next=cursor(classes[-1]) if more else None,
    )


@router.post("/v1/evidence", status_code=HTTPStatus.ACCEPTED)
async def claim(
    body: ClaimsRequest, state: Shared, operated: Operator, after: BackgroundTasks
) -> ClaimsAccepted:
    """Take what a file of another tuner says as a hint of what to measure first, and no more."""
    refuse_stranger(operated=operated)
    named = [(_candidate_id(each), each) for each in body.claims]
    fastest = _fastest(body.claims)
    accepted = 0
    async with state.pool.connection() as db, db.transaction():
        for candidate_id, each in named:
            ratio = each.time / fastest[each.workload, each.device]
            accepted += await execute(
                db, evidence.claim(body.source, candidate_id, each.device, ratio)
            )
        await execute(db, evidence.forget_orders([name for name, _ in named]))
    after.add_task(state.send, jobs.order_spaces())
    return ClaimsAccepted(accepted=accepted, unknown=len(named) - accepted)


def _candidate_id(claim: ClaimWire) -> str:
    """Raises InvalidInput for a workload of no sense."""
    return candidate_id(workload_key(claim.workload), claim.target, dict(claim.config))


def _fastest(claims: list[ClaimWire]) -> dict[tuple[str, str], float]:
    """By workload and device of the source."""
    best: dict[tuple[str, str], float] = {}
    for each in claims:
        place = each.workload, each.device
        best[place] = min(each.time, best.get(place, each.time))
    return best


def _trial(row: measurements.TrialRow) -> Trial:
    return Trial.of(
        row,
        candidate=row.candidate_id,
        config=dict(row.config),
        outcome=Outcome(row.outcome),
        measured_at=row.measured_at.isoformat(),
    )

"""Takes reports of pages in which a model computes wrong golden outputs."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from fastapi import APIRouter, Request

from kernelzoo.domain.device import DeviceClass
from kernelzoo.formats.plans import read_plan
from kernelzoo.store import models, wrong_outputs
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from kernelzoo.store.models import PlanRow
from services.gateway.blobs import Blobs
from services.gateway.models import lost, suited, unknown
from services.gateway.problems import Refusal
from services.gateway.routes.denials import refuse_untrusted
from services.gateway.state import Network, Operator, Shared
from services.gateway.wire.denials import FailureNoted
from services.gateway.wire.models import WrongOutput

router = APIRouter(tags=["models"])


@router.post("/v1/wrong-outputs", status_code=HTTPStatus.ACCEPTED)
async def note_wrong_output(
    body: WrongOutput, request: Request, network: Network, state: Shared, operated: Operator
) -> FailureNoted:
    """Say that a model computes a wrong golden output in this page although its kernels are the
    defaults. The operator is told; nothing is taken away. A network has one voice for each plan and
    class.
    """
    if not operated:
        await state.rates.report(network)
        await refuse_untrusted(state, request)
    device_class = DeviceClass.parse(body.device_class)
    cap = state.settings.failures_per_network_per_day
    async with state.pool.connection() as db:
        rows = await fetch_all(db, models.plans(body.model))
        plan = await asyncio.to_thread(_blamed, state.blobs, rows, body, device_class)
        await execute(db, wrong_outputs.forget_old(plan.id))
        note = wrong_outputs.note(plan.id, device_class, network, body.output, daily_cap=cap)
        noted = await fetch_one(db, note)
    assert noted is not None
    if not noted.allowed:
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"this network reported {cap} wrong outputs within a day; come back tomorrow",
            {"Retry-After": "3600"},
        )
    return FailureNoted()


def _blamed(
    blobs: Blobs, rows: Sequence[PlanRow], told: WrongOutput, device_class: DeviceClass
) -> PlanRow:
    """The plan that a page of the class was given. Raises Refusal where it has no such output."""
    if not rows:
        raise unknown(told.model)
    for row in suited(rows, device_class.target.kind):
        if row.golden_sha256 == told.golden:
            body = blobs.read(row.plan_sha256)
            if body is None:
                raise lost(told.model, row.plan_sha256)
            plan = read_plan(body)
            if any(port.name == told.output for port in plan.outputs):
                return row
    raise Refusal(
        HTTPStatus.NOT_FOUND,
        f"no plan of {told.model} has this golden file and output; ask for the model again",
    )

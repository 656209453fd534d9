"""The deny-list: read by anyone, written by the operator; pages say what failed."""

from http import HTTPStatus

from fastapi import APIRouter, BackgroundTasks, Request

from kernelzoo import jobs
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.workload import Workload
from kernelzoo.store import denials, wake
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from services.gateway.problems import Refusal, refuse_stranger
from services.gateway.state import Operator, Shared
from services.gateway.views import decision
from services.gateway.wire.denials import (
    Decision,
    DecisionList,
    DenialRequest,
    FailureNoted,
    FailureReport,
)

router = APIRouter(tags=["zoo"])


@router.get("/v1/denied")
async def list_denied(state: Shared) -> DecisionList:
    """Artifacts that a class of devices is never served, and those that the operator allowed."""
    async with state.pool.connection() as db:
        rows = await fetch_all(db, denials.decisions())
    return DecisionList(decisions=[decision(row) for row in rows])


@router.put("/v1/denied")
async def decide(
    body: DenialRequest, state: Shared, operated: Operator, after: BackgroundTasks
) -> Decision:
    """Deny an artifact to a class, or allow it. What is served of it is rolled back at once."""
    refuse_stranger(operated=operated)
    device_class = str(DeviceClass.parse(body.device_class))
    async with state.pool.connection() as db, db.transaction():
        decided = await execute(
            db,
            denials.decide(
                body.artifact,
                device_class,
                denied=body.denied,
                stage="",
                evidence=body.reason,
                operated=True,
            ),
        )
        if not decided:
            raise _unknown()
        await execute(db, wake.zoo_changed())
        keys = await fetch_all(db, denials.keys_of(body.artifact, device_class))
        rows = await fetch_all(db, denials.decisions())
    for key in keys:
        after.add_task(state.send, jobs.tally(key.workload_key, key.device_class))
    place = (body.artifact, device_class)
    return decision(next(row for row in rows if (row.sha256, row.device_class) == place))


@router.post("/v1/failures", status_code=HTTPStatus.ACCEPTED)
async def report_failure(
    body: FailureReport, request: Request, state: Shared, after: BackgroundTasks
) -> FailureNoted:
    """Say that a served kernel failed in this page. A network has one voice for each kernel."""
    key, device_class = Workload.parse(body.workload).key, str(DeviceClass.parse(body.device_class))
    cap = state.settings.failures_per_network_per_day
    async with state.pool.connection() as db:
        noted = await fetch_one(
            db,
            denials.note_failure(
                key,
                device_class,
                body.artifact,
                state.tokens.network(request.client.host if request.client else "127.0.0.1"),
                Outcome(body.stage),
                body.detail,
                daily_cap=cap,
            ),
        )
    assert noted is not None
    if not noted.known:
        raise _unknown()
    if not noted.allowed:
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"this network reported {cap} failures within a day; the default kernel serves "
            "meanwhile, come back tomorrow",
            {"Retry-After": "3600"},
        )
    after.add_task(state.send, jobs.tally(key, device_class))
    return FailureNoted()


def _unknown() -> Refusal:
    return Refusal(
        HTTPStatus.NOT_FOUND, "no such kernel has this artifact; read the manifest again"
    )

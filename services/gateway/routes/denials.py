"""The deny-list: read by anyone, written by the operator; pages say what failed."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Header, Path, Request, Response
from psycopg import AsyncConnection

from kernelzoo import jobs
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.trust import Trust
from kernelzoo.domain.workload import workload_key
from kernelzoo.store import denials, notifications, tallies
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from services.gateway.lists import listed
from services.gateway.problems import Refusal, refuse_stranger
from services.gateway.purging import class_tags
from services.gateway.state import Network, Operator, Shared, State
from services.gateway.views import decision
from services.gateway.wire.denials import (
    ClassText,
    Decision,
    DecisionList,
    DenialRequest,
    DeniedList,
    FailureNoted,
    FailureReport,
    LostDevice,
)
from services.gateway.wire.model import KeyText

router = APIRouter(tags=["zoo"])

DENIED_CACHE = "public, max-age=60, stale-if-error=3600"


@router.get("/v1/denied")
async def list_denied(state: Shared) -> DecisionList:
    """Artifacts that a class of devices is never served, and those that the operator allowed."""
    async with state.pool.connection() as db:
        rows = await fetch_all(db, denials.decisions())
    return DecisionList(decisions=listed(rows, decision))


@router.get("/v1/denied/{device_class}", response_model=DeniedList)
async def get_denied(
    device_class: Annotated[str, Path(max_length=256)],
    state: Shared,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """List what a class is never to run, signed. An answer is up to two seconds old."""
    found = await state.denied.to(DeviceClass.parse(device_class))
    headers = {"ETag": found.etag, "Cache-Control": DENIED_CACHE, **class_tags(device_class)}
    if if_none_match is not None and found.etag in if_none_match:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(found.body, media_type="application/json", headers=headers)


@router.put("/v1/denied")
async def decide(
    body: DenialRequest, state: Shared, operated: Operator, after: BackgroundTasks
) -> Decision:
    """Deny an artifact to a class, or allow it. What is served of it is rolled back at once."""
    refuse_stranger(operated=operated)
    device_class = DeviceClass.parse(body.device_class)
    async with state.pool.connection() as db, db.transaction():
        artifact = await _artifact(db, body.artifact)
        decided = await execute(
            db,
            denials.decide(
                artifact,
                device_class,
                denied=body.denied,
                stage="",
                evidence=body.reason,
                operated=True,
            ),
        )
        if not decided:
            raise _unknown()
        if not body.denied:
            await execute(db, notifications.zoo_changed())
        keys = await fetch_all(db, denials.keys_of(artifact, device_class))
        rows = await fetch_all(db, denials.decisions())
        place = (artifact, str(device_class))
        row = next((row for row in rows if (row.sha256, row.device_class) == place), None)
        if row is None:
            raise Refusal(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"{artifact} links several kernels or packs weights for one; name the kernel, as "
                "the manifest has it",
            )
    for key in keys:
        after.add_task(state.send, jobs.tally(key.workload_key, key.device_class))
    return decision(row)


async def _artifact(db: AsyncConnection[Any], prefix: str) -> str:
    """The one whose hash begins so."""
    found = [row.sha256 for row in await fetch_all(db, denials.artifacts_named(prefix, 2))]
    if len(found) > 1:
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"several artifacts begin with {prefix}: {', '.join(found)} …; write more of the hash",
        )
    if not found:
        raise _unknown()
    return found[0]


@router.post("/v1/failures", status_code=HTTPStatus.ACCEPTED)
async def report_failure(
    body: FailureReport,
    request: Request,
    network: Network,
    state: Shared,
    operated: Operator,
    after: BackgroundTasks,
) -> FailureNoted:
    """Say that a served kernel failed in this page, or that an agent cannot compile the reference
    of a lease. A network has one voice for each kernel.
    """
    if not operated:
        await state.rates.report(network)
        await refuse_untrusted(state, request)
    key, device_class = workload_key(body.workload), DeviceClass.parse(body.device_class)
    cap = state.settings.failures_per_network_per_day
    async with state.pool.connection() as db:
        noted = await fetch_one(
            db,
            denials.note_failure(
                key,
                device_class,
                body.artifact,
                network,
                Outcome(body.stage),
                body.detail,
                trust=Trust.OPERATOR if operated else state.settings.trust,
                daily_cap=cap,
            ),
        )
        assert noted is not None
        asked = await fetch_all(db, tallies.ask(key, device_class)) if noted.changed else []
    if not noted.known:
        raise _unknown()
    if not noted.allowed:
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"this network reported {cap} failures within a day; the default kernel serves "
            "meanwhile, come back tomorrow",
            {"Retry-After": "3600"},
        )
    for row in asked:
        after.add_task(state.send, jobs.tally(row.workload_key, row.device_class))
    return FailureNoted()


async def refuse_untrusted(state: State, request: Request) -> None:
    """A failure is a claim as a time is: it is taken of whom the zoo is tuned by."""
    trust = state.settings.trust
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    match trust:
        case Trust.CROWD:
            return
        case Trust.APPLICATIONS if await state.origins.allows(origin, host):
            return
        case _:
            pass
    raise Refusal(
        HTTPStatus.FORBIDDEN,
        f"failures are not counted of pages of {origin[:200] or 'no origin'} "
        f"(KERNELZOO_TRUST={trust}); the default kernel serves this page",
    )


def _unknown() -> Refusal:
    return Refusal(
        HTTPStatus.NOT_FOUND, "no such kernel has this artifact; read the manifest again"
    )


@router.post("/v1/lost-devices", status_code=HTTPStatus.ACCEPTED)
async def note_lost_device(body: LostDevice, state: Shared, operated: Operator) -> FailureNoted:
    """Say that a browser was ended at a workload. A class that loses two within seven days is lent
    nothing more of it.
    """
    refuse_stranger(operated=operated)
    key, device_class = workload_key(body.workload), DeviceClass.parse(body.device_class)
    async with state.pool.connection() as db:
        await execute(db, denials.device_lost(key, device_class, body.why))
    return FailureNoted()


@router.delete("/v1/lost-devices")
async def forget_lost_devices(
    workload: KeyText, device_class: ClassText, state: Shared, operated: Operator
) -> FailureNoted:
    """Lend a workload to a class again that has lost devices at it."""
    refuse_stranger(operated=operated)
    key, named = workload_key(workload), DeviceClass.parse(device_class)
    async with state.pool.connection() as db:
        await execute(db, denials.forget_losses(key, named))
    return FailureNoted()

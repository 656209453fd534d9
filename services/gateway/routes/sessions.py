"""POST /v1/sessions: an agent tells its device and receives a token."""

from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Request
from psycopg import AsyncConnection

from kernelzoo.domain.device import (
    DeviceClass,
    Engine,
    GpuProbeLevels,
    Hardware,
    PrimitiveVector,
    ProbeLevels,
)
from kernelzoo.domain.target import Target
from kernelzoo.metrics import SESSIONS, engine_label
from kernelzoo.settings import Settings
from kernelzoo.store import agents, applications
from kernelzoo.store.applications import ApplicationRow
from kernelzoo.store.asynchronous import execute, fetch_one
from services.gateway.problems import Refusal
from services.gateway.state import Operator, Shared
from services.gateway.tokens import Session
from services.gateway.wire.sessions import (
    SessionRequest,
    SessionResponse,
    WasmProbeWire,
    WebGpuProbeWire,
)

router = APIRouter(tags=["agents"])


@router.post("/v1/sessions", status_code=HTTPStatus.CREATED)
async def open_session(
    body: SessionRequest,
    request: Request,
    state: Shared,
    operated: Operator,
    origin: Annotated[str | None, Header()] = None,
) -> SessionResponse:
    """Open a session for an agent. The operator's key lifts the cap on identities per network."""
    hardware = Hardware(**body.hardware.model_dump())
    device_class = DeviceClass(
        device_id=hardware.device_id,
        rho=PrimitiveVector.parse(body.rho),
        target=Target.of(body.target, tuple(body.features)),
    )
    claimed = state.tokens.identity(body.identity) if body.identity else None
    network = state.tokens.network(request.client.host if request.client else "127.0.0.1")
    if not operated:
        await state.rates.session(network)
    async with state.pool.connection() as db, db.transaction():
        application = await _application(db, body.application)
        if application is not None and not operated:
            _refuse_other_origin(application, origin)
        application_id = application.id if application else None
        identity_id = await _identity(db, state.settings, claimed, network, operated=operated)
        await execute(db, agents.see_device(hardware))
        row = await fetch_one(
            db,
            agents.open_session(
                identity_id,
                device_class,
                Engine(name=body.engine.name, version=body.engine.version),
                peak_gflops=body.peak_gflops,
                isolated=body.isolated,
                probe=_levels(body.probe),
                application_id=application_id,
            ),
        )
    assert row is not None
    SESSIONS.labels(engine_label(body.engine.name), body.target).inc()
    session = Session(
        session_id=row.id,
        identity_id=identity_id,
        device_class=device_class,
        application_id=application_id,
    )
    return SessionResponse(
        token=state.tokens.issue_session(session),
        expires_in_s=state.settings.session_s,
        identity=state.tokens.issue_identity(identity_id),
        device_id=hardware.device_id,
        device_class=str(device_class),
    )


async def _application(db: AsyncConnection[Any], name: str | None) -> ApplicationRow | None:
    """Raises Refusal (404) for one that is unknown or disabled."""
    if name is None:
        return None
    row = await fetch_one(db, applications.by_name(name))
    if row is None or row.disabled:
        raise Refusal(HTTPStatus.NOT_FOUND, f"there is no application {name} to measure for")
    return row


def _refuse_other_origin(application: ApplicationRow, origin: str | None) -> None:
    """Browsers say Origin and pages cannot change it: no other site recruits in this name."""
    if origin not in application.origins:
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            f"pages of {(origin or 'no origin')[:200]} may not measure for {application.name}; "
            "the operator names its origins",
        )


def _levels(
    probe: WasmProbeWire | WebGpuProbeWire | None,
) -> ProbeLevels | GpuProbeLevels | None:
    match probe:
        case None:
            return None
        case WasmProbeWire():
            return ProbeLevels(**probe.model_dump())
        case WebGpuProbeWire():
            return GpuProbeLevels(**probe.model_dump())


async def _identity(
    db: AsyncConnection[Any],
    settings: Settings,
    claimed: UUID | None,
    network: str,
    *,
    operated: bool,
) -> UUID:
    """The claimed identity if the database knows it, else a new one under the network's cap."""
    cap = settings.identities_per_network_per_day
    if claimed is not None and (known := await fetch_one(db, agents.known_identity(claimed))):
        return known.id
    new = await fetch_one(db, agents.new_identity(network, operated=operated, daily_cap=cap))
    if new is None:
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"this network was given {cap} identities within a day; "
            "keep the identity of an earlier session, or come back tomorrow",
            {"Retry-After": "3600"},
        )
    return new.id

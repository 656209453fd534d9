"""POST /v1/sessions: an agent tells its device and receives a token."""

from http import HTTPStatus
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
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
from kernelzoo.domain.trust import Trust
from kernelzoo.metrics import SESSIONS, engine_label
from kernelzoo.settings import Settings
from kernelzoo.store import agents, applications
from kernelzoo.store.applications import ApplicationRow
from kernelzoo.store.asynchronous import execute, fetch_one
from services.gateway.cors import AllowedOrigins
from services.gateway.problems import Refusal
from services.gateway.state import Network, Operator, Shared, State
from services.gateway.tokens import Claimed, Session, unauthorized
from services.gateway.wire.attestations import ChallengeWire
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
    network: Network,
    operated: Operator,
) -> SessionResponse:
    """Open a session for an agent. The operator's key lifts the cap on identities per network."""
    hardware = Hardware(**body.hardware.model_dump())
    device_class = DeviceClass(
        device_id=hardware.device_id,
        rho=PrimitiveVector.parse(body.rho),
        target=Target.of(body.target, tuple(body.features)),
    )
    origin = request.headers.get("origin", "")
    claimed = state.tokens.identity(body.identity, origin=origin) if body.identity else None
    if not operated:
        await state.rates.session(network)
    async with state.pool.connection() as db, db.transaction():
        application = await _application(db, body.application)
        if not operated:
            _refuse_untrusted(state.settings.trust, application)
            _refuse_other_origin(state.origins, application, request)
            await execute(db, agents.lock_network(network))
        identity_id = await _identity(db, state.settings, claimed, network, operated=operated)
        if not operated:
            found = await fetch_one(db, agents.claimed_classes(identity_id, network, device_class))
            _refuse_more_classes(state.settings, found)
        await execute(db, agents.see_device(hardware))
        row = await fetch_one(
            db,
            agents.open_session(
                identity_id,
                device_class,
                Engine(name=body.engine.name, version=body.engine.version),
                network=network,
                peak_gflops=body.peak_gflops,
                isolated=body.isolated,
                probe=_levels(body.probe),
                application_id=application.id if application else None,
            ),
        )
    assert row is not None
    SESSIONS.labels(engine_label(body.engine.name), body.target).inc()
    session = Session(
        session_id=row.id,
        identity_id=identity_id,
        device_class=device_class,
        application_id=application.id if application else None,
        network=network,
        origin=origin,
        operated=row.operated,
    )
    return SessionResponse(
        token=state.tokens.issue_session(session),
        expires_in_s=state.settings.session_s,
        identity=state.tokens.issue_identity(identity_id, origin),
        device_id=hardware.device_id,
        device_class=str(device_class),
        attestation=[] if row.attested or row.operated else _challenges(state, session),
    )


def _challenges(state: State, session: Session) -> list[ChallengeWire]:
    return [
        ChallengeWire(kind=kind, challenge=verifier.challenge(session))
        for kind, verifier in state.verifiers.items()
    ]


async def _application(db: AsyncConnection[Any], name: str | None) -> ApplicationRow | None:
    """Raises Refusal (404) for one that is unknown or disabled."""
    if name is None:
        return None
    row = await fetch_one(db, applications.by_name(name))
    if row is None or row.disabled:
        raise Refusal(HTTPStatus.NOT_FOUND, f"there is no application {name} to measure for")
    return row


def _refuse_untrusted(trust: Trust, application: ApplicationRow | None) -> None:
    match trust:
        case Trust.OPERATOR:
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                "this zoo is tuned by its operator's agents alone (KERNELZOO_TRUST=operator); "
                "pages are served without measuring",
            )
        case Trust.APPLICATIONS if application is None:
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                "this zoo is tuned by visitors of registered applications "
                "(KERNELZOO_TRUST=applications); name yours in `application`, or ask the operator "
                "for one (`kernelzoo app create`)",
            )
        case _:
            pass


def _refuse_more_classes(settings: Settings, found: agents.ClaimedRow | None) -> None:
    """A device class is a claim, and one device is of few."""
    assert found is not None
    for who, claimed, cap in (
        ("agent", found.by_identity, settings.classes_per_identity_per_day),
        ("network", found.by_network, settings.classes_per_network_per_day),
    ):
        if claimed >= cap:
            raise Refusal(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"this {who} measured for {cap} device classes within a day; come back tomorrow",
                {"Retry-After": "3600"},
            )


def _refuse_other_origin(
    origins: AllowedOrigins, application: ApplicationRow | None, request: Request
) -> None:
    """Browsers say Origin and pages cannot change it: pages measure in the name of the application
    that registered them, and the zoo's own pages in nobody's too.
    """
    origin = request.headers.get("origin", "")
    if application is None:
        if origin and not origins.is_own(origin, request.headers.get("host", "")):
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                f"pages of {origin[:200]} measure for an application; name it in `application`",
            )
    elif origin not in application.origins:
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            f"pages of {(origin or 'no origin')[:200]} may not measure for {application.name}; "
            f"the operator names its origins with `kernelzoo app origins {application.name}`",
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
    claimed: Claimed | None,
    network: str,
    *,
    operated: bool,
) -> UUID:
    """The claimed identity if the database knows it, else a new one under the network's cap.

    Raises Refusal (401) for a copy of a token that was replaced, and for an identity of the
    operator's without its key: an agent that is told so comes back as a new one.
    """
    if claimed is not None:
        known = await fetch_one(db, agents.known_identity(claimed.identity_id))
        if known is not None:
            _refuse_copy(claimed, known, operated=operated)
            return known.id
    cap = settings.identities_per_network_per_day
    new = await fetch_one(db, agents.new_identity(network, operated=operated, daily_cap=cap))
    if new is None:
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"this network was given {cap} identities within a day; "
            "keep the identity of an earlier session, or come back tomorrow",
            {"Retry-After": "3600"},
        )
    return new.id


def _refuse_copy(claimed: Claimed, known: agents.KnownIdentityRow, *, operated: bool) -> None:
    if claimed.was_replaced(known.renewed_at):
        raise unauthorized("this identity was given a later token more than a day ago")
    if known.operated and not operated:
        raise unauthorized("this identity is the operator's and needs the operator's key")

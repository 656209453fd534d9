"""Routes share this state: made once in `app.create`, handed to a route by FastAPI."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.security import HTTPBearer
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from kernelzoo.jobs import Sender
from kernelzoo.settings import Settings
from kernelzoo.signing import Signer
from kernelzoo.store import applications
from kernelzoo.store.applications import ApplicationRow
from kernelzoo.store.asynchronous import fetch_one
from services.gateway.admission import Admission
from services.gateway.attestation.verifier import AttestationKind, Verifier
from services.gateway.blobs import Blobs
from services.gateway.builds import Builds
from services.gateway.cache import ManifestCache
from services.gateway.cors import AllowedOrigins
from services.gateway.denied import Denied
from services.gateway.notifier import Notifier
from services.gateway.page_loads import PageLoads
from services.gateway.problems import Refusal
from services.gateway.programs import Programs
from services.gateway.rates import Polls, RateLimits
from services.gateway.remembered import Remembered
from services.gateway.standby import Standby
from services.gateway.streams import Streams
from services.gateway.tokens import LOCAL, ApplicationKey, Session, Tokens, is_operator
from services.gateway.wake import Wake


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """`pages` are the connections of page loads; `pool` those of everybody else."""

    settings: Settings
    pool: AsyncConnectionPool[AsyncConnection[Any]]
    pages: AsyncConnectionPool[AsyncConnection[Any]]
    builds: Builds
    admission: Admission
    send: Sender
    notifier: Notifier
    tokens: Tokens
    origins: AllowedOrigins
    wake: Wake
    manifests: ManifestCache
    models: ManifestCache
    blobs: Blobs
    standby: Standby
    page_loads: PageLoads
    signer: Signer
    rates: RateLimits
    polls: Polls
    verifiers: Mapping[AttestationKind, Verifier]
    programs: Programs
    remembered: Remembered[bytes]
    streams: Streams
    denied: Denied


async def _state(request: Request) -> State:
    """A coroutine, as those below, though it waits for nothing: a function is run in a thread."""
    state: State = request.app.state.kernelzoo
    return state


Shared = Annotated[State, Depends(_state)]


def network_of(request: Request, tokens: Tokens) -> str:
    """The network of the visitor who asks, as `proxies` found its address."""
    return tokens.network(request.client.host if request.client else LOCAL)


async def _network(request: Request, state: Shared) -> str:
    return network_of(request, state.tokens)


Network = Annotated[str, Depends(_network)]
"""Keyed hash of the network that asks."""


class _AgentBearer(HTTPBearer):
    """Checks the token and counts the request. One dependency for all of it: FastAPI takes longer
    over each than it takes to run.
    """

    async def __call__(self, request: Request) -> Session:  # type: ignore[override]
        given = await super().__call__(request)
        return await session_of(request, await _state(request), given.credentials if given else "")


async def session_of(request: Request, state: State, token: str) -> Session:
    """Raises Refusal: 401 for a token that is not good here, 429 for too many requests of it."""
    session = state.tokens.session(
        token,
        network=network_of(request, state.tokens),
        origin=request.headers.get("origin", ""),
    )
    await state.rates.agent(str(session.identity_id))
    return session


_agent = _AgentBearer(
    auto_error=False,
    scheme_name="HTTPBearer",
    description="A session token from POST /v1/sessions",
)


async def _operator(
    state: Shared, x_kernelzoo_operator: Annotated[str | None, Header()] = None
) -> bool:
    return is_operator(x_kernelzoo_operator, state.settings.operator_key.get_secret_value())


async def _application(
    state: Shared, x_kernelzoo_key: Annotated[str | None, Header()] = None
) -> ApplicationRow | None:
    """None without a key. Raises Refusal (403) for one that is wrong or whose owner is disabled."""
    if x_kernelzoo_key is None:
        return None
    key = ApplicationKey.parse(x_kernelzoo_key)
    row = None
    if key is not None:
        async with state.pool.connection() as db:
            row = await fetch_one(db, applications.by_id(key.number))
    if key is None or row is None or not key.opens(row.key_hash):
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            "the application's key is wrong; the operator has it changed by `kernelzoo app rotate`",
        )
    if row.disabled:
        raise Refusal(
            HTTPStatus.FORBIDDEN, f"the application {row.name} is disabled; ask the operator"
        )
    await state.rates.application(row.id)
    return row


CurrentSession = Annotated[Session, Depends(_agent)]
Application = Annotated[ApplicationRow | None, Depends(_application)]
Operator = Annotated[bool, Depends(_operator)]

"""What the routes share: made once in `app.create`, handed to a route by FastAPI."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from kernelzoo.jobs import Sender
from kernelzoo.settings import Settings
from kernelzoo.signing import Signer
from services.gateway.manifests import ManifestCache
from services.gateway.tokens import Session, Tokens, is_operator
from services.gateway.wake import Wake


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    settings: Settings
    pool: AsyncConnectionPool[AsyncConnection[Any]]
    send: Sender
    tokens: Tokens
    wake: Wake
    manifests: ManifestCache
    signer: Signer


def _state(request: Request) -> State:
    state: State = request.app.state.kernelzoo
    return state


Shared = Annotated[State, Depends(_state)]

_bearer = HTTPBearer(auto_error=False, description="A session token from POST /v1/sessions")


def _session(
    state: Shared, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Session:
    return state.tokens.session(given.credentials if given else "")


def _operator(state: Shared, x_kernelzoo_operator: Annotated[str | None, Header()] = None) -> bool:
    return is_operator(x_kernelzoo_operator, state.settings.operator_key.get_secret_value())


CurrentSession = Annotated[Session, Depends(_session)]
Operator = Annotated[bool, Depends(_operator)]

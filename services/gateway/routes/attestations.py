"""POST /v1/attestations: an identity shows what lets it speak for classes other than its own."""

import re
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Request

from kernelzoo.store import agents
from kernelzoo.store.asynchronous import execute
from services.gateway.attestation.verifier import AttestationKind, Verifier
from services.gateway.problems import Refusal
from services.gateway.state import CurrentSession, Shared, State, session_of
from services.gateway.tokens import LOCAL, Session
from services.gateway.wire.attestations import (
    AttestationAccepted,
    AttestationRequest,
    PrivateTokenRequest,
)
from services.gateway.wire.model import Problem

router = APIRouter(tags=["agents"])

_TOKEN = re.compile(r'PrivateToken token="?([A-Za-z0-9_=-]{1,1024})"?', re.IGNORECASE)


@router.post("/v1/attestations")
async def attest(
    body: AttestationRequest, request: Request, state: Shared, session: CurrentSession
) -> AttestationAccepted:
    """Show a proof of work or a platform's attestation, in answer to `attestation` of the session.
    It holds for the identity, and need not be shown again.
    """
    await _attest(state, session, body.kind, body.response, request)
    return AttestationAccepted(attested=True)


@router.post("/v1/attestations/private-token", responses={401: {"model": Problem}})
async def attest_by_private_token(
    body: PrivateTokenRequest,
    request: Request,
    state: Shared,
    authorization: Annotated[str | None, Header()] = None,
) -> AttestationAccepted:
    """Show a Private Access Token (RFC 9577). Without one the answer is 401 with the challenge in
    WWW-Authenticate, which a platform that has tokens meets by itself: it asks again with
    `Authorization: PrivateToken token="…"`.
    """
    session = await session_of(request, state, body.session)
    verifier = _verifier(state, AttestationKind.PRIVATE_TOKEN)
    token = _TOKEN.fullmatch(authorization or "")
    if token is None:
        raise Refusal(
            HTTPStatus.UNAUTHORIZED,
            "show a private access token in answer to the challenge of WWW-Authenticate",
            {"WWW-Authenticate": verifier.challenge(session)},
        )
    await _attest(state, session, AttestationKind.PRIVATE_TOKEN, token[1], request)
    return AttestationAccepted(attested=True)


async def _attest(
    state: State, session: Session, kind: str, response: str, request: Request
) -> None:
    address = request.client.host if request.client else LOCAL
    if not await _verifier(state, kind).verify(session, response, address):
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            f"this does not attest the identity: {kind} refuses it, or it is too old; "
            "open a session for a new challenge",
        )
    async with state.pool.connection() as db:
        await execute(db, agents.attest(session.identity_id))


def _verifier(state: State, kind: str) -> Verifier:
    """Raises Refusal (422) for a kind that this zoo does not take."""
    verifier = next((each for name, each in state.verifiers.items() if name == kind), None)
    if verifier is None:
        taken = ", ".join(state.verifiers) or "none"
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"this zoo takes no attestation of the kind {kind!r}; it takes {taken}",
        )
    return verifier

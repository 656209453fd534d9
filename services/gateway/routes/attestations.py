"""POST /v1/attestations: an identity shows what lets it speak for classes other than its own."""

from http import HTTPStatus

from fastapi import APIRouter, Request

from kernelzoo.store import agents
from kernelzoo.store.asynchronous import execute
from services.gateway.problems import Refusal
from services.gateway.state import LOCAL, CurrentSession, Shared
from services.gateway.wire.attestations import AttestationAccepted, AttestationRequest

router = APIRouter(tags=["agents"])


@router.post("/v1/attestations")
async def attest(
    body: AttestationRequest, request: Request, state: Shared, session: CurrentSession
) -> AttestationAccepted:
    """Show a proof of work or a platform's attestation, in answer to `attestation` of the session.
    It holds for the identity, and need not be shown again.
    """
    verifier = next((each for kind, each in state.verifiers.items() if kind == body.kind), None)
    if verifier is None:
        taken = ", ".join(state.verifiers) or "none"
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"this zoo takes no attestation of the kind {body.kind!r}; it takes {taken}",
        )
    address = request.client.host if request.client else LOCAL
    if not await verifier.verify(session, body.response, address):
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            f"this does not attest the identity: {body.kind} refuses it, or it is too old; "
            "open a session for a new challenge",
        )
    async with state.pool.connection() as db:
        await execute(db, agents.attest(session.identity_id))
    return AttestationAccepted(attested=True)

"""An identity shows that it is more than a page load."""

from typing import Annotated

from pydantic import Field

from services.gateway.wire.model import WireModel


class ChallengeWire(WireModel):
    """One of the ways that this zoo takes. `challenge` is '' where the platform gives its own; of
    private tokens it is what WWW-Authenticate says.
    """

    kind: str
    challenge: str


class AttestationRequest(WireModel):
    """`response`: of a proof of work the challenge and its numbers, with commas between them; of a
    platform what its widget gave the page; of a private token the token in base64url.
    """

    kind: Annotated[str, Field(max_length=32)]
    response: Annotated[str, Field(min_length=1, max_length=4096)]


class PrivateTokenRequest(WireModel):
    """`session`: its token, here since `Authorization` has the private token."""

    session: Annotated[str, Field(min_length=1, max_length=4096)]


class AttestationAccepted(WireModel):
    attested: bool

"""Says what there is of an identity, and that it was erased."""

from typing import Annotated

from pydantic import Field

from services.gateway.wire.model import WireModel


class Held(WireModel):
    """Rows of an identity. `entries`: those of the zoo that its ballots were counted for. They
    stay, with the number of ballots and with times that are medians over all who voted.
    """

    sessions: int
    leases: int
    measurements: int
    ballots: int
    entries: int


class ForgetRequest(WireModel):
    """`identity`: the token that a session gave, which only its browser has."""

    identity: Annotated[str, Field(max_length=1024)]

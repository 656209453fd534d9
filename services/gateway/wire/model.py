"""Base model and the field types that several resources share."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

# PostgreSQL stores any text but NUL.
STORABLE = r"^[^\x00]*$"

WorkloadKey = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=STORABLE),
    Field(examples=["matmul:f32:m384k768n768"]),
]
CandidateId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Rho = Annotated[
    str, StringConstraints(pattern=r"^r[0-9]{1,4}-[01]{1,64}$"), Field(examples=["r1-0"])
]
ShortText = Annotated[str, StringConstraints(max_length=64, pattern=r"^[\x20-\x7e]*$")]
Feature = Annotated[str, StringConstraints(max_length=40, pattern=r"^[a-z0-9-]+$")]


ApplicationName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]


class WireModel(BaseModel):
    """Unknown fields are an error, values are not coerced, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Problem(WireModel):
    """Problem document (RFC 9457), served as application/problem+json."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str

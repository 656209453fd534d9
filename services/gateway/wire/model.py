"""Base model and the field types that several resources share."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from kernelzoo.domain.device import RHO
from kernelzoo.domain.target import TargetKind, parse_measured

# PostgreSQL stores any text but NUL.
STORABLE = r"^[^\x00]*$"

KeyText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=STORABLE),
    Field(examples=["matmul:f32:m384k768n768"]),
]
CandidateId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Rho = Annotated[str, StringConstraints(pattern=f"^{RHO}$"), Field(examples=["r1-0"])]
ShortText = Annotated[str, StringConstraints(max_length=64, pattern=r"^[\x20-\x7e]*$")]
MeasuredTarget = Annotated[TargetKind, Field(strict=False), AfterValidator(parse_measured)]
Feature = Annotated[str, StringConstraints(max_length=40, pattern=r"^[a-z0-9-]+$")]


ApplicationName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]


class WireModel(BaseModel):
    """Unknown fields are an error, values are not coerced, instances do not change.

    A wire model is a type of its own for what the interface promises: bounds of what a stranger may
    send, and names that pages rely on. Where its fields have the names of a row or of a value of
    the domain, `of` takes them over, and nothing is written twice; where it must not follow the
    table, because it renames, joins or withholds, a function says so field by field.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def of(cls, source: object, **others: object) -> Self:
        """The fields of `source` that have the same names, and `others`. Values that JSON does not
        tell apart are converted: tuples to lists, text to enumerations.
        """
        taken = {name: getattr(source, name) for name in cls.model_fields if name not in others}
        return cls.model_validate(taken | others, strict=False, from_attributes=True)


class Problem(WireModel):
    """Problem document (RFC 9457), served as application/problem+json."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str

"""Kernels that a class of devices is never served, and what pages report of failures."""

from typing import Annotated, Literal

from pydantic import Field

from services.gateway.wire.model import STORABLE, CandidateId, KeyText, Sha256, WireModel
from services.gateway.wire.zoo import SignatureWire

ClassText = Annotated[str, Field(max_length=256, pattern=STORABLE)]
Stage = Literal["validate", "compile", "run", "compare", "timeout"]


class FailureReport(WireModel):
    """A served kernel that failed in a page: at `stage`, on a device of this class."""

    workload: KeyText
    device_class: ClassText
    artifact: Sha256
    stage: Stage
    detail: Annotated[str, Field(max_length=500, pattern=STORABLE)]


class FailureNoted(WireModel):
    noted: Literal[True] = True


class LostDevice(WireModel):
    """The operator's fleet says that a browser of this class was ended at a workload, and why."""

    workload: KeyText
    device_class: ClassText
    why: Annotated[str, Field(max_length=500, pattern=STORABLE)]


class DenialRequest(WireModel):
    """The operator's word; `denied` is false to allow an artifact whatever others say. The first
    digits of its hash do where no other artifact begins with them.
    """

    artifact: Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]
    device_class: ClassText
    denied: bool
    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=STORABLE)]


class Decision(WireModel):
    """`stage`: where it failed; '' where the operator decided. `candidates` have these bytes."""

    artifact: Sha256
    device_class: str
    denied: bool
    stage: str
    evidence: str
    operated: bool
    decided_at: str
    candidates: list[CandidateId]
    workloads: list[KeyText]


class DeniedList(WireModel):
    """Artifacts that this class is never to run, whatever a manifest says. The last three members
    are as a manifest's.
    """

    denied: Literal[1]
    device_class: str
    artifacts: list[Sha256]
    issued_at: str
    serial: int
    signatures: list[SignatureWire]


class DecisionList(WireModel):
    decisions: list[Decision]

"""Describes what a device class measured of a workload, and what outside sources claim."""

from typing import Annotated

from pydantic import Field

from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.target import TargetKind
from services.gateway.wire.model import (
    CandidateId,
    KeyText,
    MeasuredTarget,
    ShortText,
    WireModel,
)

SettingWire = bool | int | str


class Trial(WireModel):
    """`times_ns`: the best sample of each identity in the latest 64 measurements, `relative_times`
    over that of the reference that ran in turn with it, both ascending; empty for a failure.
    """

    candidate: CandidateId
    config: dict[str, SettingWire]
    requires: list[str]
    outcome: Outcome
    times_ns: list[float]
    relative_times: list[float]
    compile_ns: int
    measured_at: str


class Results(WireModel):
    workload: KeyText
    device_class: str
    trials: list[Trial]


class ResultsList(WireModel):
    """`total` counts classes that measured the workload; `next` is `after` of the next page, null
    on the last one.
    """

    results: list[Results]
    total: int
    next: str | None


MOST_CLAIMS = 2_000

DeviceText = Annotated[str, Field(max_length=256, pattern=r"^[\x20-\x7e]*$")]


class ClaimWire(WireModel):
    """`time` is in any unit: only its ratio to others of the same workload counts."""

    workload: KeyText
    target: MeasuredTarget = TargetKind.WASM
    device: DeviceText
    config: Annotated[dict[ShortText, SettingWire], Field(max_length=64)]
    time: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ClaimsRequest(WireModel):
    """The file `source` claims this. It seeds the order of evaluation, and is never counted."""

    source: ShortText
    claims: Annotated[list[ClaimWire], Field(min_length=1, max_length=MOST_CLAIMS)]


class ClaimsAccepted(WireModel):
    """`unknown` claims name no candidate of any space here, and are forgotten."""

    accepted: int
    unknown: int

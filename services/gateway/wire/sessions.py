"""An agent says what its device is and receives a token that is good for a while."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from kernelzoo.domain.target import TargetKind
from services.gateway.wire.attestations import ChallengeWire
from services.gateway.wire.model import (
    ApplicationName,
    Feature,
    MeasuredTarget,
    Rho,
    ShortText,
    WireModel,
)


class HardwareWire(WireModel):
    """Unknown text is ''."""

    cpu_architecture: ShortText
    logical_cores: Annotated[int, Field(ge=1, le=4096)]
    gpu_vendor: ShortText
    gpu_architecture: ShortText


class EngineWire(WireModel):
    name: ShortText
    version: ShortText


def _octave(value: int) -> int:
    if value & (value - 1):
        raise ValueError(f"{value} is no power of two; round what was measured to the nearest one")
    return value


Octave = Annotated[int, Field(ge=0, le=1 << 20), AfterValidator(_octave)]
"""A quantity as the nearest power of two, so that a probe is no fingerprint; 0 is unknown."""


class WasmProbeWire(WireModel):
    """Peaks of one core in registers, the size of its first cache, and how fast the lines of
    working sets arrive that lie in the first cache, in the second, and in neither.
    """

    mul_add_gflops: Octave
    fma_gflops: Octave
    l1_kib: Octave
    l1_gbps: Octave
    l2_gbps: Octave
    memory_gbps: Octave


class WebGpuProbeWire(WireModel):
    """The whole GPU: peak of f32 in registers, bandwidth of storage buffers that are in no
    cache, and the time of an empty dispatch among many of one submission.
    """

    peak_gflops: Octave
    bandwidth_gbps: Octave
    dispatch_us: Octave


PROBES = {TargetKind.WASM: WasmProbeWire, TargetKind.WEBGPU: WebGpuProbeWire}


class SessionRequest(WireModel):
    """A session is for one target; an agent that measures both opens two with one identity.

    `application`: the name in which a page's agent measures, and then nothing but its workloads;
    the page must be of one of the application's origins.
    `identity` is what an earlier session of this browser was given, if any. `peak_gflops` is the
    probe's register-only limit, to the nearest quarter octave: of one core for wasm, of the whole
    GPU for webgpu. `probe` is that of the target.
    """

    hardware: HardwareWire
    engine: EngineWire
    target: MeasuredTarget
    features: Annotated[list[Feature], Field(max_length=16)]
    rho: Rho
    peak_gflops: Annotated[float, Field(ge=0, le=1e6)]
    isolated: bool
    probe: WasmProbeWire | WebGpuProbeWire | None = None
    identity: Annotated[str, Field(max_length=1024)] | None = None
    application: ApplicationName | None = None

    @model_validator(mode="after")
    def _refuse_other_probe(self) -> Self:
        if self.probe is not None and not isinstance(self.probe, PROBES[self.target]):
            raise ValueError(f"probe is not that of {self.target}; send the levels of its target")
        return self


class SessionResponse(WireModel):
    """Send `token` as `Authorization: Bearer`. Keep `identity` for the next session.

    `attestation`: what the identity may show to speak for classes other than its own, any one of
    these, to `POST /v1/attestations`; empty where it has, or where nothing is asked for.
    """

    token: str
    expires_in_s: int
    identity: str
    device_id: str
    device_class: str
    attestation: list[ChallengeWire]

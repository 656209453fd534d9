"""An agent says what its device is and receives a token that is good for a while."""

from typing import Annotated

from pydantic import Field

from services.gateway.wire.model import Feature, Rho, ShortText, WireModel


class HardwareWire(WireModel):
    """Unknown text is ''."""

    cpu_architecture: ShortText
    logical_cores: Annotated[int, Field(ge=1, le=4096)]
    gpu_vendor: ShortText
    gpu_architecture: ShortText


class EngineWire(WireModel):
    name: ShortText
    version: ShortText


class SessionRequest(WireModel):
    """`identity` is what an earlier session of this browser was given, if any.

    `peak_gflops` is the probe's register-only limit of one core.
    """

    hardware: HardwareWire
    engine: EngineWire
    wasm_features: Annotated[list[Feature], Field(max_length=16)]
    rho: Rho
    peak_gflops: Annotated[float, Field(ge=0, le=1e6)]
    isolated: bool
    identity: Annotated[str, Field(max_length=1024)] | None = None


class SessionResponse(WireModel):
    """Send `token` as `Authorization: Bearer`. Keep `identity` for the next session."""

    token: str
    expires_in_s: int
    identity: str
    device_id: str
    device_class: str

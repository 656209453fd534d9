"""Describes what comes before a kernel's warm runs."""

from typing import Annotated

from pydantic import Field

from services.gateway.wire.model import WireModel

PreparationTime = Annotated[float, Field(ge=0, le=60e9, allow_inf_nan=False)]


class PreparationWire(WireModel):
    """A page pays this for a kernel before its runs are warm: `compile_ns` until the first call may
    begin (of wasm in the baseline tier, of webgpu the pipeline), `optimise_ns` from there until its
    code is as fast as it gets (0 where there is one tier), `pack_ns` of its weights, and
    `first_run_ns` of the first call.
    """

    compile_ns: PreparationTime
    optimise_ns: PreparationTime
    pack_ns: PreparationTime
    first_run_ns: PreparationTime

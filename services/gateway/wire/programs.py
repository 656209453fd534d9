"""Programs: workloads that no operator names, by what they compute."""

from typing import Annotated

from pydantic import Field, StringConstraints

from kernelzoo.domain.operators.parsing import MAX_TEXT_BYTES
from services.gateway.wire.model import STORABLE, KeyText, WireModel

ProgramText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_TEXT_BYTES, pattern=STORABLE),
    Field(examples=["a: f32[8]\nb: f32[8]\nc[i: 8] = tanh(a[i] + b[i])"]),
]


class ProgramRequest(WireModel):
    """`name` is for people: a to z, 0 to 9 and _."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,40}$")]
    text: ProgramText


class ProgramWire(WireModel):
    """`text` is normalised: programs that compute the same have the same key."""

    workload: KeyText
    text: ProgramText
    flops: int

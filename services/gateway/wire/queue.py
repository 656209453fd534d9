"""A page that tunes itself is sent these, one object a line."""

from typing import Annotated, Literal

from pydantic import Field

from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.model import KeyText, WireModel


class QueuedKernel(WireModel):
    """`expected`: its time over that of the default kernel, as others measured it; `predicted`: as
    the cost model foretells it. Null where nobody has, and where it does not.
    """

    kernel: Kernel
    expected: float | None
    predicted: float | None


class QueueBatch(WireModel):
    """Candidates to try, the best first. `expected_ms`: what the calls of the workload take an
    inference on this class; `gain_ms`: how much of it may be saved; null where nobody has measured
    it. `waiting`: further candidates that are being compiled. A right output differs from the
    default kernel's by at most `tolerance` in every entry. `cursor`: what is given back as `after`
    to be sent only what is compiled later.
    """

    workload: KeyText
    calls: int
    flops: int
    tolerance: float
    expected_ms: float | None
    gain_ms: float | None
    candidates: list[QueuedKernel]
    waiting: int
    cursor: str


class QueueWaits(WireModel):
    """Nothing is new, and so many candidates are being compiled."""

    waiting: int


class QueueEnd(WireModel):
    """The last line. `settled`: the class has confirmed every workload. `complete`: all there is
    was sent. `waited`: more is being compiled; ask again after `retry_s`.
    """

    end: Literal["settled", "complete", "waited"]
    retry_s: Annotated[int, Field(ge=0)]
    cursor: str


QueueLine = QueueBatch | QueueWaits | QueueEnd

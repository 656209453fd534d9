"""A lease lends candidates to one agent; its measurements answer it."""

from typing import Annotated

from pydantic import Field

from kernelzoo.domain.ballot import MOST_LINES
from kernelzoo.domain.measurement import Outcome
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.model import STORABLE, CandidateId, KeyText, WireModel
from services.gateway.wire.preparation import PreparationWire

Nanoseconds = Annotated[float, Field(gt=0, le=60e9, allow_inf_nan=False)]
Samples = Annotated[list[Nanoseconds], Field(max_length=64)]


class LeaseRequest(WireModel):
    """At most `limit` candidates; wait up to `wait_s` until there is one. A page that runs a model
    names its `workloads`, those first in which most time may be won, and is lent of no others.
    """

    limit: Annotated[int, Field(ge=1, le=16)] = 8
    wait_s: Annotated[float, Field(ge=0, le=25)] = 20
    workloads: Annotated[list[KeyText], Field(min_length=1, max_length=64)] | None = None


class MeasuredKernel(WireModel):
    """`relative_time`: best sample over best sample of the reference beside it."""

    kernel: Kernel
    relative_time: float


class Lease(WireModel):
    """`reference` is the kernel whose output is compared with and whose time is interleaved.

    Inputs follow from `seed` (`kernelzoo/domain/seeded.py`); a right output differs from the
    reference's by at most `tolerance` in every entry. `measured` are the fastest that this
    identity has reported before, so that a restarted agent still ranks all. Agents of one device
    class share the candidates of a job: `unmeasured` counts those left after this lease that
    nobody holds yet. `complete`: all are measured, the fastest by as many as confirm a winner, and
    with this lease, which may be empty, this agent has done its share; then it times `finalists`,
    which lead its class, and its own best in rounds in which all take turns, and files its final
    ballot.
    """

    lease: str
    nonce: str
    expires_in_s: float
    workload: KeyText
    flops: int
    seed: Annotated[int, Field(ge=0, le=0xFFFFFFFF)]
    tolerance: float
    reference: Kernel
    candidates: list[Kernel]
    measured: list[MeasuredKernel]
    unmeasured: int
    complete: bool
    finalists: list[CandidateId] = Field(default_factory=list)


class MeasurementWire(WireModel):
    """`sampled_entries`: 64 output values at the positions that the seed names, when `ok`. Agents
    of before do not tell the `preparation`; what contradicts the samples is not stored.
    """

    candidate: CandidateId
    outcome: Annotated[Outcome, Field(strict=False)]
    samples_ns: Samples
    reference_ns: Samples
    calls_per_sample: Annotated[int, Field(ge=1, le=1_000_000)]
    sampled_entries: Annotated[list[float], Field(max_length=64)]
    detail: Annotated[str, Field(max_length=500, pattern=STORABLE)]
    preparation: PreparationWire | None = None


class LeaseReport(WireModel):
    nonce: Annotated[str, Field(max_length=64)]
    measurements: Annotated[list[MeasurementWire], Field(min_length=1, max_length=16)]


class ReportAccepted(WireModel):
    accepted: int


class BallotLineWire(WireModel):
    candidate: CandidateId
    relative_time: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]


class BallotRequest(WireModel):
    """Fastest first. Replaces this identity's earlier ballot for the same key.

    `paired`: these are the times of rounds in which all of them and the reference took turns.
    `in_tokens`: the fastest were timed within whole tokens of a language model, too.
    """

    workload: KeyText
    lines: Annotated[list[BallotLineWire], Field(min_length=1, max_length=MOST_LINES)]
    in_tokens: bool = False
    paired: bool = False


class BallotAccepted(WireModel):
    lines: int

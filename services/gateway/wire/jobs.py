"""A tuning job: one workload on one target and space, and how far it has come."""

from typing import Annotated

from pydantic import Field

from kernelzoo.domain.target import TargetKind
from services.gateway.wire.model import KeyText, MeasuredTarget, WireModel


class JobRequest(WireModel):
    """For webgpu this is the job of GPUs without a known model; the job of each model is opened
    when an agent with such a GPU asks for work.
    """

    workload: KeyText
    target: MeasuredTarget = TargetKind.WASM


class Job(WireModel):
    """`space` is the model of GPU for webgpu, '' for wasm. `state`: waiting for its candidates,
    planned once they are rows, failed with its `detail`, or cancelled.

    Counts are over candidates, except `measurements` (accepted, any agent) and `ballots`. `agents`
    have measured at least one candidate. `entries` are those of the zoo that classes of this target
    and space have of the workload, `final` those whose vote nothing contends with any more: a job
    is done when all of them are, until another device comes. Times are null until there is one.
    Classes in `skipped_by` are lent nothing of it: each has lost two devices at it in seven days.
    """

    job: int
    workload: KeyText
    target: TargetKind
    space: str
    state: str
    flops: int
    candidates: int
    compiled: int
    failed: int
    compile_ms_median: float | None
    compile_ms_last: float | None
    measurements: int
    agents: int
    ballots: int
    best_ns: float | None
    entries: int
    final: int
    skipped_by: list[str]
    detail: str


class JobList(WireModel):
    """`total` counts what the limit left out, too."""

    jobs: list[Job]
    total: int


class WorkloadSetRequest(WireModel):
    workloads: Annotated[list[KeyText], Field(min_length=1, max_length=512)]


class WorkloadSet(WireModel):
    name: str
    workloads: list[KeyText]


class OwnedSet(WireModel):
    """`application` is null where the set is the operator's."""

    name: str
    application: str | None
    workloads: list[str]


class SetList(WireModel):
    sets: list[OwnedSet]

"""The console shows these. Nothing here is about a single identity."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from kernelzoo.domain.zoo import EntryState
from services.gateway.wire.denials import Decision
from services.gateway.wire.jobs import Job
from services.gateway.wire.model import CandidateId, KeyText, Sha256, WireModel
from services.gateway.wire.results import SettingWire
from services.gateway.wire.sessions import HardwareWire
from services.gateway.wire.zoo import CostsWire, EvidenceWire


class Reason(StrEnum):
    """FIRST: the first ballots; LEAD: another leads before the quorum; QUORUM: it is there;
    CHALLENGE: a challenger beat the champion, or the default kernel took its place again;
    DECIDED: no vote alone, but what is kept in words.
    """

    FIRST = "first"
    LEAD = "lead"
    QUORUM = "quorum"
    CHALLENGE = "challenge"
    DECIDED = "decided"


class Promotion(WireModel):
    """A version of a key that was published, and why: `detail` says it in words, '' where the vote
    alone does. `previous` is the kernel before it.
    """

    workload: KeyText
    device_class: str
    version: int
    state: EntryState
    reason: Reason
    detail: str
    candidate: CandidateId
    previous: CandidateId | None
    ballots: int
    relative_time: float
    published_at: str


class Overview(WireModel):
    """`agents_recent` took a lease within `recent_s` seconds. `jobs_unplanned` have no candidates
    yet, `candidates_waiting` are not compiled.
    """

    workloads: int
    device_classes: int
    devices: int
    agents_recent: int
    recent_s: int
    confirmed: int
    provisional: int
    jobs_unplanned: int
    candidates_waiting: int
    quorum: int
    promotions: list[Promotion]


class ClassOfDevices(WireModel):
    """`engines`: the last few that agents of the class ran in, each with its major version."""

    device_class: str
    hardware: HardwareWire
    engines: list[str]
    identities: int


class CoverageRow(WireModel):
    """`marks` has one letter for each workload of the map, in its order: `c` confirmed, `p`
    provisional, `m` missing, `-` not registered for the target of this class.
    """

    device: ClassOfDevices
    marks: Annotated[str, Field(pattern=r"^[cpm-]*$")]


class Coverage(WireModel):
    """Classes of most identities and workloads of most entries first. The totals count what the
    limits left out, too.
    """

    workloads: list[KeyText]
    classes: list[CoverageRow]
    total_workloads: int
    total_classes: int


class FoundKey(WireModel):
    """A key with a live entry."""

    workload: KeyText
    device_class: str
    hardware: HardwareWire
    engines: list[str]
    version: int
    state: EntryState
    ballots: int
    relative_time: float
    published_at: str


class FoundKeys(WireModel):
    """`total` counts all that fit, on this page of the list or not."""

    keys: list[FoundKey]
    total: int


class Version(WireModel):
    """`detail` says in words why it came, '' where the vote alone does. `served`: published as
    confirmed, so that pages got it while it lived.
    """

    version: int
    state: EntryState
    reason: Reason
    detail: str
    served: bool
    candidate: CandidateId
    artifact: Sha256
    evidence: EvidenceWire
    published_at: str


class CandidateStanding(WireModel):
    """`best_ns`: the median over `identities` of each one's best time, null for a failure.
    `votes`: in how many ballots it has each of the five ranks, the first rank first.
    """

    candidate: CandidateId
    artifact: Sha256
    config: dict[str, SettingWire]
    requires: list[str]
    outcome: str
    best_ns: float | None
    gflops: float | None
    identities: int
    compile_ms: float
    votes: list[int]


class OfferedKernel(WireModel):
    """A page is offered this if it runs the workload up to `runs` times; null for the kernel of the
    live entry, which is for all more.
    """

    runs: int | None
    candidate: CandidateId
    costs: CostsWire


class Key(WireModel):
    """`candidates` that were measured, the fastest first. Where `shown` is false they are kept
    back, since the class has fewer identities than `quorum`; `measured` says how many there are.
    `by_runs`: what the live entry costs a page, last, and kernels that cost less for few runs.
    `decisions`: which of its kernels the class is never served, or is whatever the crowd says.
    """

    workload: KeyText
    device_class: str
    device: ClassOfDevices
    flops: int
    quorum: int
    shown: bool
    reference: CandidateId | None
    measured: int
    candidates: list[CandidateStanding]
    by_runs: list[OfferedKernel]
    history: list[Version]
    decisions: list[Decision]


class OutcomeCount(WireModel):
    """`outcome`: `ok`, the stage of a failure, or `rejected` by a check of the output."""

    outcome: Literal["ok", "validate", "compile", "run", "compare", "timeout", "rejected"]
    measurements: int


class Improvement(WireModel):
    """`round`: how many measurements the class had made; `elapsed_s`: since its first lease."""

    round: int
    elapsed_s: float
    gflops: float


class Curve(WireModel):
    """A class came so to its best kernel in `elapsed_s` from its first lease to its last
    measurement. Where `shown` is false, `points` are kept back.
    """

    device: ClassOfDevices
    shown: bool
    candidates: int
    outcomes: list[OutcomeCount]
    points: list[Improvement]
    elapsed_s: float
    last_at: str


class Progress(WireModel):
    """A job with the curves of the classes that measured it, the latest active first."""

    job: Job
    quorum: int
    curves: list[Curve]

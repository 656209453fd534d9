"""What the zoo answers to a page, and what it lists for people."""

from typing import Any, Literal

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import EntryState, HitLevel
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.model import WireModel, WorkloadKey


class EvidenceWire(WireModel):
    """`weight` of `total_weight`: the share of rank weights given to the winner."""

    ballots: int
    weight: int
    total_weight: int
    relative_time: float


class ManifestEntry(WireModel):
    """`level` is the step of the fallback chain. `fallback` is the default kernel, to be used
    when `kernel` fails on this page; `state`, `version` and `evidence` are null at `default`.
    """

    workload: WorkloadKey
    flops: int
    level: HitLevel
    kernel: Kernel
    fallback: Kernel
    state: EntryState | None
    version: int | None
    evidence: EvidenceWire | None


class Manifest(WireModel):
    """`missing` are workloads of the set for which no kernel has been compiled yet."""

    manifest: Literal[1]
    set: str
    device_class: str
    entries: list[ManifestEntry]
    missing: list[WorkloadKey]


class ZooEntry(WireModel):
    """`best_ns` and `gflops`: the median over identities of each one's best sample."""

    workload: WorkloadKey
    device_class: str
    version: int
    state: EntryState
    published_at: str
    candidate: str
    kind: TargetKind
    config: dict[str, Any]
    requires: list[str]
    artifact: str
    evidence: EvidenceWire
    best_ns: float | None
    gflops: float | None


class ZooList(WireModel):
    entries: list[ZooEntry]


class Device(WireModel):
    """A device that ran an agent, with the engines seen on it."""

    device_id: str
    cpu_architecture: str
    logical_cores: int
    gpu_vendor: str
    gpu_architecture: str
    engines: list[str]
    peak_gflops: float
    agents: int
    measurements: int
    last_seen_at: str


class DeviceList(WireModel):
    devices: list[Device]

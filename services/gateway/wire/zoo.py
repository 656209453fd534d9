"""Describes what the zoo answers to a page, and what it lists for people."""

from typing import Any, Literal

from pydantic import Field

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import AdviceBasis, EntryState, HitLevel
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.model import KeyText, WireModel
from services.gateway.wire.preparation import PreparationWire


class EngineVotesWire(WireModel):
    """Ballots that were cast in one major version of an engine."""

    name: str
    major: int
    ballots: int


class EvidenceWire(WireModel):
    """`weight` of `total_weight`: the share of rank weights given to the winner. `engines`: what
    the counted ballots were cast in. `rank`: the place of `relative_time` among those of all
    kernels that voters measured, from 1; `spread`: how far apart the middle half of the voters find
    it, as a share. Both are null of entries of before, `spread` of one voter.
    """

    ballots: int
    weight: int
    total_weight: int
    relative_time: float
    engines: list[EngineVotesWire]
    rank: int | None = None
    spread: float | None = None


class TimingWire(WireModel):
    """The served kernel is so fast on this class: the median over identities of each one's best
    time of one call, from verified measurements alone.
    """

    best_ns: float
    identities: int


class GroundsWire(WireModel):
    """A step of the fallback chain rests on these: `identities` in `classes` device classes.

    `relative_time`: the kernel's time over that of the best known, as expected from these classes.
    `rho_distance`: bits in which their primitive vector differs from that of this class, 65 where
    the two cannot be compared. `neighbour`: the workload that the kernel's settings won. Each is
    null where the step knows no such thing; the cost model's has no identities of its own.
    """

    identities: int
    classes: int
    relative_time: float | None
    rho_distance: int | None
    neighbour: KeyText | None


class CostsWire(PreparationWire):
    """A kernel costs a page of this class so much: its preparation, and `run_ns` of each warm run.
    They are medians over `identities` whose ballots count, of verified measurements alone.
    """

    run_ns: float
    identities: int


class KernelForRuns(WireModel):
    """A kernel that costs a page less, all in all, where it is run up to `runs` times."""

    runs: int
    kernel: Kernel
    costs: CostsWire


class ServedKernel(WireModel):
    """One class of devices is served this for a workload.

    `level` is the step of the fallback chain, and `grounds` what it rests on, null at `default`.
    `fallback` is the default kernel, to be used when `kernel` fails on this page; `state`,
    `version` and `evidence` are of this class's own entry, null at every step but `exact`.
    `timing` is null while nobody has measured `kernel` on this class. A right output on seeded
    inputs differs by at most `tolerance` in every entry from that of the default kernel of wasm,
    or of webgpu where there is none of wasm.
    `costs` are those of `kernel`, null where too few have told them; `by_runs` are other kernels,
    for the fewest runs first. For more runs than they say, `kernel` is the best.
    """

    tolerance: float
    level: HitLevel
    kernel: Kernel
    fallback: Kernel
    state: EntryState | None
    version: int | None
    evidence: EvidenceWire | None
    timing: TimingWire | None
    grounds: GroundsWire | None
    costs: CostsWire | None = None
    by_runs: list[KernelForRuns] = Field(default_factory=list)


class Advice(WireModel):
    """Advises which target to run: one that this entry has a kernel of.

    `measured`: enough identities have timed both, and this one is faster; the evidence is their
    `timing`. `none`: it is not known; then it is wasm, unless there is no kernel of wasm.
    """

    target: TargetKind
    basis: AdviceBasis


class ManifestEntry(WireModel):
    """The kernels of one workload by target; null for a target whose class was not asked for,
    and where none has been compiled yet. Those of javascript are compiled for the first page that
    asks for their class.
    """

    workload: KeyText
    flops: int
    wasm: ServedKernel | None
    webgpu: ServedKernel | None
    javascript: ServedKernel | None = None
    advice: Advice


class SignatureWire(WireModel):
    """Ed25519 by `key`, whose id is the public key itself; both in base64url without padding."""

    key: str
    signature: str


class Manifest(WireModel):
    """`device_classes` as they were asked for, `missing` the workloads of the set for which no
    kernel has been compiled yet.

    `issued_at` is when it was signed, to the hour. `serial` grows with every kernel that the zoo
    confirms, offers for few runs, retires, denies or allows: a manifest with a lower one is of
    before.

    `signatures` is the last member and signs the bytes of the document without it: all before the
    last `,"signatures":`, and a closing brace. What is behind that is signed by nobody.
    """

    manifest: Literal[1]
    set: str
    device_classes: list[str]
    entries: list[ManifestEntry]
    missing: list[KeyText]
    issued_at: str
    serial: int
    signatures: list[SignatureWire]


class ZooEntry(WireModel):
    """`best_ns` and `gflops`: the median over identities of each one's best sample. `reason`: why
    this version replaced the one before it, '' where the vote alone says it. `contenders` were
    measured faster by more than the noise, by too few to say so, and are being measured by more.
    `final`: a quorum has voted, all that the class can run is measured, and nothing contends.
    """

    workload: KeyText
    device_class: str
    version: int
    state: EntryState
    published_at: str
    candidate: str
    target: TargetKind
    config: dict[str, Any]
    requires: list[str]
    artifact: str
    evidence: EvidenceWire
    reason: str
    contenders: list[str]
    final: bool
    best_ns: float | None
    gflops: float | None


class ZooList(WireModel):
    """`total` counts what the limit left out, too; `next` is `after` of the next page, null on the
    last one.
    """

    entries: list[ZooEntry]
    total: int
    next: str | None


class Device(WireModel):
    """A device that ran an agent, with the engines seen on it and what was probed: the
    register-only limits of one core and of the whole GPU, null where nothing was. `agents` and
    `measurements` count all that there ever were, those that were removed since among them.
    """

    device_id: str
    cpu_architecture: str
    logical_cores: int
    gpu_vendor: str
    gpu_architecture: str
    gpu_model: str
    engines: list[str]
    core_gflops: float | None
    gpu_gflops: float | None
    agents: int
    measurements: int
    last_seen_at: str


class DeviceList(WireModel):
    """`total` counts what the limit left out, too."""

    devices: list[Device]
    total: int


class PublicKey(WireModel):
    """`x` is the key in base64url; `kid` is the same, since a key is its own id here."""

    kty: Literal["OKP"] = "OKP"
    crv: Literal["Ed25519"] = "Ed25519"
    use: Literal["sig"] = "sig"
    kid: str
    x: str


class KeyList(WireModel):
    keys: list[PublicKey]

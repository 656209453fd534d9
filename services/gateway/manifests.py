"""Manifests as they are served: built from rows, remembered until rows change."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from kernelzoo.domain.artifact import ArtifactManifest
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.seeded import comparison_tolerance
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import EntryState, HitLevel
from kernelzoo.signing import Signer
from kernelzoo.store.candidates import KernelRow
from kernelzoo.store.zoo import ServedRow
from services.gateway.advice import advise
from services.gateway.wake import Wake
from services.gateway.wire.artifacts import (
    ArtifactWire,
    DispatchWire,
    Kernel,
    LayoutWire,
    TensorWire,
)
from services.gateway.wire.zoo import (
    EvidenceWire,
    Manifest,
    ManifestEntry,
    ServedKernel,
    TimingWire,
)

CAPACITY = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedManifest:
    body: bytes
    etag: str


class ManifestCache:
    """Remembers manifests while the gateway hears of every change; forgets all with each one."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._generation = -1
        self._held: dict[tuple[str, ...], ServedManifest] = {}

    def get(self, name: str, *device_classes: str) -> ServedManifest | None:
        if not self._wake.connected or self._generation != self._wake.generation:
            return None
        return self._held.get((name, *device_classes))

    def put(self, name: str, *device_classes: str, served: ServedManifest, generation: int) -> None:
        """`generation` is the one seen before the rows were read; an older one is not kept."""
        if generation != self._wake.generation:
            return
        if self._generation != generation or len(self._held) >= CAPACITY:
            self._held.clear()
            self._generation = generation
        self._held[name, *device_classes] = served


def kernel(candidate_id: str, sha256_hex: str, size_bytes: int, made: ArtifactManifest) -> Kernel:
    artifact = _artifact(sha256_hex, size_bytes, made)
    layouts = [
        LayoutWire(
            tensor=each.tensor,
            layout=each.layout,
            pack=_artifact(each.pack.sha256, each.pack.size_bytes, each.pack.manifest),
        )
        for each in made.layouts
    ]
    return Kernel(**dict(artifact), candidate=candidate_id, layouts=layouts)


def _artifact(sha256_hex: str, size_bytes: int, made: ArtifactManifest) -> ArtifactWire:
    return ArtifactWire(
        sha256=sha256_hex,
        url=f"/v1/artifacts/{sha256_hex}.{made.kind}",
        size_bytes=size_bytes,
        abi=1,
        kind=made.kind,
        requires=list(made.requires),
        tensors=[
            TensorWire(name=t.name, role=t.role, dtype=t.dtype, shape=list(t.shape), limit=t.limit)
            for t in made.tensors
        ],
        scratch_bytes=made.scratch_bytes,
        range_extent=made.range_extent,
        dispatches=[
            DispatchWire(entry=each.entry, workgroups=each.workgroups, threads=each.threads)
            for each in made.dispatches
        ],
    )


def kernel_of(row: KernelRow) -> Kernel:
    return kernel(row.candidate_id, row.sha256, row.size_bytes, row.artifact_manifest())


def manifest(
    name: str,
    device_classes: tuple[DeviceClass, ...],
    rows_by_class: Sequence[list[ServedRow]],
    *,
    quorum: int,
) -> Manifest:
    """`rows_by_class`: of each class the same workloads in the same order."""
    kinds = [device_class.target.kind for device_class in device_classes]
    pairs = [
        (rows[0].workload_key, _entry(dict(zip(kinds, rows, strict=True)), quorum))
        for rows in zip(*rows_by_class, strict=True)
    ]
    return Manifest(
        manifest=1,
        set=name,
        device_classes=[str(device_class) for device_class in device_classes],
        entries=[entry for _, entry in pairs if entry is not None],
        missing=[workload_key for workload_key, entry in pairs if entry is None],
        signatures=[],
    )


def encode(document: Manifest, signer: Signer) -> ServedManifest:
    """Signed here, once. The tag is of the signatures too: who holds old ones asks again."""
    body = signer.seal(document.model_dump_json(exclude={"signatures"}).encode())
    return ServedManifest(body=body, etag=f'"{sha256(body).hexdigest()[:32]}"')


def _entry(row_by_kind: dict[TargetKind, ServedRow], quorum: int) -> ManifestEntry | None:
    served = {kind: _served(row, kind) for kind, row in row_by_kind.items()}
    wasm, webgpu = served.get(TargetKind.WASM), served.get(TargetKind.WEBGPU)
    if wasm is None and webgpu is None:
        return None
    row = next(iter(row_by_kind.values()))
    return ManifestEntry(
        workload=row.workload_key,
        flops=row.flops,
        wasm=wasm,
        webgpu=webgpu,
        advice=advise(wasm, webgpu, quorum=quorum),
    )


def _served(row: ServedRow, kind: TargetKind) -> ServedKernel | None:
    fallback = row.fallback()
    if fallback is None:
        return None
    winner = row.winner()
    return ServedKernel(
        tolerance=comparison_tolerance(Workload.parse(row.workload_key), kind),
        level=HitLevel.EXACT if winner else HitLevel.DEFAULT,
        kernel=kernel_of(winner or fallback),
        fallback=kernel_of(fallback),
        state=EntryState(row.state) if row.state else None,
        version=row.version,
        evidence=_evidence(row),
        timing=_timing(row),
    )


def _timing(row: ServedRow) -> TimingWire | None:
    if row.best_ns is None:
        return None
    return TimingWire(best_ns=row.best_ns, identities=row.identities)


def _evidence(row: ServedRow) -> EvidenceWire | None:
    if (
        row.ballots is None
        or row.weight is None
        or row.total_weight is None
        or row.relative_time is None
    ):
        return None
    return EvidenceWire(
        ballots=row.ballots,
        weight=row.weight,
        total_weight=row.total_weight,
        relative_time=row.relative_time,
    )

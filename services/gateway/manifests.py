"""Manifests as they are served: built from rows, remembered until rows change."""

from dataclasses import dataclass
from hashlib import sha256

from kernelzoo.domain.artifact import ArtifactManifest
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.seeded import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import EntryState, HitLevel
from kernelzoo.store.candidates import KernelRow
from kernelzoo.store.zoo import ServedRow
from services.gateway.wake import Wake
from services.gateway.wire.artifacts import (
    ArtifactWire,
    DispatchWire,
    Kernel,
    LayoutWire,
    TensorWire,
)
from services.gateway.wire.zoo import EvidenceWire, Manifest, ManifestEntry

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
        self._held: dict[tuple[str, str], ServedManifest] = {}

    def get(self, name: str, device_class: str) -> ServedManifest | None:
        if not self._wake.connected or self._generation != self._wake.generation:
            return None
        return self._held.get((name, device_class))

    def put(self, name: str, device_class: str, served: ServedManifest, *, generation: int) -> None:
        """`generation` is the one seen before the rows were read; an older one is not kept."""
        if generation != self._wake.generation:
            return
        if self._generation != generation or len(self._held) >= CAPACITY:
            self._held.clear()
            self._generation = generation
        self._held[name, device_class] = served


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


def manifest(name: str, device_class: DeviceClass, rows: list[ServedRow]) -> Manifest:
    pairs = [(row, _entry(row)) for row in rows]
    return Manifest(
        manifest=1,
        set=name,
        device_class=str(device_class),
        entries=[entry for _, entry in pairs if entry is not None],
        missing=[row.workload_key for row, entry in pairs if entry is None],
    )


def encode(document: Manifest) -> ServedManifest:
    body = document.model_dump_json().encode()
    return ServedManifest(body=body, etag=f'"{sha256(body).hexdigest()[:32]}"')


def _entry(row: ServedRow) -> ManifestEntry | None:
    fallback = row.fallback()
    if fallback is None:
        return None
    winner = row.winner()
    return ManifestEntry(
        workload=row.workload_key,
        flops=row.flops,
        tolerance=comparison_tolerance(Workload.parse(row.workload_key)),
        level=HitLevel.EXACT if winner else HitLevel.DEFAULT,
        kernel=kernel_of(winner or fallback),
        fallback=kernel_of(fallback),
        state=EntryState(row.state) if row.state else None,
        version=row.version,
        evidence=_evidence(row),
    )


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

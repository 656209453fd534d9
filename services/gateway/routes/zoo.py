"""What the zoo serves: manifests, artifacts, and lists for people."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Path, Response

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import EntryState
from kernelzoo.store import agents, candidates, tuning, zoo
from kernelzoo.store.asynchronous import fetch_all, fetch_one
from services.gateway import manifests
from services.gateway.problems import Refusal
from services.gateway.state import Shared, State
from services.gateway.wire.model import WorkloadKey
from services.gateway.wire.zoo import (
    Device,
    DeviceList,
    EvidenceWire,
    Manifest,
    ZooEntry,
    ZooList,
)

router = APIRouter(tags=["zoo"])

MANIFEST_CACHE = "public, max-age=60, stale-while-revalidate=86400, stale-if-error=86400"
ARTIFACT_CACHE = "public, max-age=31536000, immutable"
MEDIA_TYPES = {TargetKind.WASM: "application/wasm", TargetKind.WEBGPU: "text/wgsl"}


@router.get("/v1/zoo")
async def list_entries(state: Shared, workload: WorkloadKey | None = None) -> ZooList:
    """Every key's live entry, provisional or confirmed, the latest first."""
    async with state.pool.connection() as db:
        rows = await fetch_all(db, zoo.entries(workload))
    return ZooList(entries=[_entry(row) for row in rows])


@router.get("/v1/zoo/{name}/{device_class}", response_model=Manifest)
async def get_manifest(
    name: WorkloadKey,
    device_class: Annotated[str, Path(max_length=256)],
    state: Shared,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The kernels of a workload set, or of one workload by its key, for a class of devices."""
    served = state.manifests.get(name, device_class)
    if served is None:
        served = await _build(state, name, device_class)
    headers = {"ETag": served.etag, "Cache-Control": MANIFEST_CACHE}
    if if_none_match is not None and served.etag in if_none_match:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(served.body, media_type="application/json", headers=headers)


async def _build(state: State, name: str, device_class: str) -> manifests.ServedManifest:
    parsed = DeviceClass.parse(device_class)
    generation = state.wake.generation
    async with state.pool.connection() as db:
        members = await fetch_all(db, tuning.workloads_of(name))
        if not members:
            raise Refusal(
                HTTPStatus.NOT_FOUND,
                f"{name[:128]!r} is no registered workload set or workload; "
                "the operator registers one with `kernelzoo tune`",
            )
        rows = await fetch_all(db, zoo.served([m.workload_key for m in members], parsed))
    served = manifests.encode(manifests.manifest(name, parsed, rows))
    state.manifests.put(name, device_class, served, generation=generation)
    return served


@router.get("/v1/artifacts/{sha256}.{kind}")
async def get_artifact(
    sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")], kind: TargetKind, state: Shared
) -> Response:
    """The bytes of a compiled kernel. They never change."""
    async with state.pool.connection() as db:
        row = await fetch_one(db, candidates.artifact_body(sha256, kind))
    if row is None:
        raise Refusal(HTTPStatus.NOT_FOUND, "no artifact has this hash; read the manifest again")
    headers = {"Cache-Control": ARTIFACT_CACHE, "ETag": f'"{sha256}"'}
    return Response(row.body, media_type=MEDIA_TYPES[kind], headers=headers)


@router.get("/v1/devices")
async def list_devices(state: Shared) -> DeviceList:
    """Devices that ran an agent, the latest first."""
    async with state.pool.connection() as db:
        rows = await fetch_all(db, agents.devices())
    return DeviceList(devices=[_device(row) for row in rows])


def _entry(row: zoo.EntryRow) -> ZooEntry:
    return ZooEntry(
        workload=row.workload_key,
        device_class=row.device_class,
        version=row.version,
        state=EntryState(row.state),
        published_at=row.published_at.isoformat(),
        candidate=row.candidate_id,
        kind=TargetKind(row.kind),
        config=row.config,
        requires=list(row.artifact_manifest().requires),
        artifact=row.sha256,
        evidence=EvidenceWire(
            ballots=row.ballots,
            weight=row.weight,
            total_weight=row.total_weight,
            relative_time=row.relative_time,
        ),
        best_ns=row.best_ns,
        gflops=row.flops / row.best_ns if row.best_ns else None,
    )


def _device(row: agents.DeviceRow) -> Device:
    return Device(
        device_id=row.device_id,
        cpu_architecture=row.cpu_architecture,
        logical_cores=row.logical_cores,
        gpu_vendor=row.gpu_vendor,
        gpu_architecture=row.gpu_architecture,
        engines=row.engines,
        peak_gflops=row.peak_gflops,
        agents=row.agents,
        measurements=row.measurements,
        last_seen_at=row.last_seen_at.isoformat(),
    )

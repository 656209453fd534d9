"""Serves the zoo: manifests, artifacts, and lists for people."""

import time
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Header, Path, Query, Request, Response

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import MEASURED, TargetKind
from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.errors import InvalidInput
from kernelzoo.metrics import ARTIFACT_SENT_BYTES, MANIFEST_DURATION, MANIFEST_KERNELS
from kernelzoo.store import agents, candidates, tuning, zoo
from kernelzoo.store.asynchronous import fetch_all, fetch_one
from services.gateway import manifests
from services.gateway.answering import answer, hardware_of
from services.gateway.cursors import Cursor, cursor, position
from services.gateway.lists import listed
from services.gateway.models import have_compiled
from services.gateway.problems import Refusal
from services.gateway.purging import artifact_tag, class_tags, tagged
from services.gateway.recall import Asked, asked, recalled
from services.gateway.state import Shared, State, network_of
from services.gateway.views import evidence
from services.gateway.wire.model import KeyText
from services.gateway.wire.zoo import (
    Device,
    DeviceList,
    KeyList,
    Manifest,
    PublicKey,
    ZooEntry,
    ZooList,
)

router = APIRouter(tags=["zoo"])

MANIFEST_CACHE = "public, max-age=60, stale-while-revalidate=60, stale-if-error=86400"
"""A cache that hears of no denial gives a denied kernel for two minutes at most while the zoo
answers."""
DEVICES_CACHE = "public, max-age=5"
KEYS_CACHE = "public, max-age=60"
ARTIFACT_CACHE = "public, max-age=31536000, immutable"
ClassText = Annotated[str, Path(max_length=256)]
IfNoneMatch = Annotated[str | None, Header()]
Told = Annotated[
    str | None,
    Query(
        max_length=512,
        description="The hardware that the device id is the hash of, as JSON: so a device that "
        "never ran an agent is served what its architecture's others found. It is refused where "
        "the hash is another.",
    ),
]
After = Annotated[
    int,
    Query(
        ge=0,
        lt=1 << 63,
        description="A serial that the page has seen: an older manifest is built anew.",
    ),
]
MEDIA_TYPES = {
    TargetKind.WASM: "application/wasm",
    TargetKind.WEBGPU: "text/wgsl",
    TargetKind.JAVASCRIPT: "text/javascript",
}


@router.get("/v1/zoo")
async def list_entries(
    state: Shared,
    workload: KeyText | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    after: Cursor = None,
) -> ZooList:
    """Every key's live entry, provisional or confirmed, the latest first: `limit` of them, and
    `next` for those behind them.
    """
    behind = _published_before(after) if after else None
    async with state.pool.connection() as db:
        total = await fetch_one(db, zoo.live(workload))
        rows = await fetch_all(db, zoo.entries(workload, behind, limit + 1))
    assert total is not None, "an aggregate is one row"
    page, more = rows[:limit], len(rows) > limit
    return ZooList(
        entries=listed(page, _entry),
        total=total.entries,
        next=_next(page) if more else None,
    )


def _next(page: list[zoo.EntryRow]) -> str:
    last = page[-1]
    return cursor(last.published_at.isoformat(), last.workload_key, last.device_class)


def _published_before(after: str) -> zoo.Listed:
    published_at, key, device_class = position(after, 3)
    try:
        at = datetime.fromisoformat(published_at)
    except ValueError as error:
        raise InvalidInput(f"after={after[:80]!r} is no cursor of this list") from error
    return zoo.Listed(published_at=at, workload_key=WorkloadKey(key), device_class=device_class)


@router.get("/v1/zoo/{name}/{device_class}", response_model=Manifest)
async def get_manifest(
    name: KeyText,
    device_class: ClassText,
    request: Request,
    state: Shared,
    if_none_match: IfNoneMatch = None,
    hardware: Told = None,
    after: After = 0,
) -> Response:
    """The kernels of a workload set, or of one workload by its key, for a class of devices."""
    by = asked(request.scope, network_of(request, state.tokens), after, device_class)
    return await _serve(state, by, if_none_match, hardware, name)


@router.get("/v1/zoo/{name}/{wasm_class}/{webgpu_class}", response_model=Manifest)
async def get_manifest_of_both(
    name: KeyText,
    wasm_class: ClassText,
    webgpu_class: ClassText,
    request: Request,
    state: Shared,
    if_none_match: IfNoneMatch = None,
    hardware: Told = None,
    after: After = 0,
) -> Response:
    """Serve a set as for one class, with the kernels of both targets of one device and the faster
    named."""
    both = wasm_class, webgpu_class
    by = asked(request.scope, network_of(request, state.tokens), after, *both)
    return await _serve(state, by, if_none_match, hardware, name)


async def _serve(
    state: State,
    by: Asked,
    if_none_match: str | None,
    told: str | None,
    name: str,
) -> Response:
    start_s = time.perf_counter()
    class_texts = by.device_classes
    told = None if told is None else manifests.hardware_text(told)
    key = (name, *class_texts, told or "")
    make = partial(_build, state, told, name, *class_texts)
    found = await recalled(state, state.manifests, key, by, make)
    served = found.served
    MANIFEST_DURATION.labels(found.cache).observe(time.perf_counter() - start_s)
    for level, kernels in served.levels:
        MANIFEST_KERNELS.labels(level).inc(kernels)
    if all(DeviceClass.parse(each).target.kind in MEASURED for each in class_texts):
        state.page_loads.count(name, *class_texts)
    headers = {**found.headers(MANIFEST_CACHE), **class_tags(*class_texts)}
    if if_none_match is not None and served.etag in if_none_match:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(served.body, media_type="application/json", headers=headers)


async def _build(
    state: State, told: str | None, name: str, *class_texts: str
) -> manifests.ServedManifest:
    classes = tuple(DeviceClass.parse(text) for text in class_texts)
    _refuse_odd_pair(classes)
    quorum = state.settings.quorum
    async with state.pages.connection() as db:
        members = await fetch_all(db, tuning.workloads_of(name))
        if not members:
            raise Refusal(
                HTTPStatus.NOT_FOUND,
                f"{name[:128]!r} is no registered workload set or workload; "
                "the operator registers one with `kernelzoo tune`",
            )
        keys: list[str] = [member.workload_key for member in members]
        known = await hardware_of(db, told, classes[0].device_id)
        found = [await answer(db, state.programs, keys, each, known, quorum) for each in classes]
    serial = members[0].serial
    document = manifests.manifest(name, classes, found, quorum=quorum, serial=serial)
    if document.missing and (target := classes[0].target.kind) not in MEASURED:
        await have_compiled(state, document.missing, target)
    return manifests.encode(document, state.signer, manifests.sources(classes, found))


def _refuse_odd_pair(classes: tuple[DeviceClass, ...]) -> None:
    """Raises Refusal unless two classes are wasm and webgpu, in this order, of one device."""
    if len(classes) == 1:
        return
    if tuple(each.target.kind for each in classes) != (TargetKind.WASM, TargetKind.WEBGPU):
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "two device classes must be of wasm and of webgpu, in this order",
        )
    if len({each.device_id for each in classes}) > 1:
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "two device classes must be of one device; their device ids differ",
        )


@router.get("/v1/artifacts/{sha256}.{target}")
async def get_artifact(
    sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
    target: TargetKind,
    state: Shared,
    after: BackgroundTasks,
) -> Response:
    """The bytes of a compiled kernel. They never change."""
    body = await state.standby.artifact(sha256, target)
    if body is None:
        async with state.pages.connection() as db:
            row = await fetch_one(db, candidates.artifact_body(sha256, target))
        if row is None:
            raise Refusal(
                HTTPStatus.NOT_FOUND, "no artifact has this hash; read the manifest again"
            )
        body = row.body
        after.add_task(state.standby.keep_artifact, sha256, target, body)
    ARTIFACT_SENT_BYTES.labels(target).inc(len(body))
    headers = {
        "Cache-Control": ARTIFACT_CACHE,
        "ETag": f'"{sha256}"',
        **tagged(artifact_tag(sha256)),
    }
    return Response(body, media_type=MEDIA_TYPES[target], headers=headers)


@router.get("/v1/devices", response_model=DeviceList)
async def list_devices(
    state: Shared,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Response:
    """Devices that ran an agent, the latest first. An answer is up to five seconds old."""

    async def make() -> bytes:
        async with state.pool.connection() as db:
            rows = await fetch_all(db, agents.devices(limit, offset))
        found = DeviceList(devices=listed(rows, _device), total=rows[0].total if rows else 0)
        return found.model_dump_json().encode()

    body = await state.remembered.get(("devices", limit, offset), make)
    return Response(body, media_type="application/json", headers={"Cache-Control": DEVICES_CACHE})


def _entry(row: zoo.EntryRow) -> ZooEntry:
    return ZooEntry.of(
        row,
        workload=row.workload_key,
        published_at=row.published_at.isoformat(),
        candidate=row.candidate_id,
        artifact=row.sha256,
        evidence=evidence(row),
        gflops=row.flops / row.best_ns if row.best_ns else None,
    )


def _device(row: agents.DeviceRow) -> Device:
    return Device.of(
        row,
        last_seen_at=row.last_seen_at.isoformat(),
    )


@router.get("/v1/signing-keys")
async def list_keys(state: Shared, response: Response) -> KeyList:
    """List the keys to compare a pin with. A page that trusted this answer would trust whoever
    gives it: pin keys in the page, as `KernelZoo.open(url, { keys })` takes them.
    """
    response.headers["Cache-Control"] = KEYS_CACHE
    return KeyList(keys=[PublicKey(kid=key, x=key) for key in state.signer.public_keys])
